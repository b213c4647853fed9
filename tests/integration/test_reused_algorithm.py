"""An algorithm that becomes another trial's, as Tune has it with `reuse_actors=True`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.algorithm_cases import largest_difference, small_config, weights_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("ray_cluster")]


def test_it_takes_over_the_weights_of_a_better_trial_with_a_changed_config(tmp_path: Path) -> None:
    better = small_config(lr=1e-3).build_algo()
    better.train()
    checkpoint = better.save_to_path(tmp_path / "checkpoint")
    taught = weights_of(better)
    better.stop()

    algo = small_config(lr=1e-5).build_algo()
    algo.train()
    assert largest_difference(weights_of(algo), taught) > 0
    assert algo.reset(small_config(lr=8e-4, step_advantage_weight=0.5).to_dict())
    # A fresh one of the new config, until a checkpoint is restored.
    assert (algo.iteration, algo.config.lr, algo.config.step_advantage_weight) == (0, 8e-4, 0.5)
    algo.restore_from_path(checkpoint)
    assert largest_difference(weights_of(algo), taught) == 0
    algo.train()
    optimizer = algo.learner_group._learner.get_optimizer()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(8e-4)
    assert largest_difference(weights_of(algo), taught) > 0
    algo.stop()
