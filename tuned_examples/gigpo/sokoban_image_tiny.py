"""GiGPO trains the embedded tiny vision-language model on pictures of easy levels of Sokoban, on a CPU.

    rllib train file tuned_examples/gigpo/sokoban_image_tiny.py

Pictures have the published 96 × 96 pixels, and each of their 36 cells is one token. The model comes warmed up: it reads
where player, box and target are, and wins about one game in three. Each iteration plays 16 levels 8 times each. Over
seeds 0 to 2 the success on the panel goes from 0.33 to 0.77, in about four minutes of one core: docs/results.md. With a
ratio per token and a learning rate of 5e-4, seed 0 fell to 0.23 instead.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path
from rllib_gigpo.env_adapters.sokoban import EASY_PICTURES

config = (
    GiGPOConfig()
    # Without the published -0.1 a step: groups in which nobody wins would differ in nothing else, and move the weights.
    .environment("Sokoban", env_config={**EASY_PICTURES, "step_reward": 0.0})
    .language_model(model_path=str(embedded_model_path("Sokoban", observation="image")))
    .generation(max_prompt_tokens=192, max_response_tokens=48)
    .training(
        group_size=8,
        groups_per_iteration=16,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=3e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # One ratio per response. Averaged over 30 tokens it hardly leaves 1, hence the narrow clip.
        ratio="sequence",
        clip_low=0.02,
        clip_high=0.02,
        # A win is worth 11, an invalid action costs 0.1. Without a floor, a group that differs only in its number of
        # invalid actions would move the weights as much as one in which some members won.
        advantage_std_floor=1.0,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with a model this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
