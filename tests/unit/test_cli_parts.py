"""The pieces of the `rllib` command: options, search spaces, resources, checkpoints, stops."""

from __future__ import annotations

import hashlib
import io
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import ray
import typer
from ray import tune
from rich.console import Console

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.algorithms.group_policy.checkpoints import own_class
from rllib_gigpo.cli.checkpoint import check_restorable, checkpoint_class
from rllib_gigpo.cli.experiment import Checkpoints, Experiment
from rllib_gigpo.cli.experiment_mapping import check_stop, experiment_from_mapping, with_model_path
from rllib_gigpo.cli.json_option import json_object
from rllib_gigpo.cli.ray_session import MissingResourcesError, RayOptions, check_resources, resource_bundles
from rllib_gigpo.cli.run_folder import checkpoint_text, new_run_dir, run_dirs
from rllib_gigpo.cli.search_space import checked_variants, has_search_space
from rllib_gigpo.cli.stop import StopWhenReached, UnknownResultKeyError, reached
from rllib_gigpo.cli.train_options import TrainOptions
from rllib_gigpo.cli.train_run import TrainRun
from rllib_gigpo.cli.trials import TrialOutcome, best_trial, trials_table
from rllib_gigpo.env_adapters import embedded_model_path

pytestmark = pytest.mark.unit

RESULT = {"training_iteration": 3, "env_runners": {"success_rate": 0.5}}


def good_config() -> GiGPOConfig:
    return (
        GiGPOConfig()
        .environment("EZPoints")
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=32)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
    )


def experiment(**settings) -> Experiment:
    return Experiment("name", good_config(), {"training_iteration": 1.0}, **settings)


@pytest.mark.parametrize("stop", [{"training_iteration": True}, {"a": float("nan")}, {1: 2}, {}, [], None])
def test_stops_that_could_never_be_reached_are_refused(stop: object) -> None:
    with pytest.raises(ValueError, match="--stop"):
        check_stop(stop, "--stop")


def test_training_stops_at_the_first_value_that_is_reached() -> None:
    assert not reached({"training_iteration": 4, "env_runners/success_rate": 0.6}, RESULT)
    assert reached({"training_iteration": 4, "env_runners/success_rate": 0.5}, RESULT)
    # An evaluation does not happen in every iteration.
    assert not reached({"evaluation/env_runners/success_rate": 0.5}, RESULT)


def test_result_keys_that_are_not_there_are_errors_and_not_an_endless_training() -> None:
    with pytest.raises(UnknownResultKeyError, match="stop key 'env_runners/succes' is not in the train result"):
        reached({"env_runners/succes": 1}, RESULT)
    evaluated = RESULT | {"evaluation": {"env_runners": {"success_rate": 0.5}}}
    assert reached({"evaluation/env_runners/success_rate": 0.5}, evaluated)
    with pytest.raises(UnknownResultKeyError, match="'evaluation/env_runners/succes' is not in the train result"):
        reached({"evaluation/env_runners/succes": 0.5}, evaluated)
    with pytest.raises(
        UnknownResultKeyError, match="'env_runners' is no number in the train result, but a dict with succ"
    ):
        reached({"env_runners": 1}, RESULT)
    # Where the first iteration has lost all of its groups, means are there from the next one on.
    lost = {"training_iteration": 1, "env_runners": {"kept_groups": 0.0}}
    assert not StopWhenReached({"training_iteration": 4}, "env_runners/success_rate")("trial", lost)
    by_tune = StopWhenReached({"training_iteration": 4}, "succes")
    assert not by_tune.stop_all()
    assert by_tune("trial", RESULT)
    assert by_tune.stop_all()
    assert "metric 'succes' is not in the train result" in str(by_tune.error)


def test_trials_of_tune_stop_like_a_run() -> None:
    by_tune = StopWhenReached({"training_iteration": 3}, "env_runners/success_rate")
    assert by_tune("trial", RESULT)
    assert not by_tune("trial", RESULT | {"training_iteration": 2})
    assert not by_tune.stop_all()


def test_json_options_are_objects_without_double_keys() -> None:
    assert json_object("--config", '{"lr": 1e-3}', "{}") == {"lr": 1e-3}
    for text in ("{", "[1]", '{"a": 1, "a": 2}'):
        with pytest.raises(ValueError, match=r"--config .*write it like"):
            json_object("--config", text, "{}")


