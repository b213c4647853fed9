"""vLLM's own vision-language models, imported where there is no torchvision too.

Their modules take a function from one of transformers' that needs torchvision. Its module of the same name for PIL has
the same function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_WITH_TORCHVISION = "transformers.models.qwen2_vl.image_processing_qwen2_vl"


@contextmanager
def _pil_in_place_of_torchvision() -> Iterator[None]:
    if find_spec("torchvision") is not None:
        yield
        return
    from transformers.models.qwen2_vl import image_processing_pil_qwen2_vl

    sys.modules[_WITH_TORCHVISION] = image_processing_pil_qwen2_vl
    try:
        yield
    finally:
        del sys.modules[_WITH_TORCHVISION]


with _pil_in_place_of_torchvision():
    from vllm.model_executor.models.qwen2_5_vl import Qwen2_5_VLForConditionalGeneration
    from vllm.model_executor.models.qwen2_vl import Qwen2VLForConditionalGeneration
    from vllm.model_executor.models.qwen3_vl import Qwen3VLForConditionalGeneration

__all__ = ["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen3VLForConditionalGeneration"]
