"""Search spaces inside a config: are there any, and is every config that comes out of them a good one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ray.tune.search.variant_generator import generate_variants, parse_spec_vars

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

# A grid of this many points is checked to the last one before anything starts.
_MAX_CHECKED = 200


def searched_paths(config: AlgorithmConfig) -> list[tuple[Any, ...]]:
    """Where in the config's dictionary there is a grid or a distribution of Tune's, as paths of keys."""
    _, domains, grids = parse_spec_vars(config.to_dict())
    return [path for path, _ in [*grids, *domains]]


def has_search_space(config: AlgorithmConfig) -> bool:
    """Whether any value is a grid or a distribution of Tune's."""
    return bool(searched_paths(config))


def checked_variants(config: AlgorithmConfig) -> list[AlgorithmConfig]:
    """The validated config, or where it holds search spaces one for each point of the grid, distributions sampled once.

    Raises:
        ValueError: As `config.validate()`; for a search space the message tells the point.
    """
    if not has_search_space(config):
        config.validate()
        return [config]
    variants = []
    for values, spec in islice(generate_variants({"config": config.to_dict()}, random_state=0), _MAX_CHECKED):
        variant = config.algo_class.get_default_config().update_from_dict(spec["config"])  # as Tune does it
        try:
            variant.validate()
        except ValueError as error:
            point = point_text({path[1:]: value for path, value in values.items()})
            raise ValueError(f"with {point}: {error}") from error
        variants.append(variant)
    return variants


def first_variant(config: AlgorithmConfig) -> AlgorithmConfig:
    """The config of the first point of the grid, distributions sampled once; not validated."""
    if not has_search_space(config):
        return config
    _, spec = next(iter(generate_variants({"config": config.to_dict()}, random_state=0)))
    return config.algo_class.get_default_config().update_from_dict(spec["config"])


def point_text(values: Mapping[tuple[Any, ...], Any]) -> str:
    """{("env_config", "max_steps"): 8} as "env_config/max_steps=8"."""
    return ", ".join(f"{'/'.join(map(str, path))}={_text(value)}" for path, value in values.items())


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def check_grids(value: Any, where: str, path: tuple[Any, ...] = ()) -> None:
    """Raises ValueError for a grid_search at any depth that is no filled list; the message names its key."""
    if isinstance(value, Mapping):
        if set(value) == {"grid_search"} and not (isinstance(value["grid_search"], list) and value["grid_search"]):
            key = "/".join(map(str, path)) or "grid_search"
            raise ValueError(
                f'{where} has {key}={dict(value)!r}; write a list of values, like {{"grid_search": [1, 2]}}'
            )
        for key, item in value.items():
            check_grids(item, where, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_grids(item, where, (*path, index))


def refuse_code(value: Any, where: str) -> None:
    """Raises ValueError for {"eval": "…"} at any depth of what was read from a text: Tune would run it as Python."""
    if isinstance(value, Mapping):
        if set(value) == {"eval"}:
            raise ValueError(
                f"{where} holds {dict(value)!r}, which Tune would run as Python code; write the values as "
                f'{{"grid_search": […]}}, or use a Python config file'
            )
        for item in value.values():
            refuse_code(item, where)
    elif isinstance(value, list | tuple):
        for item in value:
            refuse_code(item, where)
