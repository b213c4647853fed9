"""DAPO teaches the embedded tiny language model to play EZPoints, on a CPU, in minutes.

    rllib train file tuned_examples/dapo/ezpoints_text_tiny.py

Each iteration trains on 8 hands whose 8 games differ, and plays others in place of those in which all games end alike:
10 hands an iteration at the start, 20 to 30 where nearly every game is won. Seeds 0 and 1 went from 0.09 and 0.17
success on the panel to 1.00 and 0.99, on 4600 and 5480 games.
"""

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
        # Late in the run one hand in four has a signal, which takes up to five rounds.
        max_sampling_rounds=5,
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