def test_options_go_before_what_the_experiment_says() -> None:
    options = TrainOptions(
        config='{"group_size": 4}',
        experiment_name="other",
        num_samples=3,
        checkpoint_freq=2,
        keep_checkpoints_num=1,
        checkpoint_score_attr="min-env_runners/episode_len_mean",
        max_failures=1,
    )
    before = experiment(checkpoints=Checkpoints(at_end=False), storage_path=Path("there"))
    changed = options.applied_to(before)
    assert changed.config.group_size == 4
    assert before.config.group_size == 8
    assert (changed.name, changed.num_samples, changed.max_failures) == ("other", 3, 1)
    assert changed.checkpoints == Checkpoints(2, False, 1, "env_runners/episode_len_mean", "min")
    assert changed.storage_path == Path("there")


def test_no_options_change_nothing() -> None:
    before = experiment(num_samples=2, checkpoints=Checkpoints(3))
    assert TrainOptions().applied_to(before) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": '{"grup_size": 1}'}, "--config: .*did you mean 'group_size'"),
        ({"config": '{"lr": {"eval": "1"}}'}, "--config holds .*eval"),
        ({"mode": "least"}, "--mode 'least' must be max or min"),
        ({"scheduler_config": "3"}, "--scheduler-config '3' is not a JSON object"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainOptions(**options).applied_to(experiment())


def test_tune_is_needed_for_what_only_tune_does() -> None:
    assert not experiment().needs_tune()
    assert experiment(num_samples=2).needs_tune()
    assert experiment(checkpoints=Checkpoints(frequency=1)).needs_tune()
    assert not experiment(checkpoints=Checkpoints(frequency=1, num_to_keep=2, best_by="a")).needs_tune()
    assert experiment(checkpoints=Checkpoints(at_end=False, best_by="a")).needs_tune()
    assert experiment(checkpoints=Checkpoints(score_attribute="a", best_by="a")).needs_tune()
    assert experiment(max_failures=1).needs_tune()
    assert experiment(scheduler="ASHA").needs_tune()
    assert Experiment("a", good_config().training(lr=tune.uniform(0, 1)), {}).needs_tune()


def test_every_point_of_a_grid_is_checked_and_the_wrong_one_named() -> None:
    config = good_config().training(lr=tune.loguniform(1e-6, 1e-4), group_size=tune.grid_search([4, 8]))
    variants = checked_variants(config)
    assert [variant.group_size for variant in variants] == [4, 8]
    assert all(1e-6 <= variant.lr <= 1e-4 for variant in variants)
    assert has_search_space(config)
    assert not has_search_space(good_config())
    with pytest.raises(ValueError, match=r"with group_size=1: .*group_size=1 is too small"):
        checked_variants(good_config().training(group_size=tune.grid_search([4, 1])))


def test_a_relative_or_embedded_model_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = GiGPOConfig().environment("EZPoints")
    embedded = str(embedded_model_path("EZPoints"))
    assert with_model_path(config.copy().language_model(model_path="embedded")).model_path == embedded
    assert with_model_path(config.copy().language_model(model_path="some/model")).model_path == f"{tmp_path}/some/model"
    searched = config.copy().language_model(model_path=tune.grid_search(["embedded", "m"]))
    assert with_model_path(searched).model_path == {"grid_search": [embedded, f"{tmp_path}/m"]}
    with pytest.raises(ValueError, match="environment 'CartPole-v1' has no embedded model"):
        with_model_path(GiGPOConfig().environment("CartPole-v1").language_model(model_path="embedded"))


def test_a_run_that_the_cluster_has_no_room_for_says_what_is_asked_and_what_there_is() -> None:
    config = good_config().env_runners(num_env_runners=2).learners(num_learners=1, num_gpus_per_learner=2)
    bundles = resource_bundles(config)
    with pytest.raises(MissingResourcesError, match=r"asks for 3 CPU, 2 GPU \(4 processes\), but Ray has 2 CPU, 0 GPU"):
        check_resources(bundles, {"CPU": 2}, [{"CPU": 2}])
    with pytest.raises(MissingResourcesError, match="no machine of the cluster has that: 8 CPU, 1 GPU"):
        check_resources([{"CPU": 1, "GPU": 2}], {"CPU": 16, "GPU": 2}, [{"CPU": 8, "GPU": 1}] * 2)
    check_resources(bundles, {"CPU": 4, "GPU": 2}, [{"CPU": 4, "GPU": 2}])
    # As `rllib plan` places a learner and an engine on each GPU: the sum of these floats is 4.000000000000001.
    check_resources([{"GPU": 0.51}] * 4 + [{"GPU": 0.49}] * 4, {"GPU": 4}, [{"GPU": 4}])


def test_a_cluster_s_resources_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="--ray-num-cpus cannot be used with --ray-address"):
        RayOptions(address="auto", num_cpus=2)


class NotOurs:
    """Stands for an Algorithm of RLlib's own."""


