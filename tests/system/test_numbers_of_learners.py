"""One, two and four learners, plain (DDP) or sharded (FSDP2), take the same step and go on from each other's
checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_gigpo.rows import TokenRows
from tests.learner_cases import max_difference, random_rows
from tests.learner_processes import Processes, build_learner, processes, save, update, whole_weights
from tests.tiny_models import save_tiny_model, save_tiny_vlm
from tests.vision_cases import image_rows

pytestmark = pytest.mark.system

Weights = dict[str, np.ndarray]

# Rows of each learner in one update after the other: uneven, and one of them without any.
SHARDS: dict[str, dict[int, list[list[list[int]]]]] = {
    "text": {
        1: [[[*range(30)]]] * 2,
        2: [[[*range(22)], [*range(22, 30)]], [[], [*range(30)]]],
        4: [
            [[*range(3)], [*range(3, 20)], [29], [*range(20, 29)]],
            [[*range(0, 30, 2)], [], [1, 3], [*range(5, 30, 2)]],
        ],
    },
    # The last row has no image.
    "image": {
        1: [[[*range(5)]]] * 2,
        2: [[[0, 1, 2, 3], [4]], [[], [0, 1, 2, 3, 4]]],
        4: [[[0, 1], [2], [3], [4]], [[4], [], [0, 1, 2], [3]]],
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    "text": {"micro_batch_tokens": 150, "kl_coeff": 0.5, "grad_clip": 0.1},
    "image": {"micro_batch_tokens": 160, "kl_coeff": 0.5, "lr": 0.01},
}
# Adam's steps are as long as its rate, whatever the gradient.
ADAM: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-4}


@pytest.fixture(scope="module")
def four() -> Iterator[Processes]:
    with processes(4) as found:
        yield found


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {"text": save_tiny_model(folder / "text"), "image": save_tiny_vlm(folder / "image")}


def _rows(kind: str, learner: Any) -> TokenRows:
    if kind == "image":
        return image_rows(learner.module[DEFAULT_MODULE_ID].unwrapped())
    return replace(random_rows(30), in_loss=np.arange(30) % 5 != 0)


def _after_updates(num_learners: int, index: int, directory: Path, kind: str, sharding: str | None) -> list[Weights]:
    """The weights at first, and after each update; of sharded learners, the first one's."""
    learner = build_learner(directory, num_learners, index, sharding=sharding, **SETTINGS[kind])
    rows = _rows(kind, learner)
    weights = [whole_weights(learner)]
    for shards in SHARDS[kind][num_learners]:
        update(learner, rows.take(np.array(shards[index], np.int64)))
        weights.append(whole_weights(learner))
    return [found for found in weights if found is not None]


@pytest.mark.parametrize("kind", ["text", "image"])
def test_the_step_of_one_learner_whatever_the_number_and_the_shards(
    kind: str, four: Processes, directories: dict[str, Path]
) -> None:
    directory = directories[kind]
    ((before, *expected),) = four.call(1, _after_updates, directory, kind, None)
    assert min(max_difference(before, expected[0]), max_difference(*expected)) > 1e-4
    for num_learners in (2, 4):
        for sharding in (None, "fsdp"):
            of_learners = four.call(num_learners, _after_updates, directory, kind, sharding)
            held = [weights for weights in of_learners if weights]
            assert len(held) == (num_learners if sharding is None else 1)
            for _, *after in held:
                assert [max_difference(*pair) <= 1e-6 for pair in zip(after, expected, strict=True)] == [True, True]


def _save_and_go_on(num_learners: int, index: int, directory: Path, sharding: str | None, path: Path) -> Weights | None:
    """The weights one update behind a checkpoint, of the learners that have written it."""
    learner = build_learner(directory, num_learners, index, sharding=sharding, **ADAM)
    _updates(learner, num_learners, index, seeds=(1, 2))
    save(learner, path)
    _updates(learner, num_learners, index, seeds=(3,))
    return whole_weights(learner)


def _restore_and_go_on(
    num_learners: int, index: int, directory: Path, sharding: str | None, path: Path, components: list[str] | None
) -> list[Weights | None]:
    """The weights of a checkpoint, and one update behind it, of learners that have read it or `components` of it."""
    learner = build_learner(directory, num_learners, index, sharding=sharding, **ADAM)
    learner.restore_from_path(path)
    if components is not None:
        fresh = build_learner(directory, num_learners, index, sharding=sharding, **ADAM)
        fresh.module.set_state(learner.module.get_state())
        learner = fresh
    restored = whole_weights(learner)
    _updates(learner, num_learners, index, seeds=(3,))
    return [restored, whole_weights(learner)]


def _updates(learner: Any, num_learners: int, index: int, *, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        update(learner, random_rows(12, seed=seed).take(np.arange(index, 12, num_learners)))


@pytest.mark.parametrize("sharding", [None, "fsdp"])
def test_one_and_four_learners_go_on_from_the_checkpoint_of_two(
    sharding: str | None, four: Processes, directories: dict[str, Path], tmp_path: Path
) -> None:
    arguments = (directories["text"], sharding, tmp_path / "checkpoint")
    expected = four.call(2, _save_and_go_on, *arguments)[0]
    for num_learners in (1, 4):
        restored, after = four.call(num_learners, _restore_and_go_on, *arguments, None)[0]
        assert max_difference(restored, expected) > 5e-5
        assert max_difference(after, expected) <= 1e-6
    # With the checkpoint's weights, but an optimizer that has seen nothing, the step is another.
    ((_, after),) = four.call(1, _restore_and_go_on, *arguments, ["rl_module"])
    assert max_difference(after, expected) > 1e-5
