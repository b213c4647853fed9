"""Checkpoints hold everything, are whole or refused; weights that are delivered are the ones that are served."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import pytest
import ray
from ray.rllib.connectors.connector_v2 import ConnectorV2

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig
from rllib_gigpo.algorithms.group_policy.checkpoints import check_checkpoint, locate, saved_whole, write_manifest
from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig
from rllib_gigpo.columns import GROUP_ID
from tests.algorithm_cases import largest_difference, record_samples, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


def tiny_config(config_class: type = GiGPOConfig) -> Any:
    return small_config(config_class, group_size=2, groups_per_iteration=2).generation(max_response_tokens=8)


@pytest.fixture
def algo() -> Iterator[Any]:
    algo = tiny_config().build_algo()
    yield algo
    algo.stop()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each algorithm."""
    paths = {}
    for name, config_class in (("GiGPO", GiGPOConfig), ("GRPO", GRPOConfig)):
        algo = tiny_config(config_class).build_algo()
        paths[name] = Path(algo.save_to_path(tmp_path_factory.mktemp(name) / "checkpoint"))
        algo.stop()
    return paths


class CountsEpisodes(ConnectorV2):
    """A connector with a state: how many episodes it has seen."""

    seen = 0

    def __call__(self, *, episodes: list, batch: dict, **kwargs: Any) -> dict:
        self.seen += len(episodes)
        return batch

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {"seen": self.seen}

    def set_state(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def test_the_state_of_a_users_group_connector_survives(tmp_path: Path) -> None:
    algo = tiny_config().group_connector(lambda: [CountsEpisodes()]).build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path / "checkpoint")
    state = algo.get_state()
    algo.train()
    assert algo._group_connector.connectors[0].seen == 8
    algo.set_state(state)
    assert algo._group_connector.connectors[0].seen == 4
    algo.stop()
    restored = GiGPO.from_checkpoint(path)
    assert restored._group_connector.connectors[0].seen == 4
    restored.stop()


def test_going_back_to_an_older_state_reaches_learner_and_engine(algo: Any) -> None:
    state = algo.get_state()
    before = {name: array.copy() for name, array in weights_of(algo).items()}
    algo.train()
    algo.train()
    assert largest_difference(before, weights_of(algo)) > 0
    algo.set_state(state)
    assert largest_difference(before, weights_of(algo)) == 0
    assert largest_difference(before, algo.env_runner.module.get_state()) == 0
    assert algo.env_runner.engine.weights_version == 0
    assert algo.train()["learners"]["default_policy"]["weights_version_lag_mean"] == 0


