"""From a config to the specs of its modules: what differs between them, and what they share."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec

from rllib_gigpo.algorithms.group_policy.model_path import absolute_model_path


def with_module_configs(config: Any, spec: MultiRLModuleSpec) -> MultiRLModuleSpec:
    """`spec` with each module's own model and adapter, where `algorithm_config_overrides_per_module` gives one, and
    with one copy in memory of a base model that several adapters share."""
    for module_id, module_spec in spec.rl_module_specs.items():
        if module_id in config.algorithm_config_overrides_per_module:
            own = config.get_config_for_module(module_id).get_default_rl_module_spec()
            module_spec.module_class = own.module_class
            module_spec.model_config = {**(module_spec.model_config or {}), **own.model_config}
    if len(spec.rl_module_specs) > 1 and spec.multi_rl_module_class is MultiRLModule:
        from rllib_gigpo.rl_modules.shared_base import SharedBaseMultiRLModule

        spec.multi_rl_module_class = SharedBaseMultiRLModule
    return spec


def with_absolute_paths(overrides_per_module: dict[str, Any]) -> dict[str, Any]:
    """The overrides with absolute model paths: workers run in other directories."""
    return {
        module_id: {**overrides, "model_path": absolute_model_path(overrides["model_path"])}
        if "model_path" in overrides
        else overrides
        for module_id, overrides in overrides_per_module.items()
    }
