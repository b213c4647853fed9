"""Sharded learners read their own part of a model, and have the very model that one learner reads whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from rllib_gigpo.rl_modules.lora import LoraSettings
from rllib_gigpo.rl_modules.model_directory import load_causal_lm
from rllib_gigpo.rl_modules.weight_files import WeightFiles, open_weight_files
from tests.learner_cases import random_rows
from tests.learner_processes import Processes, build_learner, processes, save, update, whole_weights
from tests.tiny_models import save_tiny_model, save_tiny_vlm

pytestmark = pytest.mark.system

LORA = {"lora": LoraSettings(rank=3, seed=5), "kl_coeff": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "tied": {},
    "untied": {},
    "bfloat16": {"dtype": "bfloat16"},
    "adapter": LORA,
    "several files": {},
    "offloaded reference": {"offload_reference": True},
    "qwen2_vl": {},
    "qwen2_5_vl": {"freeze_vision_tower": True},
    "qwen3_vl": LORA,
}


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with processes(2) as found:
        yield found


def _save(name: str, directory: Path) -> Path:
    if name.endswith("_vl"):
        return save_tiny_vlm(directory, model_type=name)
    save_tiny_model(directory, tie_word_embeddings=name != "untied")
    if name == "several files":
        tensors = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        parts = [dict(list(tensors.items())[start::2]) for start in (0, 1)]
        for index, part in enumerate(parts):
            save_file(part, directory / f"{index}.safetensors", metadata={"format": "pt"})
        weight_map = {key: f"{index}.safetensors" for index, part in enumerate(parts) for key in part}
        (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        # What nobody asks for.
        save_file({"stray": torch.ones(1)}, directory / "stray.safetensors")
    return directory


def _network(learner: Any) -> PreTrainedModel:
    return learner.module[DEFAULT_MODULE_ID].unwrapped().lm


def _facts(learner: Any) -> dict[str, Any]:
    """What two learners with the same model have in common, beside its weights."""
    lm = _network(learner)
    trained = {name for name, weight in lm.named_parameters() if weight.requires_grad}
    return {
        "buffers": {name: buffer.numpy().copy() for name, buffer in lm.named_buffers()},
        "trained": trained,
        "types": {name: weight.dtype for name, weight in lm.named_parameters()},
        "is_tied": lm.get_output_embeddings().weight is lm.get_input_embeddings().weight,
        "is_training": lm.training,
        "rates": sorted(part.p for part in lm.modules() if isinstance(part, torch.nn.Dropout)),
        "generation": lm.generation_config.to_dict(),
        "base": {} if "lora" not in repr(lm) else _base_weights(lm),
    }


def _base_weights(lm: PreTrainedModel) -> dict[str, np.ndarray]:
    """All weights, where those that are delivered are an adapter's alone."""
    weights = {}
    for name, weight in lm.state_dict().items():
        tensor = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
        weights[name] = tensor.float().numpy().copy()
    return weights


