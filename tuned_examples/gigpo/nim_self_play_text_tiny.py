"""GiGPO teaches an embedded tiny language model Nim by self-play, on a CPU, in minutes.

    rllib train file tuned_examples/gigpo/nim_self_play_text_tiny.py

The model moves at random at first. It plays for "player"; "opponent" is played by frozen copies: the first version, and
the last three that were kept, one every five iterations. The success before and after training is the share of games
that the player wins against the first version, on a panel of 128 tasks in about half of which it begins: with seed 0 it
was 0.56, and 0.87 after 25 iterations, where the best moves would win 0.95. See docs/multi_agent.md.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    .environment("Nim")
    .self_play(self_play_agent="player", past_versions=3, snapshot_interval=5)
    .language_model(model_path=str(embedded_model_path("Nim")))
    .generation(max_prompt_tokens=160, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=16,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # One ratio per response. Averaged over some tokens it hardly leaves 1, hence the narrow clip.
        ratio="sequence",
        clip_low=0.02,
        clip_high=0.02,
        # A game is worth 2 between win and defeat: groups that differ less are not scaled up.
        advantage_std_floor=0.5,
    )
    .evaluation(evaluation_duration=128)
    # All in one process: with models this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 40}