def test_a_save_that_is_stopped_leaves_nothing_or_what_was_there(
    algo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(algo.save_to_path(tmp_path / "old"))
    (path / "notes.txt").write_text("of the user")
    before = {name: array.copy() for name, array in weights_of(algo).items()}
    algo.train()

    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    # The learners' component has been written by then.
    with monkeypatch.context() as patch:
        patch.setattr(type(algo._group_connector), "save_to_path", stop)
        for target in (path, tmp_path / "new"):
            with pytest.raises(KeyboardInterrupt):
                algo.save_to_path(target)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["old"]
    algo.restore_from_path(path)
    assert largest_difference(before, weights_of(algo)) == 0

    algo.train()
    trained = {name: array.copy() for name, array in weights_of(algo).items()}
    algo.save_to_path(path)
    algo.train()
    algo.restore_from_path(path)
    assert largest_difference(trained, weights_of(algo)) == 0
    assert (path / "notes.txt").read_text() == "of the user"


def test_what_was_being_sampled_at_a_ctrl_c_is_sampled_by_the_run_that_goes_on(
    algo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(plan: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(algo._runners, "roll_out", interrupt)
        with pytest.raises(KeyboardInterrupt):
            algo.train()
    algo.restore_from_path(algo.save_to_path(tmp_path / "checkpoint"))
    episodes = record_samples(algo)
    algo.train()
    assert {episode.get_infos(0)[GROUP_ID] for episode in episodes} == {0, 1}


def save_text(path: Path, text: str) -> None:
    """A checkpoint as small as can be."""
    final, filesystem = locate(path)
    with saved_whole(final, filesystem) as directory:
        Path(directory, "state").write_text(text)
        write_manifest(directory, filesystem, GiGPO)


# Saving over a checkpoint that has a foreign file beside it renames four times.
@pytest.mark.parametrize(("renames", "left"), [(0, "old"), (1, "old"), (2, "new"), (3, "new"), (4, "new")])
def test_a_process_killed_between_any_two_steps_of_replacing_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int, left: str
) -> None:
    path = tmp_path / "checkpoint"
    save_text(path, "old")
    (path / "notes.txt").write_text("of the user")
    child = os.fork()
    if child == 0:
        done, rename = [], Path.rename

        def rename_or_die(self: Path, target: Path) -> Path:
            if len(done) == renames:
                os._exit(9)
            done.append(target)
            return rename(self, target)

        Path.rename = rename_or_die  # type: ignore[method-assign]
        save_text(path, "new")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (9 if renames < 4 else 0)
    check_checkpoint(*locate(path), GiGPO)
    assert (path / "state").read_text() == left
    save_text(path, "newest")
    check_checkpoint(*locate(path), GiGPO)
    assert {file.name: file.read_text() for file in path.iterdir() if file.suffix != ".json"} == {
        "state": "newest",
        "notes.txt": "of the user",
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("manifest", ["", "{}", "\0" * 100])
def test_a_damaged_checkpoint_can_be_saved_over(tmp_path: Path, manifest: str) -> None:
    path = tmp_path / "checkpoint"
    save_text(path, "old")
    (path / "notes.txt").write_text("of the user")
    (path / "checkpoint_manifest.json").write_text(manifest)
    for text in ("new", "newest"):
        save_text(path, text)
        check_checkpoint(*locate(path), GiGPO)
        assert (path / "state").read_text() == text
    assert (path / "notes.txt").read_text() == "of the user"
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_the_working_directory_can_be_saved_into_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("old", "new"):
        save_text(Path("."), text)
        assert Path("state").read_text() == text


def test_a_file_is_no_place_for_a_checkpoint(algo: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the user")
    with pytest.raises(NotADirectoryError, match=r"file: it is a file; name a directory"):
        algo.save_to_path(tmp_path / "file")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "of the user"


@pytest.mark.parametrize(
    ("settings", "error"),
    [({}, None), ({"lora_rank": 2}, "LoRA adapter's base"), ({"kl_coeff": 0.1}, "reference policy of kl_coeff")],
)
def test_a_checkpoint_needs_the_model_directory_only_for_what_it_does_not_hold(
    tmp_path: Path, settings: dict[str, Any], error: str | None
) -> None:
    config = tiny_config().update_from_dict(settings)
    shutil.copytree(config.model_path, tmp_path / "model")
    algo = config.language_model(model_path=str(tmp_path / "model")).build_algo()
    path = algo.save_to_path(tmp_path / "checkpoint")
    before = weights_of(algo)
    algo.stop()
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    if error is not None:
        with pytest.raises(ValueError, match=rf"model_path '{tmp_path}/model' .*not there any more.*{error}"):
            GiGPO.from_checkpoint(path)
        return
    restored = GiGPO.from_checkpoint(path)
    assert largest_difference(before, weights_of(restored)) == 0
    restored.train()
    restored.stop()


def test_a_filesystem_that_is_not_local_works_too(algo: Any, tmp_path: Path) -> None:
    filesystem = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    algo.train()
    algo.save_to_path("runs/checkpoint", filesystem=filesystem)
    restored = GiGPO.from_checkpoint("runs/checkpoint", filesystem=filesystem)
    assert largest_difference(weights_of(algo), weights_of(restored)) == 0
    assert restored._task_cursor == algo._task_cursor == 2
    restored.stop()
    (tmp_path / "runs" / "checkpoint" / "algorithm_state.pkl").unlink()
    with pytest.raises(ValueError, match=r"algorithm_state\.pkl is missing"):
        algo.restore_from_path("runs/checkpoint", filesystem=filesystem)


def test_any_filesystem_of_fsspec_works_by_its_uri(algo: Any) -> None:
    uri = "memory://runs/checkpoint"
    algo.train()
    # The second replaces the first.
    for _ in range(2):
        algo.train()
        algo.save_to_path(uri)
    restored = GiGPO.from_checkpoint(uri)
    assert largest_difference(weights_of(algo), weights_of(restored)) == 0
    restored.load_weights(uri)
    assert restored.iteration == 3
    restored.stop()
    path, filesystem = locate(uri)
    with filesystem.open_output_stream(f"{path}/algorithm_state.pkl") as stream:
        stream.write(b"")
    with pytest.raises(ValueError, match=r"algorithm_state\.pkl has 0 bytes"):
        algo.restore_from_path(uri)
    with pytest.raises(ValueError, match=r"no checkpoint can be at nowhere://a: .*fsspec: Protocol not known"):
        locate("nowhere://a")


@pytest.mark.parametrize("kind", [ray.tune.Checkpoint, ray.train.Checkpoint])
def test_a_checkpoint_of_ray_is_where_it_says(kind: Any, tmp_path: Path) -> None:
    filesystem = pyarrow.fs.LocalFileSystem()
    assert locate(kind(str(tmp_path), filesystem)) == (str(tmp_path), filesystem)


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "algorithm_state.pkl").unlink(), r"algorithm_state\.pkl is missing"),
        (lambda path: (path / "class_and_ctor_args.pkl").unlink(), r"class_and_ctor_args\.pkl is missing"),
        (
            lambda path: next(path.rglob("model.safetensors")).write_bytes(b""),
            r"huggingface/model\.safetensors has 0 bytes instead of \d+",
        ),
        (
            lambda path: flip_a_bit(next(path.rglob("model.safetensors"))),
            r"huggingface/model\.safetensors has another content than was written \(SHA-256\)",
        ),
        (lambda path: (path / "checkpoint_manifest.json").unlink(), "no complete checkpoint"),
        (lambda path: (path / "checkpoint_manifest.json").write_text("{"), "checkpoint_manifest.json is no manifest"),
        (lambda path: (path / "checkpoint_manifest.json").write_text("{}"), "checkpoint_manifest.json is no manifest"),
        (shutil.rmtree, "there is no checkpoint at"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_file_is_named(
    saved: dict[str, Path], algo: Any, tmp_path: Path, damage: Any, message: str
) -> None:
    path = tmp_path / "checkpoint"
    shutil.copytree(saved["GiGPO"], path)
    damage(path)
    for restore in (GiGPO.from_checkpoint, algo.restore_from_path):
        with pytest.raises(ValueError, match=message):
            restore(str(path))


def test_a_checkpoint_of_another_algorithm_is_refused(saved: dict[str, Path], algo: Any) -> None:
    for restore in (GiGPO.from_checkpoint, algo.restore_from_path):
        with pytest.raises(ValueError, match="checkpoint of GRPO and cannot be restored into GiGPO"):
            restore(saved["GRPO"])
    with pytest.raises(ValueError, match="checkpoint of GiGPO and cannot be restored into GRPO"):
        GRPO.from_checkpoint(saved["GiGPO"])


def test_the_last_evaluation_panel_lies_in_the_checkpoint_also_in_that_of_tune(algo: Any, tmp_path: Path) -> None:
    assert not (Path(algo.save_to_path(tmp_path / "before")) / "evaluation_panel.json").exists()
    panel_hash = algo.evaluate()["env_runners"]["panel_hash"]
    (tmp_path / "tune").mkdir()
    algo.save_checkpoint(str(tmp_path / "tune"))
    panel = json.loads((tmp_path / "tune" / "evaluation_panel.json").read_text())
    assert panel["panel_hash"] == panel_hash
    assert len(panel["outcomes"]) == panel["panel_size"] == 8
    algo.load_checkpoint(str(tmp_path / "tune"))


def test_evaluation_runs_at_its_interval_within_training() -> None:
    algo = tiny_config().evaluation(evaluation_interval=2).build_algo()
    assert "evaluation" not in algo.train()
    evaluation = algo.train()["evaluation"]["env_runners"]
    assert evaluation["panel_size"] == evaluation["num_episodes"] == 8
    algo.stop()


def test_every_delivery_is_measured(algo: Any) -> None:
    delivery = algo.train()["weight_delivery"]
    assert delivery["bytes"] == sum(array.nbytes for array in weights_of(algo).values())
    assert 0 < delivery["seconds"] < 10
    # The same weights in the same kind of forward pass: what is left is float32 rounding.
    assert delivery["weights_probe_gap_max"] <= 1e-5


@pytest.mark.parametrize("scale", [0.9, np.nan])
def test_other_weights_under_the_right_version_are_found_by_the_probe(
    algo: Any, monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    deliver = algo.env_runner.engine.deliver

    def deliver_others(weights: dict[str, np.ndarray], version: int) -> None:
        deliver({name: array * np.float32(scale) for name, array in weights.items()}, version)

    monkeypatch.setattr(algo.env_runner.engine, "deliver", deliver_others)
    with pytest.raises(
        RuntimeError, match=r"env runner 0 serves version 0 with a probe gap of .* \(tolerance 0\.001\)"
    ):
        algo.deliver_weights()
