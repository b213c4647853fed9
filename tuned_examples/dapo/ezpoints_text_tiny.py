"""DAPO."""

from rllib_gigpo.algorithms.dapo import DAPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    DAPOConfig()
    .environment("EZPoints")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        # At least this many rounds are needed where one group in five has a win; later one is enough.
        max_sampling_rounds=5,
        num_minibatches=4,
        # Three hundred times what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=128)
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
