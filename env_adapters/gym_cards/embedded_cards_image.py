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
from rllib_gigpo.rl_modules.embedded import (
    build_image_processor,
    build_tokenizer,
    build_vision_language_model,
    imitate_pictures,
    save_vision_language_model,
)

SEED = 0
EPISODES = 2500
NUMBERLINE_EPISODES = 250
EXPERT_PROBABILITY = 0.42
STEPS = 900
LEARNING_RATE = 3e-3
# A picture of 56 × 56 is four tokens: the upper half of each card is one, and so is each number of NumberLine.
TOKEN_PIXELS = 28


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


def build(directory: Path) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    rows = [
        *picture_demonstrations(
            ezpoints_game, EZPOINTS.agent_format, episodes=EPISODES, played_by_expert=EXPERT_PROBABILITY, seed=SEED
        ),
        *picture_demonstrations(
            number_line_game, NUMBERLINE.agent_format, episodes=NUMBERLINE_EPISODES, played_by_expert=0, seed=SEED
        ),
    ]
    tokenizer = build_tokenizer([text for row in rows for text in row[1:]], with_images=True)
    image_processor = build_image_processor(token_pixels=TOKEN_PIXELS, max_pixels=SMALL_PICTURES["image_size"] ** 2)
    model = build_vision_language_model(tokenizer, seed=SEED, token_pixels=TOKEN_PIXELS)
    losses = imitate_pictures(
        model, tokenizer, image_processor, rows, steps=STEPS, learning_rate=LEARNING_RATE, seed=SEED
    )
    save_vision_language_model(directory, model, tokenizer, image_processor)
    print(
        f"{directory}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens, {len(rows)} rows, "
        f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} nats per token at last"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]))
