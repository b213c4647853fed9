"""A search over GAGPO's λ, which its paper does not give, and the learning rate, on EZPoints, on a CPU.

    rllib train file tuned_examples/gagpo/ezpoints_sweep_tiny.py

With --num-samples 8 there are 8 trials; each draws its values at random. docs/sweeps.md adds a scheduler: ASHA, which
ends the trials that lag behind, or population-based training, in which they take over the weights of better ones. How
far this gets was not measured.
"""

from ray import tune

from rllib_gigpo.algorithms.gagpo import GAGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GAGPOConfig()
    .environment("EZPoints")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        lambda_=tune.uniform(0.0, 1.0),
        lr=tune.loguniform(1e-4, 1e-3),
        group_size=8,
        groups_per_iteration=8,
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
