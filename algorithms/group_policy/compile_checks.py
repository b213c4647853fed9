"""Checks of what a config says about torch.compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ray.rllib.core.learner.torch.torch_learner import TorchCompileWhatToCompile


def check_compile(config: Any) -> Iterator[str]:
    """Yields a message for each of RLlib's keys of torch.compile that cannot work here."""
    if config.torch_compile_worker:
        yield (
            "torch_compile_worker=True does not apply: an engine generates the responses. Set it to False; "
            "torch_compile_learner compiles the learner's model."
        )
    if not config.torch_compile_learner:
        return
    whole = TorchCompileWhatToCompile.COMPLETE_UPDATE
    if config.torch_compile_learner_what_to_compile == whole:
        yield (
            f"torch_compile_learner_what_to_compile={whole!r} does not apply: micro-batches are made within an update. "
            f"Leave it at {TorchCompileWhatToCompile.FORWARD_TRAIN!r}."
        )
    from rllib_gigpo.rl_modules.module_choice import language_module_class

    if language_module_class(config.model_path).reads_images:
        yield (
            f"torch_compile_learner=True does not apply to the vision-language model {config.model_path}: set it to "
            "False."
        )
    from torch._dynamo import list_backends

    backend, known = config.torch_compile_learner_dynamo_backend, list_backends(exclude_tags=())
    if backend not in known:
        yield f"torch_compile_learner_dynamo_backend={backend!r} is unknown; choose one of {', '.join(known)}."
