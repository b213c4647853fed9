"""A training process that saves after each iteration and is killed in the middle of its third; see test_restore.py."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import ray

from tests.algorithm_cases import record_samples, restorable_config, tasks_of


def main(address: str, folder: Path) -> None:
    """Writes checkpoint-1, checkpoint-2 and tasks.json into `folder`."""
    ray.init(address=address, log_to_driver=False)
    algo = restorable_config().build_algo()
    episodes = record_samples(algo)
    for iteration in (1, 2):
        algo.train()
        algo.save_to_path(folder / f"checkpoint-{iteration}")
    (folder / "tasks.json").write_text(json.dumps(tasks_of(episodes)))

    # The third iteration has sampled, its first optimizer step is done, the second one is not.
    learner = algo.learner_group._learner
    update_module = learner._update_module
    steps = []

    def update_or_die(*args: object) -> float:
        steps.append(args)
        if len(steps) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return update_module(*args)

    learner._update_module = update_or_die
    algo.train()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
