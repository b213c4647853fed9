"""GiGPO teaches the embedded tiny vision-language model to walk to a number in pictures of NumberLine, on a CPU.

    rllib train file tuned_examples/gigpo/numberline_image_tiny.py

Both numbers are in the picture alone. The model comes warmed up: it reads them, and walks at random, which wins about
three games in five. Each iteration plays 8 tasks 8 times each. Seed 0, the only one tried, did not get beyond chance in
18 iterations, nor in 11 with a learning rate of 1e-3: this shows that it runs, not that it learns.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards import SMALL_PICTURES

config = (
    GiGPOConfig()
    .environment("NumberLine", env_config=dict(SMALL_PICTURES))
    .language_model(model_path=str(embedded_model_path("NumberLine", observation="image")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Three hundred times what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 20}
