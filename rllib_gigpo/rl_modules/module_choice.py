"""Which RLModule a model directory takes."""

from __future__ import annotations

from pathlib import Path

from rllib_gigpo import registry
from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule
from rllib_gigpo.rl_modules.model_directory import read_model_config


def language_module_class(model_path: str | Path | None) -> type[CausalLMRLModule]:
    """The RLModule that is registered for the `model_type` of a model directory; `CausalLMRLModule` for any other, and
    where there is no model (see `validate_model_directory`).

    Raises:
        ValueError: config.json cannot be read.
        TypeError: What is registered is no `CausalLMRLModule`.
    """
    if model_path is None or not (Path(model_path) / "config.json").is_file():
        return CausalLMRLModule
    model_type = str(read_model_config(model_path).get("model_type"))
    found = registry.rl_module_class(model_type)
    if found is None:
        return CausalLMRLModule
    if not (isinstance(found, type) and issubclass(found, CausalLMRLModule)):
        raise TypeError(
            f"the entry point {model_type!r} of {registry.RL_MODULES} is {found!r}; it must be a CausalLMRLModule"
        )
    return found
