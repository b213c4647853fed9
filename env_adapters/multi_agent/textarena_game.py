"""The games of TextArena (Guertler et al. 2025, https://arxiv.org/abs/2504.11442) as environments."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from rllib_gigpo.env_adapters.generated_tasks import check_integer
from rllib_gigpo.env_adapters.multi_agent.global_random import GlobalRandomState
from rllib_gigpo.env_adapters.multi_agent.turn_taking import TurnTakingEnv, options_of

_OPTIONS = {"game": "TicTacToe-v0-train", "num_players": 2, "max_steps": 100}
_LONGEST_TEXT = 1_000_000

# Sets these tasks apart from any other use of a task number as a seed.
_STREAM = 0x74617265


class TextArenaGame(TurnTakingEnv):
    """A game of the package `textarena`, for as many players as it has.

    One of them is "player", in a seat that the task draws; the others are "opponent", or "opponent_1", "opponent_2", …
    where there are several. `won` is of the player, in every info: its reward is above 0 and nobody's is higher; of a
    game of one, at least 1.

    Observation of the agent whose turn it is: the text of the game. Action: a move as that text asks for, upper and
    lower case as they are. What an invalid one does is the game's: most allow one, and the second on end loses.

    Reward: the game's own, as soon as it is over, which terminates for all; 0 before. `max_steps` truncates.

    Infos hold, for the agent concerned, `won`, `task_id`, `task_type` (the game's name); after an act also
    `is_action_valid`, as far as the game tells.

    The task seeds Python's and NumPy's global generators, from which the games draw, around every call of a game;
    whoever else uses them does not notice.

    Args:
        config: The options below as a mapping, as RLlib gives them to an environment's class.
        game: TextArena's id, such as "ConnectFour-v0"; those that end in "-train" show the board of now in place of all
            that went before.
        num_players: How many play.
        max_steps: Acts of all together, after which an episode is truncated.

    Raises:
        ImportError: textarena is not installed.
        ValueError: An option is unknown, or has a value that is not allowed.
    """

    game_name = "TextArena"
    example_action = "[4]"

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any):
        values = options_of(self.game_name, _OPTIONS, config, options)
        check_integer("num_players", values["num_players"], lowest=1)
        self._textarena = _import_textarena()
        _check_game(self._textarena, values["game"])
        self._name, self._num_players = values["game"], values["num_players"]
        super().__init__(
            _agents(self._num_players),
            max_steps=values["max_steps"],
            longest_observation=_LONGEST_TEXT,
            longest_action=_LONGEST_TEXT,
        )
        self._random = GlobalRandomState(0)
        self._game: Any = None
        self._agent_in_seat: list[str] = []
        self._turn = 0
        self._shown = ""
        self._rewards: dict[str, float] | None = None

    def _set_up(self, task: int) -> None:
        rng = np.random.default_rng([_STREAM, task])
        first = int(rng.integers(self._num_players))
        self._agent_in_seat = [*self.possible_agents[-first:], *self.possible_agents[:-first]]
        self._random = GlobalRandomState(int(rng.integers(2**31)))
        self._rewards = None
        with self._random:
            # A new one each time: what wrappers have shown, they show again after a reset.
            self._game = self._textarena.make(self._name)
            self._game.reset(num_players=self._num_players, seed=int(rng.integers(2**31)))
            self._look()

    def _mover(self) -> str:
        return self._agent_in_seat[self._turn]

    def _act(self, action: str) -> bool:
        seat, errors = self._turn, self._errors()
        with self._random:
            done, _ = self._game.step(action=action)
            by_seat, game_info = self._game.close() if done else ({}, {})
            if not done:
                self._look()
        if done:
            self._rewards = {a: float((by_seat or {}).get(at, 0.0)) for at, a in enumerate(self._agent_in_seat)}
        return not (self._errors() > errors or game_info.get(seat, {}).get("invalid_move", False))

    def _final_rewards(self) -> Mapping[str, float] | None:
        return self._rewards

    def _observation(self, agent: str) -> str:
        return self._shown

    def _info(self, agent: str) -> dict[str, Any]:
        won = self._rewards is not None and _has_won(self._rewards)
        return {"won": won, "task_id": f"{self._name}/{self._task}", "task_type": self._name}

    def _look(self) -> None:
        """Asks the game whose turn it is, and what that player is shown; it tells only once."""
        self._turn, shown = self._game.get_observation()
        # Without wrappers, a list of (sender, text, kind).
        self._shown = shown if isinstance(shown, str) else "\n".join(text for _, text, *_ in shown)

    def _errors(self) -> int:
        """Invalid moves on end, of games that count them."""
        return int(getattr(self._game.state, "error_count", 0) or 0)


def _agents(num_players: int) -> list[str]:
    if num_players <= 2:
        return ["player", "opponent"][:num_players]
    return ["player", *(f"opponent_{number}" for number in range(1, num_players))]


def _has_won(rewards: Mapping[str, float]) -> bool:
    own = rewards["player"]
    return own >= 1.0 if len(rewards) == 1 else own > 0 and own == max(rewards.values())


def _import_textarena() -> Any:
    try:
        import textarena
    except ImportError as error:
        raise ImportError(
            f"TextArena's games need the package textarena: pip install 'rllib-gigpo[textarena]' ({error})"
        ) from error
    return textarena


def _check_game(textarena: Any, name: Any) -> None:
    known = textarena.envs.registration.ENV_REGISTRY
    if name not in known:
        nearest = get_close_matches(str(name), known, n=3)
        raise ValueError(f"game is {name!r}, which TextArena does not have; nearest are {nearest}")