def _read(num_learners: int, index: int, directory: Path, settings: dict[str, Any]) -> Any:
    """Facts and weights after reading, and the weights after an update with a reference where settings have one."""
    settings = {"sharding": "fsdp", "lr": 0.01, "kl_coeff": 0.5, **settings}
    if num_learners == 1:
        learner = build_learner(directory, num_learners, index, **settings)
    else:
        largest = max(weight.numel() for weight in load_causal_lm(directory).parameters())
        with _nothing_whole(at_most=largest // 2 + 64):
            learner = build_learner(directory, num_learners, index, **settings)
    facts, weights = _facts(learner), whole_weights(learner)
    update(learner, random_rows(6).take(np.arange(index, 6, num_learners)))
    return facts, weights, whole_weights(learner)


def _nothing_whole(*, at_most: int) -> Any:
    """Fails where a model is loaded by transformers, or more than half of the largest weight is read at once."""
    rows = WeightFiles.rows

    def small(files: WeightFiles, name: str, start: int, stop: int) -> torch.Tensor:
        read = rows(files, name, start, stop)
        assert read.numel() <= at_most, f"{name} was read whole"
        return read

    whole = mock.patch.object(
        PreTrainedModel, "from_pretrained", side_effect=AssertionError("the model was read whole")
    )
    part = mock.patch.object(WeightFiles, "rows", small)

    class Both:
        def __enter__(self) -> None:
            whole.start(), part.start()

        def __exit__(self, *_: object) -> None:
            part.stop(), whole.stop()

    return Both()


@pytest.mark.parametrize("name", MODELS)
def test_learners_that_read_a_part_have_the_model_of_one_that_reads_all(
    name: str, two: Processes, tmp_path: Path
) -> None:
    directory = _save(name, tmp_path / "model")
    ((facts, weights, updated),) = two.call(1, _read, directory, MODELS[name])
    first, second = two.call(2, _read, directory, MODELS[name])
    for found, *_ in (first, second):
        for part in ("buffers", "base"):
            assert found[part].keys() == facts[part].keys()
            for key, array in facts[part].items():
                np.testing.assert_array_equal(found[part][key], array, err_msg=key)
        for part in facts.keys() - {"buffers", "base"}:
            assert found[part] == facts[part], part
    _, of_first, updated_by_two = first
    assert of_first.keys() == weights.keys()
    assert all(np.array_equal(of_first[key], array) for key, array in weights.items())
    if "dtype" not in MODELS[name]:
        gap = max(float(np.abs(updated_by_two[key] - array).max()) for key, array in updated.items())
        moved = max(float(np.abs(weights[key] - array).max()) for key, array in updated.items())
        assert gap <= 1e-6 < 1e-4 < moved


def _restore(num_learners: int, index: int, directory: Path, path: Path) -> Any:
    learner = build_learner(directory, num_learners, index, sharding="fsdp")
    update(learner, random_rows(6).take(np.arange(index, 6, num_learners)))
    saved = whole_weights(learner)
    save(learner, path)
    torch.distributed.barrier()
    update(learner, random_rows(6, seed=1).take(np.arange(index, 6, num_learners)))
    changed = whole_weights(learner)
    with _nothing_whole(at_most=2**30):
        learner.restore_from_path(path)
    return saved, changed, whole_weights(learner)


def test_a_checkpoint_is_read_in_parts_too(two: Processes, tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    saved, changed, restored = two.call(2, _restore, directory, tmp_path / "checkpoint")[0]
    assert any(not np.array_equal(saved[key], array) for key, array in changed.items())
    assert all(np.array_equal(saved[key], array) for key, array in restored.items())


def test_files_that_only_transformers_can_read_are_told_apart(tmp_path: Path) -> None:
    directory = save_tiny_model(tmp_path / "model")
    file = directory / "model.safetensors"
    tensors = load_file(file)
    # A tied weight twice, with equal values, is tied; with others it is not.
    embedding = tensors["model.embed_tokens.weight"]
    for copy, is_readable in ((embedding.clone(), True), (embedding + 1, False)):
        save_file({**tensors, "lm_head.weight": copy}, file, metadata={"format": "pt"})
        assert (open_weight_files(directory) is not None) == is_readable
    # Names without the prefix of the whole model.
    save_file({key.removeprefix("model."): t for key, t in tensors.items()}, file, metadata={"format": "pt"})
    found = open_weight_files(directory)
    assert found is not None
    found.check({"model.norm.weight": (64,), "lm_head.weight": embedding.shape}, allow_unexpected=False)

    save_file({**tensors, "more": torch.ones(1)}, file, metadata={"format": "pt"})
    found = open_weight_files(directory)
    assert found is not None
    for shapes, message in (
        ({"model.norm.weight": (65,)}, r"model.norm.weight has shape \(64,\) instead of \(65,\)"),
        ({"model.more.weight": (1,)}, "lack .'model.more.weight'."),
        ({}, "have .'more'. .* which the model has not"),
    ):
        with pytest.raises(ValueError, match=message):
            found.check(shapes, allow_unexpected=False)
