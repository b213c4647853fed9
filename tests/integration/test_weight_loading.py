"""Weights without the rest of a checkpoint: only safetensors are read, and only those of the very model are taken."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.grpo.grpo import GRPOConfig
from rllib_gigpo.rl_modules.model_directory import load_causal_lm
from tests.algorithm_cases import largest_difference, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]

MODEL = "learner_group/learner/rl_module/default_policy/huggingface"
Tensors = dict[str, torch.Tensor]


def tiny_config(config_class: type = GiGPOConfig) -> Any:
    return small_config(config_class, group_size=2, groups_per_iteration=2).generation(max_response_tokens=8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A checkpoint of another algorithm, and its weights."""
    algo = tiny_config(GRPOConfig).build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path_factory.mktemp("trained") / "checkpoint")
    weights = weights_of(algo)
    algo.stop()
    return Path(path), weights


@pytest.fixture(scope="module")
def algo() -> Iterator[Any]:
    """Has trained with its own weights; the tests load others into it."""
    algo = tiny_config().build_algo()
    algo.train()
    yield algo
    algo.stop()


class TouchesAFile:
    """Whoever unpickles it runs what is in it."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_a_strangers_checkpoint_gives_its_weights_and_runs_nothing(
    algo: Any, trained: tuple[Path, dict], tmp_path: Path
) -> None:
    saved, weights = trained
    path = tmp_path / "checkpoint"
    shutil.copytree(saved, path)
    poison = pickle.dumps(TouchesAFile(tmp_path / "was run"))
    manifest = json.loads((path / "checkpoint_manifest.json").read_text())
    for file in path.rglob("*.pkl"):
        file.write_bytes(poison)
        name = str(file.relative_to(path))
        manifest["files"][name] = len(poison)
        manifest["sha256"][name] = hashlib.sha256(poison).hexdigest()
    (path / "checkpoint_manifest.json").write_text(json.dumps(manifest))

    optimizer = algo.learner_group._learner._named_optimizers["default_policy_default_optimizer"]
    moments = {id(param): state["exp_avg"].clone() for param, state in optimizer.state.items()}
    cursor = algo._task_cursor
    assert largest_difference(weights, weights_of(algo)) > 0
    algo.load_weights(path)
    assert not (tmp_path / "was run").exists()
    assert largest_difference(weights, weights_of(algo)) == 0
    assert largest_difference(weights, algo.env_runner.module.get_state()) == 0
    # All else goes on.
    assert algo._task_cursor == cursor
    assert all(torch.equal(moments[id(param)], state["exp_avg"]) for param, state in optimizer.state.items())
    pickle.loads(poison)
    assert (tmp_path / "was run").exists()


@pytest.mark.parametrize("shard_size", ["1GB", "50KB"])
def test_a_hugging_face_directory_needs_no_tokenizer(
    algo: Any, trained: tuple[Path, dict], tmp_path: Path, shard_size: str
) -> None:
    saved, weights = trained
    load_causal_lm(saved / MODEL).save_pretrained(tmp_path / "model", max_shard_size=shard_size)
    assert (len(list((tmp_path / "model").glob("*.safetensors"))) > 1) == (shard_size == "50KB")
    algo.load_weights((tmp_path / "model").as_uri())
    assert largest_difference(weights, weights_of(algo)) == 0


def change_weights(change: Callable[[Tensors, str], Any]) -> Callable[[Path], None]:
    """Of the first weight of a layer."""

    def damage(model: Path) -> None:
        tensors = load_file(model / "model.safetensors")
        change(tensors, next(name for name in sorted(tensors) if "layers.0" in name))
        save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})

    return damage


def only_a_pickle(model: Path) -> None:
    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change_weights(lambda tensors, name: tensors.pop(name)), r"lack \['model\.layers\.0"),
        (change_weights(lambda tensors, name: tensors.update(stranger=torch.ones(2))), r"have \['stranger'\].*has not"),
        (
            change_weights(lambda tensors, name: tensors.update({name: tensors[name][:1].clone()})),
            r"model\.layers\.0\S+ has shape \(1,.*\) instead of",
        ),
        (only_a_pickle, "only as pytorch_model.bin, a pickle"),
        (lambda model: (model / "config.json").unlink(), "there are no weights at"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(
    algo: Any, trained: tuple[Path, dict], tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    before = {name: array.copy() for name, array in weights_of(algo).items()}
    shutil.copytree(trained[0] / MODEL, tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"(?s){message}"):
        algo.load_weights(tmp_path / "model")
    assert largest_difference(before, weights_of(algo)) == 0
    with pytest.raises(ValueError, match="module_id='critic' is no module"):
        algo.load_weights(trained[0], module_id="critic")


def test_another_architecture_is_refused(algo: Any, trained: tuple[Path, dict], tmp_path: Path) -> None:
    small = load_causal_lm(trained[0] / MODEL)
    config = small.config
    config.num_hidden_layers, config.layer_types = 1, config.layer_types[:1]
    type(small)(config).save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match=r"do not fit the model: missing \['model\.layers\.1"):
        algo.load_weights(tmp_path / "model")


def test_an_adapter_takes_an_adapter_and_no_model(trained: tuple[Path, dict], tmp_path: Path) -> None:
    config = tiny_config().language_model(lora_rank=2)
    algo = config.build_algo()
    algo.train()
    path = Path(algo.save_to_path(tmp_path / "checkpoint"))
    weights = {name: array.copy() for name, array in weights_of(algo).items()}
    algo.train()
    assert largest_difference(weights, weights_of(algo)) > 0
    algo.load_weights(path / MODEL)
    assert largest_difference(weights, weights_of(algo)) == 0
    with pytest.raises(ValueError, match="holds no LoRA adapter"):
        algo.load_weights(trained[0])
    algo.stop()
