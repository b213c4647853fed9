"""Imports `alfworld` and TextWorld late, and without the traces that importing them leaves."""

from __future__ import annotations

import os
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

DATA_VARIABLE = "ALFWORLD_DATA"
_LOCK = threading.Lock()


class Packages(NamedTuple):
    """What is used of the packages."""

    textworld: ModuleType
    pddl: ModuleType  # textworld.envs.pddl.pddl: PddlEnv
    textgen: Any  # textworld.envs.pddl.textgen: the grammar of the texts
    logic: Any  # textworld.logic
    fast_downward: Any
    mementos: Any  # mementos.core: keeps the facts of TextWorld's games
    alfred_tw_env: ModuleType  # AlfredDemangler
    goal_library: ModuleType  # goals and task descriptions of the task types
    constants: ModuleType  # what can lie where, what can be heated
    domain_file: Path  # the PDDL domain of all games
    grammar_file: Path  # the grammar of all texts


def packages() -> Packages:
    """The packages, imported once.

    Raises:
        ImportError: One of them is missing; the message names the extra.
    """
    with _LOCK:
        return _packages()


@cache
def _packages() -> Packages:
    given = os.environ.get(DATA_VARIABLE)
    # alfworld makes the folder that the variable names, else one in the home folder, and sets the variable to it.
    os.environ[DATA_VARIABLE] = tempfile.gettempdir()
    try:
        import alfworld.info
        import fast_downward
        import mementos.core
        import textworld.envs.pddl.pddl
        import textworld.envs.pddl.textgen
        import textworld.logic
        from alfworld.agents.environment import alfred_tw_env
        from alfworld.gen import constants, goal_library
    except ImportError as error:
        raise ImportError(
            f"ALFWorld needs the packages alfworld and textworld with its planner, and {error.name or error} is "
            'missing: pip install "rllib-gigpo[alfworld]" (it compiles the planner: g++ and make are needed)'
        ) from error
    finally:
        if given is None:
            del os.environ[DATA_VARIABLE]
        else:
            os.environ[DATA_VARIABLE] = given
    # For others in this process, who use alfworld itself.
    alfworld.info.ALFWORLD_DATA = given or os.path.expanduser("~/.cache/alfworld")
    return Packages(
        textworld=textworld,
        pddl=textworld.envs.pddl.pddl,
        textgen=textworld.envs.pddl.textgen,
        logic=textworld.logic,
        fast_downward=fast_downward,
        mementos=mementos.core,
        alfred_tw_env=alfred_tw_env,
        goal_library=goal_library,
        constants=constants,
        domain_file=Path(alfworld.info.ALFRED_PDDL_PATH),
        grammar_file=Path(alfworld.info.ALFRED_TWL2_PATH),
    )
