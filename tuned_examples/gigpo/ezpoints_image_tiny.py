"""GiGPO teaches the embedded tiny vision-language model to play EZPoints from pictures, on a CPU, in minutes.

    rllib train file tuned_examples/gigpo/ezpoints_image_tiny.py

The cards are in the picture alone, the formula is in the text too. The model comes warmed up: it reads the cards,
writes the response format, and wins about one game in ten. Each iteration plays 8 hands 8 times each. Over seeds 0 to 2
the success on the panel goes from 0.10 to 0.97, 0.92 and 0.80, in about four minutes of one core: docs/results.md.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.gym_cards import SMALL_PICTURES

config = (
    GiGPOConfig()
    .environment("EZPoints", env_config=dict(SMALL_PICTURES))
    .language_model(model_path=str(embedded_model_path("EZPoints", observation="image")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Three hundred times what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # A win is worth 10, an invalid action costs 0.1. Without a floor, a group that differs only in its number of
        # invalid actions would move the weights as much as one in which some members won.
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 70}