def write_checkpoint(path: Path, cls: type) -> Path:
    """The files by which a checkpoint is known, and one that stands for its state."""
    path.mkdir()
    (path / "rllib_checkpoint.json").write_text("{}")
    (path / "class_and_ctor_args.pkl").write_bytes(pickle.dumps({"class": cls, "ctor_args_and_kwargs": ((), {})}))
    (path / "algorithm_state.pkl").write_bytes(b"state")
    files = {file.name: file.stat().st_size for file in path.iterdir()}
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in path.iterdir()}
    (path / "checkpoint_manifest.json").write_text(json.dumps({"files": files, "sha256": digests}))
    return path


def test_a_whole_checkpoint_tells_its_algorithm(tmp_path: Path) -> None:
    gigpo = GiGPOConfig().algo_class
    path = write_checkpoint(tmp_path / "c", gigpo)
    assert checkpoint_class(path) is gigpo
    check_restorable(path, gigpo)


def test_a_checkpoint_is_recognized_without_running_any_of_it(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    path = write_checkpoint(tmp_path / "c", GiGPOConfig)
    (path / "class_and_ctor_args.pkl").write_bytes(pickle.dumps({"class": Trap()}))
    with pytest.raises(ValueError, match=r"pathlib:Path\.touch"):
        checkpoint_class(path)
    assert not (tmp_path / "ran").exists()


def test_the_class_of_an_actor_is_the_one_that_it_was_made_of() -> None:
    gigpo = GiGPOConfig().algo_class
    of_actor = ray.remote(gigpo).__ray_metadata__.modified_class
    assert of_actor is not gigpo
    assert own_class(of_actor) is own_class(gigpo) is gigpo


def test_checkpoints_of_other_algorithms_are_refused(tmp_path: Path) -> None:
    from rllib_gigpo.algorithms.grpo import GRPOConfig

    with pytest.raises(ValueError, match=r"NotOurs, which is not one of .*GiGPO"):
        checkpoint_class(write_checkpoint(tmp_path / "a", NotOurs))
    grpo = write_checkpoint(tmp_path / "b", GRPOConfig().algo_class)
    with pytest.raises(ValueError, match="is a checkpoint of GRPO; GiGPO cannot restore it"):
        check_restorable(grpo, GiGPOConfig().algo_class)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "algorithm_state.pkl").unlink(), "incomplete: algorithm_state.pkl is missing"),
        (lambda p: (p / "algorithm_state.pkl").write_bytes(b"sta"), "algorithm_state.pkl has 3 bytes instead of 5"),
        (lambda p: (p / "algorithm_state.pkl").write_bytes(b"State"), "algorithm_state.pkl has another content"),
        (lambda p: (p / "class_and_ctor_args.pkl").unlink(), "incomplete: class_and_ctor_args.pkl is missing"),
        (lambda p: (p / "class_and_ctor_args.pkl").write_bytes(b"\x80\x04"), "class_and_ctor_args.pkl is damaged"),
        (lambda p: (p / "checkpoint_manifest.json").unlink(), "checkpoint_manifest.json, which is written last"),
        (lambda p: (p / "checkpoint_manifest.json").write_text("{"), "checkpoint_manifest.json is no manifest"),
        (lambda p: (p / "rllib_checkpoint.json").unlink(), "there is no rllib_checkpoint.json in it"),
    ],
)
def test_a_damaged_checkpoint_names_the_file(tmp_path: Path, damage, message: str) -> None:
    path = write_checkpoint(tmp_path / "c", GiGPOConfig().algo_class)
    damage(path)
    with pytest.raises(ValueError, match=message):
        checkpoint_class(path)


def test_what_is_no_checkpoint_says_where_one_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere does not exist"):
        checkpoint_class(tmp_path / "nowhere")
    inside = write_checkpoint(tmp_path / "c", GiGPOConfig)
    with pytest.raises(ValueError, match=f"is not a checkpoint: .*inside of it there is {inside}"):
        checkpoint_class(tmp_path)


def test_a_checkpoint_that_was_moved_aside_by_a_killed_process_is_put_back(tmp_path: Path) -> None:
    gigpo = GiGPOConfig().algo_class
    write_checkpoint(tmp_path / ".c.old", gigpo)
    assert checkpoint_class(tmp_path / "c") is gigpo
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def test_the_command_to_evaluate_can_be_pasted_into_a_shell() -> None:
    assert checkpoint_text(["/a b/c"]).endswith("try: rllib evaluate '/a b/c'")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"storage_path": 3}, "storage_path in the file is 3"),
        ({"restore": ["a"]}, r"restore in the file is \['a'\]"),
        ({"checkpoint_config": {"checkpoint_at_end": "no"}}, "checkpoint_at_end in .* is 'no'; .* true or false"),
        ({"config": {1: 2}}, "the file has the config key 1"),
        ({"config": {"env_config": {"size": {"grid_search": 3}}}}, "the file has env_config/size="),
    ],
)
def test_values_of_a_wrong_type_are_named(wrong: dict, message: str) -> None:
    spec = {"run": "GiGPO", "stop": {"training_iteration": 1}, **wrong}
    with pytest.raises(ValueError, match=message):
        experiment_from_mapping("name", spec, "the file")


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "../a", "a\\b"])
def test_a_name_that_no_folder_can_have_is_refused(name: str) -> None:
    spec = {"run": "GiGPO", "stop": {"training_iteration": 1}}
    with pytest.raises(ValueError, match=r"the file: .* cannot be the name of an experiment"):
        experiment_from_mapping(name, spec, "the file")


