"""The numbers of an evaluation by prompting, as JSON has them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rllib_gigpo.env_runners import endings
from rllib_gigpo.inference.chat import ChatUsage
from rllib_gigpo.prompt_agents.player import RESPONSE_CUT, TRUNCATED_PROMPTS
from rllib_gigpo.prompt_agents.records import ENDINGS, REQUEST_FAILURE, TaskRecord, Trial


def check_any_played(records: Sequence[TaskRecord]) -> None:
    """Raises RuntimeError where no task could be played to an end: what is wrong concerns them all."""
    if all(record.last.has_failed for record in records):
        raise RuntimeError(
            f"all {len(records)} tasks failed ({_shares(records)}); the last cause: {records[-1].last.failure}"
        )


def results_of(records: Sequence[TaskRecord], counts: Counter[str], usage: ChatUsage) -> dict[str, Any]:
    """Metrics over a panel of at least one task.

    A task is won where one of its trials was; one that could not be played to its end is not won. Returns, lengths and
    endings are of each task's last trial, invalid actions of all trials.

    Args:
        records: Of each task.
        counts: A player's.
        usage: An engine's.
    """
    trials = [trial for record in records for trial in record.trials]
    last = [record.last for record in records]
    rate = _success(records)
    most_trials = max(len(record.trials) for record in records)
    invalid = sum((trial.invalid for trial in trials), Counter[str]())
    actions = sum(trial.actions for trial in trials)
    return {
        "panel_size": len(records),
        "success_rate": rate,
        "success_rate_stderr": math.sqrt(rate * (1 - rate) / len(records)),
        "success_rate_within_trials": [_success(records, n + 1) for n in range(most_trials)],
        "success_rate_by_task_type": _by_task_type(records),
        "episode_return_mean": _mean(trial.total_return for trial in last),
        "episode_len_mean": _mean(trial.steps for trial in last),
        "num_trials": len(trials),
        "invalid_action_share": invalid.total() / actions if actions else None,
        "invalid_reasons": dict(invalid),
        "endings": {name: sum(trial.ending == name for trial in last) for name in ENDINGS},
        "env_failure_causes": _causes(trials, endings.ENV_FAILURE),
        "service_failure_causes": _causes(trials, endings.SERVICE_FAILURE),
        "request_failure_causes": _causes(trials, REQUEST_FAILURE),
        "failed_reflections": dict(sum((record.failed_reflections for record in records), Counter[str]())),
        "truncated_prompts": counts[TRUNCATED_PROMPTS],
        "response_cut": counts[RESPONSE_CUT],
        "requests": usage.requests,
        "retries": usage.retries,
        "retry_causes": dict(usage.retry_causes),
        "failed_requests": usage.failed,
        "prompt_tokens": usage.prompt_tokens,
        "response_tokens": usage.response_tokens,
        "answers_without_token_counts": usage.answers_without_token_counts,
        "outcomes": [_outcome(record) for record in records],
    }


def transcript(record: TaskRecord) -> dict[str, Any]:
    """Everything that was said about a task: by trial and agent, what was shown and answered, and the notes on it."""
    return {
        "task": record.task,
        "task_id": record.task_id,
        "trials": [
            {
                "ending": trial.ending,
                "failure": trial.failure,
                "agents": {
                    agent_id: {
                        "reflections": memory.reflections,
                        "turns": [
                            {"observation": turn.observation, "response": response, "action": turn.action}
                            for turn, response in zip(memory.turns, memory.responses, strict=True)
                        ],
                    }
                    for agent_id, memory in trial.memories.items()
                },
            }
            for trial in record.trials
        ],
    }


def _outcome(record: TaskRecord) -> dict[str, Any]:
    last = record.last
    return {
        "task": record.task,
        "task_id": record.task_id,
        "task_type": record.task_type,
        "won": last.ending == endings.WON,
        "return": last.total_return,
        "length": last.steps,
        "ending": last.ending,
        "trials": len(record.trials),
        "failure_cause": last.failure_cause,
    }


def _success(records: Sequence[TaskRecord], trials: int | None = None) -> float:
    most = max(len(record.trials) for record in records) if trials is None else trials
    return sum(record.won_within(most) for record in records) / len(records)


def _by_task_type(records: Sequence[TaskRecord]) -> dict[str, dict[str, float]]:
    of_type: dict[str, list[TaskRecord]] = {}
    for record in records:
        of_type.setdefault(str(record.task_type), []).append(record)
    return {name: {"success_rate": _success(own), "tasks": len(own)} for name, own in sorted(of_type.items())}


def _causes(trials: Sequence[Trial], ending: str) -> dict[str, int]:
    return dict(Counter(str(trial.failure_cause) for trial in trials if trial.ending == ending))


def _shares(records: Sequence[TaskRecord]) -> str:
    counts = Counter(f"{record.last.ending}: {record.last.failure_cause}" for record in records)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
