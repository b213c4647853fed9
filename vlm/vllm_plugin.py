"""Makes our vision-language models known to vLLM, which finds `register` through its plugin entry point, in every one
of its processes.

They have architectures of their own, so that nothing changes for engines that somebody else starts.
"""

from __future__ import annotations

from rllib_gigpo.vlm.model_specifics import MODEL_SPECIFICS


def register() -> None:
    """Names the classes; vLLM imports them where it serves one."""
    from vllm import ModelRegistry

    for specifics in MODEL_SPECIFICS.values():
        ModelRegistry.register_model(specifics.vllm_class, f"rllib_gigpo.vlm.vllm_models:{specifics.vllm_class}")
