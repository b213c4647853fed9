"""Plays one task: a trial, and further ones, with a note on what went wrong, where it was not won."""

from __future__ import annotations

from rllib_gigpo.columns import TASK_ID
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool
from rllib_gigpo.env_runners.multi_agent_answers import MultiAgentStart
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.failures import failure_of
from rllib_gigpo.inference.chat import ChatClient, RequestFailed
from rllib_gigpo.prompt_agents.games import Game, game_of
from rllib_gigpo.prompt_agents.player import PromptedPlayer, PromptOverflow
from rllib_gigpo.prompt_agents.records import TaskRecord, Trial
from rllib_gigpo.prompt_agents.trial_run import TrialRun


async def play_task(
    plan: GroupPlan, player: PromptedPlayer, pool: EnvironmentPool, client: ChatClient, *, trials: int
) -> TaskRecord:
    """Tries a task until it is won, a trial fails, or so many trials are over.

    Args:
        plan: The task and its seeds. The first trial has those of an evaluation of a trained policy.
        player: Plays all agents.
        pool: Lends the environment; the same one for all trials.
        client: Of the player's engine.
        trials: How many at most.

    Raises:
        EndpointRefused, EndpointDown: Nothing more can be asked.
        ValueError: The prompt template or the response parser fails.
    """
    record = TaskRecord(plan.task)
    try:
        env = await pool.acquire()
    except Exception as failure:
        record.trials.append(Trial())
        record.last.fail(endings.ENV_FAILURE, failure_of(failure).cause, failure)
        return record
    works = False
    try:
        await _try(record, plan, player, game_of(pool, env), client, trials)
        works = record.last.ending != endings.ENV_FAILURE
    finally:
        if works:
            pool.release(env)
        else:
            pool.discard(env)
    return record


async def _try(
    record: TaskRecord, plan: GroupPlan, player: PromptedPlayer, game: Game, client: ChatClient, trials: int
) -> None:
    notes: dict[str, list[str]] = {}
    for number in range(trials):
        run = TrialRun(plan, number, game, player, client)
        record.trials.append(run.trial)
        start = await run.start(notes)
        if start is not None:
            _describe(record, start, game)
            await run.play(start)
        if run.trial.ending == endings.WON or run.trial.has_failed:
            return
        if number < trials - 1 and player.reflects:
            await _reflect(record, plan, number, player, client, notes)


def _describe(record: TaskRecord, start: MultiAgentStart, game: Game) -> None:
    info = next(iter(start.infos.values()))
    record.task_id, record.task_type = info.get(TASK_ID), info.get("task_type")
    shown = start.observations
    record.first_observation = dict(shown) if game.is_multi_agent else next(iter(shown.values()))


async def _reflect(
    record: TaskRecord,
    plan: GroupPlan,
    number: int,
    player: PromptedPlayer,
    client: ChatClient,
    notes: dict[str, list[str]],
) -> None:
    """Adds a note of each agent on the last trial to `notes`; one that is not to be had is counted."""
    trial = record.last
    for place, (agent_id, memory) in enumerate(trial.memories.items()):
        seed = plan.request_seed(number, trial.steps, f"reflection of {agent_id}")
        try:
            note = await player.reflect(client, memory, trial.ending or "", seed=seed, order=(plan.group_id, place))
        except RequestFailed as failure:
            record.failed_reflections[failure.cause] += 1
        except PromptOverflow:
            record.failed_reflections[endings.PROMPT_OVERFLOW] += 1
        else:
            notes.setdefault(agent_id, []).append(note)
