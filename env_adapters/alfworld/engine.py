"""TextWorld's engine: one game at a time, reloaded for the next one.

An engine maps a copy of the planner's library into the process that is never unmapped, about 1.5 MB. So engines are
never thrown away: `borrow_engine` hands out those that were given back before it makes another.

TextWorld's parsers are objects of their modules, and two threads in one of them break it. Everything here runs under
one lock for the whole process.
"""

from __future__ import annotations

import threading
from typing import Any

from rllib_gigpo.env_adapters.alfworld.fast_textworld import fast_textworld, forget_facts
from rllib_gigpo.env_adapters.alfworld.games import BrokenGameError, Game
from rllib_gigpo.env_adapters.alfworld.packages import packages

_LOCK = threading.RLock()
_idle: list[Engine] = []


def borrow_engine() -> Engine:
    """An engine that nobody else uses. Raises ImportError where the packages are not installed."""
    with _LOCK:
        return _idle.pop() if _idle else Engine()


def give_back(engine: Engine) -> None:
    """Takes back an engine, for the next who borrows one."""
    with _LOCK:
        _idle.append(engine)


class Engine:
    """Plays one game at a time. Made by `borrow_engine`."""

    def __init__(self) -> None:
        self._packages = packages()
        infos = self._packages.textworld.EnvInfos(won=True, admissible_commands=True)
        self._pddl = self._packages.pddl.PddlEnv(infos)
        self._env = self._packages.alfred_tw_env.AlfredDemangler(self._pddl)
        self._game: Game | None = None

    def start(self, game: Game) -> Any:
        """TextWorld's state at the start of a game.

        Raises:
            BrokenGameError: The game cannot be read or loaded.
        """
        with _LOCK, fast_textworld(self._packages):
            try:
                if self._game != game:
                    self._game = None
                    forget_facts(self._packages)
                    self._env.load(dict(game.read()))
                    self._game = game
                return self._env.reset()
            # The parsers and the planner raise what they like on what they cannot read; some call sys.exit.
            except (Exception, SystemExit) as error:
                self._game = None
                if isinstance(error, BrokenGameError):
                    raise
                raise BrokenGameError(f"{game.task_id} cannot be loaded: {type(error).__name__}: {error}") from error

    def step(self, command: str) -> Any:
        """TextWorld's state after a command. A command that is not admissible changes nothing."""
        with _LOCK, fast_textworld(self._packages):
            state, _, _ = self._env.step(command)
            return state

    def plan(self) -> list[str]:
        """The planner's commands from the current state to a win; empty where there is no way or nothing to do."""
        with _LOCK, fast_textworld(self._packages):
            # What TextWorld itself calls for `policy_commands`, which it would do in every step of the game.
            return list(self._pddl._pddl_state.replan(self._pddl._entity_infos))
