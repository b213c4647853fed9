"""Training that is killed with -9 at a random moment and resumed, beside the same training uninterrupted.

    python benchmarks/soak.py Resume          ten seeds

The run has what a checkpoint must hold: Adam's moments, schedules of the learning rate and of the KL coefficient, a
task order, lifetime counters. It goes through an Algorithm in one process, an Algorithm with an env runner and a
learner of their own, or Tune, where `Tuner.restore` takes the place of the killed driver. Tune keeps one checkpoint by
a score by which the first is the best, and the latest besides.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from ray import tune
from safetensors.numpy import load_file

from rllib_gigpo.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig
from rllib_gigpo.columns import GROUP_ID, TASK
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_checks.check_result import CheckResult, failed, one_line, passed

# One of them for each seed, in turn.
WAYS = ("one process", "Tune", "one process", "runner and learner", "one process")
TOLERANCE = 1e-6
GROUPS = 2
_FILES = "learner_group/learner/rl_module/default_policy/huggingface/model.safetensors"
_MOST_S = 600.0
_POLL_S = 0.05
# In the child's folder: that it trains, the last iteration of a run of Tune, and that run.
_STARTED, _LAST, _RUN = "started", "last_iteration", "run"


class StopWhenTold(tune.Stopper):
    """Ends a run of Tune at the iteration that a file says, once there is one."""

    def __init__(self, file: Path):
        self._file = file

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._file.exists() and result["training_iteration"] >= int(self._file.read_text())

    def stop_all(self) -> bool:
        return False


def config_of(seed: int, way: str) -> Any:
    """Two small groups on EZPoints with the embedded model."""
    alone = way != "runner and learner"
    return (
        GiGPOConfig()
        .environment("EZPoints", tasks=list(range(7)))
        .language_model(model_path=str(embedded_model_path("EZPoints")))
        .generation(max_prompt_tokens=160, max_response_tokens=16)
        .training(group_size=4, groups_per_iteration=GROUPS, num_minibatches=2)
        .training(lr=[[0, 1e-3], [200, 1e-4]], kl_coeff=[[0, 0.1], [200, 0.01]])
        .evaluation(evaluation_duration=4)
        .env_runners(num_env_runners=0 if alone else 1)
        .learners(num_learners=0 if alone else 1)
        .reporting(recorded_groups=0)
        .debugging(seed=seed)
    )


def resume(*, seeds: Sequence[int] = range(10)) -> list[CheckResult]:
    """One result for each seed."""
    torch.set_num_threads(1)
    with a_cluster() as address, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        ways = {seed: WAYS[seed % len(WAYS)] for seed in seeds}
        # Most of the time goes into starts of processes, some of it idle: the next runs begin meanwhile.
        killed = {
            seed: pool.submit(kill_at_random, address, Path(folder, str(seed)), seed, way) for seed, way in ways.items()
        }
        results = []
        for seed, way in ways.items():
            # One that fails must not take the others with it.
            try:
                killed[seed].result()
                results.append(resumed(Path(folder, str(seed)), seed, way))
            except Exception as error:
                traceback.print_exc()
                results.append(failed(name_of(seed, way), cause_of(error), "a run that was killed must go on"))
            print(results[-1], flush=True)
        return results


@contextmanager
def a_cluster() -> Iterator[str]:
    """A Ray of this process; gives its address."""
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


def resumed(folder: Path, seed: int, way: str) -> CheckResult:
    """Resumes the run that was killed in `folder`, and compares it with one that was not killed."""
    saved = newest(folder).name
    found = by_tune(folder, seed) if way == "Tune" else by_algorithm(newest(folder), seed, way)
    seen = f"killed after {saved}; {found['seen']}; largest difference of a weight {found['difference']:g}"
    if found["difference"] <= TOLERANCE and found["equal"]:
        return passed(name_of(seed, way), seen)
    return failed(name_of(seed, way), seen, "a resumed run must go on as if nothing had happened")


def name_of(seed: int, way: str) -> str:
    return f"seed {seed}, {way}"


def cause_of(error: Exception) -> str:
    """Its type and its last line: Ray puts a worker's traceback before what it raised."""
    return one_line(f"{type(error).__name__}: {str(error).strip().rpartition(chr(10))[2]}")


def by_algorithm(checkpoint: Path, seed: int, way: str) -> dict[str, Any]:
    """The iteration behind a checkpoint: of an algorithm that is restored, and of one that trained until then."""
    restored = GiGPO.from_checkpoint(checkpoint)
    done = restored.iteration
    after = one_iteration(restored)
    restored.stop()
    whole = config_of(seed, way).build_algo()
    for _ in range(done):
        whole.train()
    expected = one_iteration(whole)
    whole.stop()
    same = {key: after[key] == expected[key] for key in ("tasks", "numbers")}
    seen = f"iteration {done + 1}: " + ", ".join(f"{'same' if value else 'OTHER'} {key}" for key, value in same.items())
    return {
        "seen": seen,
        "equal": all(same.values()) and len(expected["tasks"]) > 0,
        "difference": difference(after["weights"], expected["weights"]),
    }


