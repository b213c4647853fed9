"""What is kept of the trials of a task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rllib_gigpo.env_runners import endings
from rllib_gigpo.prompt_agents.player import AgentMemory

# A request that got no answer ends its trial alone; in training, an engine that fails ends more than that.
REQUEST_FAILURE = "request_failure"
ENDINGS = (
    endings.WON,
    endings.LOST,
    endings.STEP_LIMIT,
    endings.PROMPT_OVERFLOW,
    endings.ENV_FAILURE,
    endings.SERVICE_FAILURE,
    REQUEST_FAILURE,
)
_FAILURES = (endings.PROMPT_OVERFLOW, endings.ENV_FAILURE, endings.SERVICE_FAILURE, REQUEST_FAILURE)


@dataclass
class Trial:
    """One try at a task.

    Attributes:
        ending: One of ENDINGS; None until it has ended.
        total_return: Sum of the rewards of all agents.
        steps: Of the environment.
        actions: Of all agents.
        invalid: The invalid ones, by reason.
        failure_cause, failure: A short word, and the message, where the trial failed.
        memories: By agent, what it went through.
    """

    ending: str | None = None
    total_return: float = 0.0
    steps: int = 0
    actions: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    failure_cause: str | None = None
    failure: str | None = None
    memories: dict[str, AgentMemory] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        """Whether it could not be played to its end."""
        return self.ending in _FAILURES

    def fail(self, ending: str, cause: str, failure: BaseException | str) -> None:
        """Ends it by a failure, an exception or what is told of one."""
        self.ending, self.failure_cause = ending, cause
        self.failure = failure if isinstance(failure, str) else f"{type(failure).__name__}: {failure}"


@dataclass
class TaskRecord:
    """All trials of a task.

    Attributes:
        task: As on the panel.
        task_id, task_type: As the environment names them, or None.
        first_observation: What it showed first: a text, or of several agents a text for each; None where it failed.
        trials: In order; none but the last can be won.
        failed_reflections: Reflections that were asked for in vain, by cause.
    """

    task: Any
    task_id: Any = None
    task_type: str | None = None
    first_observation: Any = None
    trials: list[Trial] = field(default_factory=list)
    failed_reflections: Counter[str] = field(default_factory=Counter)

    @property
    def last(self) -> Trial:
        return self.trials[-1]

    def won_within(self, trials: int) -> bool:
        """Whether one of the first so many trials was won."""
        return any(trial.ending == endings.WON for trial in self.trials[:trials])
