"""From a config's `engine` to the engines of an env runner: one per module, and the one that its rollouts ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.multi_module_engine import MultiModuleEngine
from rllib_gigpo.inference.protocol import InferenceEngine, RolloutEngine


class Engines(NamedTuple):
    """The engines of an env runner.

    Attributes:
        of_module: Take weights and are probed, by module id.
        of_rollouts: Samples, for requests that name a module where there are several.
    """

    of_module: Mapping[str, InferenceEngine]
    of_rollouts: RolloutEngine


def build_engines(config: Any, modules: Mapping[str, Any], *, device: Any) -> Engines:
    """The engines for the modules of an env runner.

    Args:
        config: The algorithm's; `engine` and what belongs to it is read.
        modules: By id: a `CausalLMRLModule` for engines that sample in this process, else its facade.
        device: Of engines that sample in this process.
    """
    if config.engine == "vllm":
        from rllib_gigpo.inference.vllm_modules import VLLMRouter, build_vllm_engines

        served = build_vllm_engines(config, modules)
        return Engines(served, _single(served) or VLLMRouter(served))
    own = {
        id_: HFEngine(module.lm, module.tokenizer, model_inputs=module.model_inputs, device=device)
        for id_, module in modules.items()
    }
    return Engines(own, _single(own) or MultiModuleEngine(own))


def _single(engines: Mapping[str, Any]) -> Any | None:
    """The engine of a single agent, whose requests name no module."""
    return engines[DEFAULT_MODULE_ID] if engines.keys() == {DEFAULT_MODULE_ID} else None