def test_an_interrupted_training_saves_what_it_has_learned(tmp_path: Path) -> None:
    class Interrupted:
        iteration = 3

        def evaluate(self) -> dict:
            return {"env_runners": {"success_rate": 0.5, "panel_size": 2, "panel_hash": "a"}}

        def train(self) -> dict:
            raise KeyboardInterrupt

        def save_to_path(self, path: str) -> str:
            Path(path).mkdir()
            return path

    output = io.StringIO()
    run = TrainRun(experiment(), console=Console(file=output))
    with pytest.raises(typer.Exit) as stopped:
        run._train(Interrupted(), tmp_path)  # type: ignore[arg-type]
    assert stopped.value.exit_code == 130
    assert (tmp_path / "checkpoint").is_dir()
    assert f"interrupted after 3 iterations; saving\ncheckpoints:\n  {tmp_path}/checkpoint" in output.getvalue()


def test_the_summary_of_a_training_has_its_last_numbers_and_the_best_checkpoint(tmp_path: Path) -> None:
    class Trained:
        iteration = 0

        def evaluate(self) -> dict:
            return {"env_runners": {"success_rate": 0.5, "panel_size": 2, "panel_hash": "a"}}

        def train(self) -> dict:
            self.iteration += 1
            env_runners = {"success_rate": 1 / self.iteration, "episode_return_mean": math.nan}
            return {"training_iteration": self.iteration, "env_runners": env_runners}

        def save_to_path(self, path: str) -> str:
            Path(path).mkdir()
            return path

    best = Checkpoints(best_by="env_runners/success_rate")
    two = replace(experiment(), checkpoints=best, stop={"training_iteration": 2.0})
    run = TrainRun(two, console=Console(file=io.StringIO()))
    summary = run._train(Trained(), tmp_path)  # type: ignore[arg-type]
    assert summary["best_checkpoint"] == str(tmp_path / "checkpoint_000001")
    assert summary["metrics"]["env_runners/success_rate"] == 0.5
    # As strict readers of JSON want it.
    assert summary["metrics"]["env_runners/episode_return_mean"] is None
    assert json.loads((tmp_path / "result.json").read_text().splitlines()[-1])["training_iteration"] == 2


def test_runs_of_a_name_are_found_oldest_first_and_no_others(tmp_path: Path) -> None:
    first, second = new_run_dir(tmp_path, "a"), new_run_dir(tmp_path, "a")
    new_run_dir(tmp_path, "a-b")
    (tmp_path / "a-c").mkdir()
    assert run_dirs(tmp_path, "a") == [first, second]
    assert run_dirs(tmp_path / "nowhere", "a") == []


def outcome(name: str, score: float | None, error: str | None = None) -> TrialOutcome:
    return TrialOutcome(name, "", {}, score, [], error)


def test_the_best_trial_has_the_best_score_and_did_not_fail() -> None:
    trials = [outcome("a", 0.1), outcome("b", None), outcome("c", 0.3), outcome("d", 0.3), outcome("e", 0.9, "failed")]
    assert best_trial(trials, "max") is trials[2]
    assert best_trial(trials, "min") is trials[0]
    assert best_trial(trials[1:2], "max") is None


@pytest.mark.parametrize(
    ("metric", "last"),
    [("env_runners/success_rate", ["return", "success"]), ("a/b", ["success", "return", "a/b"])],
)
def test_the_table_of_trials_has_the_metric_last_and_once(metric: str, last: list[str]) -> None:
    table = trials_table([TrialOutcome("a", "lr=1", RESULT, 0.5, [], None)], metric)
    headings = [str(column.header) for column in table.columns]
    assert headings == ["trial", "parameters", "iteration", *last]
    assert list(table.columns[-1].cells) == ["0.5"]


def test_an_infinite_score_counts_and_is_no_number_in_json() -> None:
    trials = [outcome("a", 0.1), outcome("b", math.inf)]
    assert best_trial(trials, "max") is trials[1]
    assert [trial.to_json()["score"] for trial in trials] == [0.1, None]
