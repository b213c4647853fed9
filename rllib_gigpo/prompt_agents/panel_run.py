"""Plays a panel of tasks with a prompted agent, several at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from rllib_gigpo.env_runners.environment_pool import EnvironmentPool
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.inference.chat import ChatClient, ChatEngine
from rllib_gigpo.prompt_agents.player import PromptedPlayer
from rllib_gigpo.prompt_agents.records import TaskRecord
from rllib_gigpo.prompt_agents.task_run import play_task


async def play_panel(
    plans: Sequence[GroupPlan],
    player: PromptedPlayer,
    engine: ChatEngine,
    pool: EnvironmentPool,
    *,
    trials: int,
    when_done: Callable[[TaskRecord], None] = lambda record: None,
) -> list[TaskRecord]:
    """Plays all tasks, as many at once as the pool has environments.

    Args:
        plans: The tasks.
        player: Plays all agents of all of them.
        engine: The player's.
        pool: Lends the environments.
        trials: At most, of each task.
        when_done: Called with the record of each task that is over.

    Returns:
        A record for each task, in their order.

    Raises:
        EndpointRefused, EndpointDown: Nothing more can be asked; the other tasks are cancelled.
        ValueError: The prompt template or the response parser fails.
    """
    waiting = deque(enumerate(plans))
    records: dict[int, TaskRecord] = {}

    async def play_some(client: ChatClient) -> None:
        async with client:
            while waiting:
                index, plan = waiting.popleft()
                records[index] = await play_task(plan, player, pool, client, trials=trials)
                when_done(records[index])

    failure: BaseException | None = None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(engine)
        # All of them before the first asks: an engine that batches waits for the clients that it knows of.
        clients = [engine.client() for _ in range(min(len(plans), pool.num_envs))]
        try:
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(play_some(client))
        except BaseExceptionGroup as failures:
            failure = failures.exceptions[0]
    # Out here: else it would name a group of exceptions, of which it is one, as its context.
    if failure is not None:
        raise failure
    return [records[index] for index in range(len(plans))]
