"""Builds the embedded vision-language model of Sokoban from nothing, for the levels of `EASY_PICTURES`.

    python -m rllib_gigpo.env_adapters.sokoban.embedded_sokoban_image OUT

First its vision tower learns to name what a cell holds, then the model imitates an expert, which teaches it to read
where things are, and at last a weak player, which takes most of the skill at the game away again.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn, picture_demonstrations
from rllib_gigpo.env_adapters.picture_warm_up import Stage, Vision, build
from rllib_gigpo.env_adapters.sokoban import EASY_PICTURES, SOKOBAN
from rllib_gigpo.env_adapters.sokoban.demonstrated_levels import demonstrated_level
from rllib_gigpo.env_adapters.sokoban.drawing import CELL_PIXELS
from rllib_gigpo.env_adapters.sokoban.sokoban import Sokoban
from rllib_gigpo.rl_modules.embedded import NamedPicture

SEED = 0
SIZE = 6
# A cell is a token. Rounding would make a picture of exactly the most pixels smaller.
VISION = Vision(
    token_pixels=CELL_PIXELS, max_pixels=(SIZE * CELL_PIXELS + 8) ** 2, naming_steps=300, naming_learning_rate=3e-3
)
PICTURES = 400
EPISODES = 1500
READING_STEPS, READING_LEARNING_RATE = 600, 3e-3
WEAK_EXPERT_PROBABILITY = 0.4
WEAK_STEPS, WEAK_LEARNING_RATE = 100, 1.5e-3


def game(task: int) -> Generator[Turn, str, None]:
    """A game of Sokoban in pictures, for demonstrations."""
    return demonstrated_level(Sokoban(size=SIZE, **EASY_PICTURES), task)


def pictures() -> list[NamedPicture]:
    """Pictures of levels, and the symbol of each cell; with two boxes, so that all seven kinds come up."""
    env = Sokoban(size=SIZE, num_boxes=2, observation="image")
    shown = []
    for task in range(PICTURES // 4):
        observation, info = env.reset(options={"task": task})
        for action in ("up", "left", "down", "right"):
            # A tokenizer of bytes has no single token for "√".
            cells = ["Y" if symbol == "√" else symbol for symbol in info["anchor_state"].split()]
            shown.append(NamedPicture(observation["image"], cells))
            observation, _, _, _, info = env.step(action)
    return shown


def stages() -> list[Stage]:
    """What the whole model imitates: an expert, where a half random player gets to; then a weak player."""
    image_format = SOKOBAN.agent_format_of(EASY_PICTURES)
    reading = picture_demonstrations(
        game, image_format, episodes=EPISODES, played_by_expert=0.5, shown_by_expert=1.0, seed=SEED
    )
    weak = picture_demonstrations(
        game, image_format, episodes=EPISODES // 4, played_by_expert=WEAK_EXPERT_PROBABILITY, seed=SEED + 1
    )
    return [
        Stage(list(reading), READING_STEPS, READING_LEARNING_RATE),
        Stage(list(weak), WEAK_STEPS, WEAK_LEARNING_RATE),
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), VISION, pictures(), stages(), seed=SEED)
