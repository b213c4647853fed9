"""RLlib for language and vision-language agents: step-level credit assignment over real agent environments."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from wrapt import when_imported, wrap_function_wrapper

from rllib_gigpo.registry import register_with_ray

__version__ = "0.1.0"


def _register_again(
    reset: Callable[..., None], _: object, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    reset(*arguments, **options)
    register_with_ray()


# `tune.Tuner("GiGPO")` works after `import rllib_gigpo`, and yet this import brings neither Ray nor torch. The hook
# runs at once where Ray Tune is already imported.
@when_imported("ray.tune.registry")
def _register_names(_: ModuleType) -> None:
    register_with_ray()
    # Ray keeps registered names in the store that ends with `ray.shutdown`, which forgets them with this call. `Tuner`
    # looks names up before it starts Ray again, so that a hook after `ray.init` would be too late.
    wrap_function_wrapper("ray._private.worker", "_internal_kv_reset", _register_again)
