"""GiGPO in a game of TextArena by self-play with a tiny language model of another game: how it is set up, on a CPU.

    pip install "rllib-gigpo[textarena]"
    rllib train file tuned_examples/gigpo/textarena_self_play_text_tiny.py

TextArena comes with no model of its own. This is Nim's, whose moves are none in Tic Tac Toe: two invalid ones on end
lose, so who begins loses, and there is nothing to learn. Name the directory of a larger model as `model_path`, with
longer responses and a learning rate of about 1e-6. The tests run three small iterations of it; more was not tried.
"""

from rllib_gigpo.algorithms.gigpo import GiGPOConfig
from rllib_gigpo.env_adapters import embedded_model_path

config = (
    GiGPOConfig()
    # With "-train" a game shows the board of now: what a player sees is the state, and so its own anchor.
    .environment("TextArena", env_config={"game": "TicTacToe-v0-train", "max_steps": 20})
    .self_play(self_play_agent="player", past_versions=3, snapshot_interval=5)
    .language_model(model_path=str(embedded_model_path("Nim")))
    .generation(max_prompt_tokens=960, max_response_tokens=32)
    .training(
        group_size=8,
        groups_per_iteration=8,
        num_minibatches=4,
        # Far above what suits a model of billions of parameters: this one has 0.4 million.
        lr=5e-4,
        adam_betas=(0.9, 0.95),
        weight_decay=0.0,
        # A game is worth 2 between win and defeat: groups that differ less are not scaled up.
        advantage_std_floor=0.5,
    )
    .evaluation(evaluation_duration=32)
    # All in one process: with models this small, actors cost more than they bring.
    .env_runners(num_env_runners=0)
    .learners(num_learners=0)
    .debugging(seed=0)
)

stop = {"training_iteration": 30}
