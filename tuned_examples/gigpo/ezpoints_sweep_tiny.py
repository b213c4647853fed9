"""A sweep of GiGPO on EZPoints: step advantage weight, learning rate and group size, 8 trials, on a CPU.

    rllib train file tuned_examples/gigpo/ezpoints_sweep_tiny.py

With --checkpoint-freq 3 it can be resumed after it was killed. Each trial is an actor of Ray Tune with a core of its
own, plays 64 games an iteration, and ends after 12. What came of it is in docs/sweeps.md, with random search, ASHA and
population-based training over the same keys.
"""

from ray import tune

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        step_advantage_weight=tune.grid_search([0.0, 1.0]),
        lr=tune.grid_search([1e-4, 3e-4]),
        group_size=tune.grid_search([4, 8]),
        # As many games for either group size.
        groups_per_iteration=tune.sample_from(lambda spec: 64 // spec.config.group_size),
        num_minibatches=4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=128)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 12}
