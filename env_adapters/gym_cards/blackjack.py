"""Blackjack of Gym Cards, by the rules of Gymnasium's Blackjack-v1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.gym_cards.card_env import CardEnv, RewardScheme, check_reward_scheme
from rllib_gigpo.env_adapters.gym_cards.drawing import SIZE, blackjack_table
from rllib_gigpo.env_adapters.gym_cards.hands import RANKS, SUITS
from rllib_gigpo.env_adapters.picture_env import ObservationMode

ACTIONS = ("stand", "hit")
DEALER_STANDS_AT = 17
NATURAL_REWARD = 1.5

# Sets these decks apart from any other use of a task number as a seed.
_STREAM = 0x626A61


class Blackjack(CardEnv):
    """Cards that count up to 21, and no more: more than the dealer's, who draws until he has 17 or more.

    Each card is drawn from an infinite deck. A face card counts 10; an ace 11 (a usable ace), or 1 where 11 would be
    too much. Beyond 21 one is bust. The task decides the order of the deck too: first the dealer's two cards, then the
    player's, then whatever is drawn. So members of a rollout group that act alike fare alike.

    Observation: text, "Sum: 17. Usable ace: no. Dealer shows: 6", which is Gymnasium's state. With
    `observation="image"` a dict of "text", which is "", and "image", the dealer's open card and the player's cards.
    Action: text, "hit" (one more card) or "stand" (the dealer plays, which terminates). Any other text, "" included,
    is a no-op: invalid, the step counts.

    A bust terminates. `max_steps` truncates. `won` is a positive reward.

    Rewards:
        "rl4vlm" (Zhai et al. 2024, and Gymnasium): +1 for a win, 0 for a draw, -1 for a defeat.
        "verl-agent" (Feng et al. 2025, GiGPO): the same, but 0 for a bust.

    With `natural` a win with an ace and a ten as the first two cards is worth 1.5. With `sab`, the rule of Sutton and
    Barto, `natural` does not apply, and such a hand wins against any that is not one itself. (In the Gym Cards code
    neither has an effect, since it looks for the numbers among pairs of number and suit.)

    Infos hold `won`, `task_id`, `task_type`, `admissible_actions` (both, always), `Player Cards` and `Dealer Cards`
    (the open one alone until the player stands), after a step `is_action_valid`, and with images `anchor_state`.

    Args:
        max_steps: Steps after which an episode is truncated.
        reward_scheme: "rl4vlm" or "verl-agent".
        natural: Whether a natural is worth more.
        sab: Whether to play by Sutton and Barto's rule for naturals.
        observation: "text" or "image".
        image_size: Height and width of the picture in pixels.
        render_mode: "rgb_array" has `render()` return the picture.

    Raises:
        ValueError: An option has a value that is not allowed.
    """

    example_action = "hit"

    def __init__(
        self,
        *,
        max_steps: int = 15,
        reward_scheme: RewardScheme = "rl4vlm",
        natural: bool = False,
        sab: bool = False,
        observation: ObservationMode = "text",
        image_size: int = SIZE,
        render_mode: str | None = None,
    ):
        super().__init__(
            max_steps=max_steps,
            observation=observation,
            image_size=image_size,
            render_mode=render_mode,
            max_length=64,
        )
        check_reward_scheme(reward_scheme)
        for option, value in (("natural", natural), ("sab", sab)):
            if not isinstance(value, bool):
                raise ValueError(f"{option} is {value!r}; it must be True or False")
        self._bust_reward = 0.0 if reward_scheme == "verl-agent" else -1.0
        self._natural = natural
        self._sab = sab
        self._deck: np.random.Generator | None = None

    def _set_up(self, task: int) -> None:
        self._deck = np.random.default_rng([_STREAM, task])
        self._dealer = [self._draw(), self._draw()]
        self._player = [self._draw(), self._draw()]
        self._stands = False
        self._won = False

    def _draw(self) -> str:
        """A card: suit and rank, as in "HT"."""
        deck: np.random.Generator = self._started(self._deck)
        rank, suit = deck.integers(len(RANKS)), deck.integers(len(SUITS))
        return SUITS[suit] + RANKS[rank]

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Draws a card, ends the game, or does nothing.

        Raises:
            TypeError: The action is not a text.
            RuntimeError: The environment was never reset.
        """
        self._check_action(action)
        self._started(self._deck)
        self._steps += 1
        reward, terminated = 0.0, False
        if action == "hit":
            self._player.append(self._draw())
            if total(self._player) > 21:
                reward, terminated = self._bust_reward, True
        elif action == "stand":
            self._stands = terminated = True
            while total(self._dealer) < DEALER_STANDS_AT:
                self._dealer.append(self._draw())
            reward = self._compared()
        self._won = reward > 0
        truncated = self._steps >= self._max_steps and not terminated
        info = {**self._info(), "is_action_valid": action in ACTIONS}
        return self._observation(), reward, terminated, truncated, info

    def _compared(self) -> float:
        """The reward when both stand, or the dealer is bust."""
        player, dealer = total(self._player), total(self._dealer)
        reward = 1.0 if dealer > 21 else float(np.sign(player - dealer))
        if self._sab and is_natural(self._player) and not is_natural(self._dealer):
            return 1.0
        if self._natural and not self._sab and is_natural(self._player) and reward == 1.0:
            return NATURAL_REWARD
        return reward

    def _text(self) -> str:
        self._started(self._deck)
        ace = "yes" if has_usable_ace(self._player) else "no"
        shown = _number(self._dealer[0])
        return f"Sum: {total(self._player)}. Usable ace: {ace}. Dealer shows: {'ace' if shown == 1 else shown}"

    def _image(self) -> np.ndarray:
        self._started(self._deck)
        return blackjack_table(self._dealer[0], self._player)

    def _game_info(self) -> dict[str, Any]:
        return {
            "won": self._won,
            "task_id": f"blackjack/{self._task}",
            "task_type": "blackjack",
            "admissible_actions": list(ACTIONS),
            "Player Cards": list(self._player),
            "Dealer Cards": list(self._dealer) if self._stands else self._dealer[:1],
        }


def total(cards: Sequence[str]) -> int:
    """What a hand counts, a usable ace as 11."""
    return sum(map(_number, cards)) + (10 if has_usable_ace(cards) else 0)


def has_usable_ace(cards: Sequence[str]) -> bool:
    """Whether an ace can count 11 without making the hand bust."""
    numbers = [_number(card) for card in cards]
    return 1 in numbers and sum(numbers) + 10 <= 21


def is_natural(cards: Sequence[str]) -> bool:
    """Whether a hand is an ace and a ten, or a face card, and nothing else."""
    return sorted(map(_number, cards)) == [1, 10]


def _number(card: str) -> int:
    return min(RANKS.index(card[1]) + 1, 10)