def one_iteration(algo: Any) -> dict[str, Any]:
    """Trains once: tasks, weights, and numbers that only go on where state does."""
    episodes: list = []
    sample = algo._sample
    algo._sample = lambda plan: episodes.extend(found := sample(plan)) or found
    result = algo.train()
    learner = result["learners"]["default_policy"]
    return {
        "tasks": [(episode.get_infos(0)[GROUP_ID], episode.get_infos(0)[TASK]) for episode in episodes],
        "weights": algo.learner_group.get_weights()["default_policy"],
        "numbers": [
            result["training_iteration"],
            result["num_env_steps_sampled_lifetime"],
            result["env_runners"]["num_episodes_lifetime"],
            float(learner["default_optimizer_learning_rate"]),
        ],
    }


def by_tune(folder: Path, seed: int) -> dict[str, Any]:
    """As `by_algorithm`, of a run of Tune and an algorithm without Tune."""
    # Tune counts checkpoints from 0: the iteration behind the newest one.
    last = int(newest(folder).name[-6:]) + 2
    (folder / _LAST).write_text(str(last))
    result = tune.Tuner.restore((folder / _RUN).as_uri(), trainable=GiGPO).fit()[0]
    if result.error is not None:
        raise result.error
    kept = checkpoints(folder)
    whole = config_of(seed, "Tune").build_algo()
    for _ in range(last):
        whole.train()
    weights = whole.learner_group.get_weights()["default_policy"]
    whole.stop()
    states = [pickle.loads((path / "algorithm_state.pkl").read_bytes()) for path in kept]
    iterations, cursor = [state["training_iteration"] for state in states], states[-1]["task_cursor"]
    return {
        "seen": f"iteration {iterations[-1]}, task cursor {cursor}, kept those of iterations {iterations}",
        # The best by the score, and the latest.
        "equal": cursor == last * GROUPS and iterations == [1, last],
        "difference": difference(load_file(kept[-1] / _FILES), weights),
    }


def difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """Largest absolute difference; infinite where the names differ."""
    if a.keys() != b.keys():
        return float("inf")
    return max(float(np.abs(a[name].astype(np.float64) - b[name].astype(np.float64)).max()) for name in a)


def kill_at_random(address: str, folder: Path, seed: int, way: str) -> None:
    """Starts a run in a process of its own and kills it between two of its checkpoints, or while it saves one.

    The seed draws after which checkpoint, and when within the iteration that follows, as a share of the one before.
    """
    folder.mkdir()
    rng = np.random.default_rng(seed)
    wanted, share = int(rng.integers(1, 3)), float(rng.uniform())
    command = [sys.executable, __file__, address, str(folder), str(seed), way]
    # Tune would write down what it has done only every ten seconds.
    environment = os.environ | {"TUNE_GLOBAL_CHECKPOINT_S": "0"}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        times = [_appeared(child, folder, count) for count in range(wanted + 1)]
        time.sleep(share * (times[-1] - times[-2]))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def _appeared(child: subprocess.Popen, folder: Path, count: int) -> float:
    """When the child had saved so many checkpoints; 0: when it began to train."""
    deadline = time.monotonic() + _MOST_S
    while not (len(checkpoints(folder)) >= count if count else (folder / _STARTED).exists()):
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the run to be killed did not come to checkpoint {count}: {child.poll()}")
        time.sleep(_POLL_S)
    return time.monotonic()


def checkpoints(folder: Path) -> list[Path]:
    """Those that are whole, by name; Tune puts them into a trial's folder."""
    found = [*folder.glob("checkpoint_*"), *folder.glob(f"{_RUN}/*/checkpoint_*")]
    return sorted(path for path in found if (path / "checkpoint_manifest.json").is_file())


def newest(folder: Path) -> Path:
    return checkpoints(folder)[-1]


def train(address: str, folder: Path, seed: int, way: str) -> None:
    """What is killed: trains and saves, until then."""
    ray.init(address=address, log_to_driver=False)
    torch.set_num_threads(1)
    config = config_of(seed, way)
    if way == "Tune":
        (folder / _STARTED).touch()
        checkpointing = tune.CheckpointConfig(
            checkpoint_frequency=1,
            num_to_keep=1,
            checkpoint_score_attribute="training_iteration",
            checkpoint_score_order="min",
        )
        run_config = tune.RunConfig(
            name=_RUN,
            storage_path=folder.as_uri(),
            stop=StopWhenTold(folder / _LAST),
            checkpoint_config=checkpointing,
        )
        tune.Tuner(GiGPO, param_space=config, run_config=run_config).fit()
        return
    algo = config.build_algo()
    (folder / _STARTED).touch()
    while True:
        algo.train()
        algo.save_to_path(folder / f"checkpoint_{algo.iteration:06d}")


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
