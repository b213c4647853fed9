"""The games of TextArena (Guertler et al. 2025, https://arxiv.org/abs/2504.11442) as environments."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_gigpo.env_adapters.generated_tasks import check_integer, task_of_reset, text_space
from rllib_gigpo.env_adapters.multi_agent.global_random import GlobalRandomState

_OPTIONS = {"game": "TicTacToe-v0-train", "num_players": 2, "max_steps": 100}
_LONGEST_TEXT = 1_000_000

# Sets these tasks apart from any other use of a task number as a seed.
_STREAM = 0x74617265


class TextArenaGame(MultiAgentEnv):
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

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any):
        given = {**dict(config or {}), **options}
        if unknown := sorted(set(given) - set(_OPTIONS)):
            raise ValueError(f"TextArena got options {unknown}; known are {sorted(_OPTIONS)}")
        values = {**_OPTIONS, **given}
        check_integer("num_players", values["num_players"], lowest=1)
        check_integer("max_steps", values["max_steps"], lowest=1)
        self._textarena = _import_textarena()
        _check_game(self._textarena, values["game"])
        self._name, self._num_players, self._max_steps = values["game"], values["num_players"], values["max_steps"]
        self.possible_agents = _agents(self._num_players)
        self.agents = list(self.possible_agents)
        super().__init__()
        # One space object for each agent: seeding the one must not seed the other.
        self.observation_spaces = {agent: text_space(_LONGEST_TEXT) for agent in self.possible_agents}
        self.action_spaces = {agent: text_space(_LONGEST_TEXT) for agent in self.possible_agents}
        self._random: GlobalRandomState | None = None
        self._game: Any = None
        self._task = 0
        self._agent_in_seat: list[str] = []
        self._turn = 0
        self._shown = ""
        self._steps = 0
        self._is_action_valid: dict[str, bool] = {}

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Starts the game of `options["task"]`, an integer of at least 0, or of a task drawn from the seed.

        Returns:
            Observation and info of the agent that begins.

        Raises:
            TypeError: The task is not an integer.
            ValueError: The task is negative, or `options` has another key.
        """
        super().reset(seed=seed)
        self._task = task_of_reset(options, self.np_random, environment="TextArena")
        rng = np.random.default_rng([_STREAM, self._task])
        first = int(rng.integers(self._num_players))
        self._agent_in_seat = [*self.possible_agents[-first:], *self.possible_agents[:-first]]
        self._random = GlobalRandomState(int(rng.integers(2**31)))
        self._steps = 0
        self._is_action_valid = {}
        with self._random:
            # A new one each time: what wrappers have shown, they show again after a reset.
            self._game = self._textarena.make(self._name)
            self._game.reset(num_players=self._num_players, seed=int(rng.integers(2**31)))
            self._look()
        return self._answers([self._agent_in_seat[self._turn]], won=False)

    def step(
        self, action_dict: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Gives the game the move of the agent whose turn it is.

        Raises:
            ValueError: The actions are not those of exactly that agent.
            TypeError: Its action is not a text.
            RuntimeError: The environment was never reset.
        """
        if self._random is None:
            raise RuntimeError("TextArenaGame.step was called before reset")
        seat, mover = self._turn, self._agent_in_seat[self._turn]
        if set(action_dict) != {mover}:
            raise ValueError(f"step got actions of {sorted(action_dict)}; it is the turn of {mover!r}, and of no other")
        if not isinstance(action_dict[mover], str):
            raise TypeError(f"action of {mover!r} is {action_dict[mover]!r}; TextArena takes text, e.g. '[4]'")
        errors = self._errors()
        with self._random:
            done, _ = self._game.step(action=action_dict[mover])
            rewards, game_info = self._game.close() if done else ({}, {})
            if not done:
                self._look()
        self._steps += 1
        refused = self._errors() > errors or bool(game_info.get(seat, {}).get("invalid_move", False))
        self._is_action_valid[mover] = not refused

        truncated = self._steps >= self._max_steps and not done
        by_agent = {agent: float((rewards or {}).get(at, 0.0)) for at, agent in enumerate(self._agent_in_seat)}
        # An agent whose first observation came with the end would be one that never acts.
        took_part = list(self._is_action_valid)
        over = done or truncated
        observations, infos = self._answers(
            took_part if over else [self._agent_in_seat[self._turn]], won=done and _has_won(by_agent)
        )
        given = {agent: by_agent[agent] for agent in took_part} if done else {mover: 0.0}
        return observations, given, {"__all__": bool(done)}, {"__all__": truncated}, infos

    def _look(self) -> None:
        """Asks the game whose turn it is, and what that player is shown; it tells only once."""
        self._turn, shown = self._game.get_observation()
        # Without wrappers, a list of (sender, text, kind).
        self._shown = shown if isinstance(shown, str) else "\n".join(text for _, text, *_ in shown)

    def _errors(self) -> int:
        """Invalid moves on end, of games that count them."""
        return int(getattr(self._game.state, "error_count", 0) or 0)

    def _answers(self, agents: list[str], *, won: bool) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Observation and info of each of `agents`."""
        return dict.fromkeys(agents, self._shown), {agent: self._info(agent) | {"won": won} for agent in agents}

    def _info(self, agent: str) -> dict[str, Any]:
        info = {"task_id": f"{self._name}/{self._task}", "task_type": self._name}
        return info | {"is_action_valid": self._is_action_valid[agent]} if agent in self._is_action_valid else info


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
