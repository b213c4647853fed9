"""Builds the embedded vision-language model of EZPoints and NumberLine from nothing.

    python -m rllib_gigpo.env_adapters.gym_cards.embedded_cards_image OUT

The model imitates players that read the pictures well and play poorly: in EZPoints a weak mixture, each action an
expert's with some probability, else uniform over the admissible ones, in NumberLine a player that chooses at random.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from itertools import count
from pathlib import Path

from rllib_gigpo.env_adapters.demonstrations import Turn, picture_demonstrations
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS, NUMBERLINE, SMALL_PICTURES
from rllib_gigpo.env_adapters.gym_cards.ezpoints import EZPoints
from rllib_gigpo.env_adapters.gym_cards.ezpoints_expert import expert_actions, tasks_by_numbers, unused_numbers
from rllib_gigpo.env_adapters.gym_cards.number_line import NumberLine
from rllib_gigpo.env_adapters.picture_warm_up import Stage, Vision, build
from rllib_gigpo.rl_modules.embedded import NamedPicture, PictureRow

SEED = 0
# A picture of 56 × 56 is four tokens: the upper half of each card is one, and so is each number of NumberLine.
# A little more than 56 × 56, which rounding would make smaller.
VISION = Vision(token_pixels=28, max_pixels=60 * 60, naming_steps=1000, naming_learning_rate=3e-3)
HANDS_PER_PAIR = 40  # for the vision tower
EPISODES = 1200
NUMBERLINE_EPISODES = 500
EXPERT_PROBABILITY = 0.42
STEPS = 700
LEARNING_RATE = 3e-3


def ezpoints_game(task: int) -> Generator[Turn, str, None]:
    """A game of EZPoints, for demonstrations; all pairs of numbers are dealt equally often."""
    env = EZPoints(**SMALL_PICTURES)
    hands = tasks_by_numbers()
    hand = hands[task % len(hands)]
    observation, info = env.reset(options={"task": hand[task // len(hands) % len(hand)]})
    for step in count():
        numbers, formula = tuple(info["Numbers"]), tuple(info["Formula"])
        action = yield Turn(
            observation=observation,
            task=None,
            step=step,
            thought=ezpoints_thought(numbers, formula),
            situation=None,
            expert_actions=expert_actions(numbers, formula),
            possible_actions=info["admissible_actions"],
        )
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return


def number_line_game(task: int) -> Generator[Turn, str, None]:
    """A game of NumberLine, for demonstrations. Its expert knows no better than chance."""
    env = NumberLine(**SMALL_PICTURES)
    observation, info = env.reset(options={"task": task})
    for step in count():
        action = yield Turn(
            observation=observation,
            task=None,
            step=step,
            thought=number_line_thought(info["Target"], info["Current"]),
            situation=None,
            expert_actions=info["admissible_actions"],
            possible_actions=info["admissible_actions"],
        )
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return


def ezpoints_thought(numbers: tuple[int, ...], formula: tuple[str, ...]) -> str:
    """The cards, and of those the ones that are left: "Cards 10 2. I have 2 after +.\""""
    unused = " ".join(unused_numbers(numbers, formula)) or "nothing"
    last = formula[-1] if formula else "nothing"
    return f"Cards {' '.join(map(str, numbers))}. I have {unused} after {last}."


def number_line_thought(target: int, current: int) -> str:
    """Both numbers: "Target 4, current 1.\""""
    return f"Target {target}, current {current}."


def pictures() -> list[NamedPicture]:
    """Pictures of both games, and what their tokens show."""
    shown = []
    cards = EZPoints(**SMALL_PICTURES)
    for hands in tasks_by_numbers():
        for task in hands[:HANDS_PER_PAIR]:
            observation, info = cards.reset(options={"task": task})
            # One character each, and a second one for the place.
            left, right = (f"{'T' if number == 10 else number}" for number in info["Numbers"])
            shown.append(NamedPicture(observation["image"], [f"{left}a", f"{right}b"] * 2))
    line = NumberLine(**SMALL_PICTURES)
    for task in range(len(shown) // 4):
        observation, info = line.reset(options={"task": task})
        shown.append(NamedPicture(observation["image"], ["", f"{info['Target']}a", "", f"{info['Current']}b"]))
    return shown


def rows() -> list[PictureRow]:
    """What the whole model imitates."""
    of_ezpoints = picture_demonstrations(
        ezpoints_game, EZPOINTS.agent_format, episodes=EPISODES, played_by_expert=EXPERT_PROBABILITY, seed=SEED
    )
    of_number_line = picture_demonstrations(
        number_line_game, NUMBERLINE.agent_format, episodes=NUMBERLINE_EPISODES, played_by_expert=0, seed=SEED
    )
    return [*of_ezpoints, *of_number_line]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]), VISION, pictures(), [Stage(rows(), STEPS, LEARNING_RATE)], seed=SEED)
