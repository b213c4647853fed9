"""RLlib for language and vision-language agents: step-level credit assignment over real agent environments."""

from types import ModuleType

from wrapt import when_imported

from rllib_gigpo.registry import register_with_ray

__version__ = "0.1.0"


# `tune.Tuner("GiGPO")` works after `import rllib_gigpo`, and yet this import brings neither Ray nor torch. The hook
# runs at once where Ray Tune is already imported.
@when_imported("ray.tune.registry")
def _register_names(_: ModuleType) -> None:
    from ray._private import worker

    register_with_ray()
    worker._post_init_hooks.append(register_with_ray)
