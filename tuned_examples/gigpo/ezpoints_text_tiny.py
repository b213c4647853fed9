"""GiGPO teaches the embedded tiny language model to play EZPoints, on a CPU, in minutes.

    rllib train file tuned_examples/gigpo/ezpoints_text_tiny.py

The model comes warmed up: it writes the response format and wins about one game in ten. Each iteration plays 8 hands
8 times each. Seeds 0 to 3 went from 0.09 success on the panel to 0.98 or more, in about two minutes on two busy cores.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("EZPoints")
    .language_model(model_path=str(embedded_model_path("EZPoints")))
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

stop = {"training_iteration": 40}
