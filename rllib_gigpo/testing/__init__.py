"""For the tests of one's own environment: what `rllib doctor env` checks, and more, as functions that raise.

    from rllib_gigpo.testing import check_env, check_prompts, check_repeats, step_group_statistics

    def test_my_game():
        check_env("MyGame", {"size": 4})
        check_repeats("MyGame", {"size": 4})

An environment is given as in a config: by a registered name, a Gymnasium id or a class path, or as a class or function.
None of them needs a running Ray.
"""

from rllib_gigpo.env_checks import CheckResult, Status
from rllib_gigpo.testing.contract import EnvironmentContractError, check_env
from rllib_gigpo.testing.prompts import PromptLengths, check_prompts
from rllib_gigpo.testing.repetition import check_repeats
from rllib_gigpo.testing.step_groups import step_group_statistics

__all__ = [
    "CheckResult",
    "EnvironmentContractError",
    "PromptLengths",
    "Status",
    "check_env",
    "check_prompts",
    "check_repeats",
    "step_group_statistics",
]
