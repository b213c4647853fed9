"""When the groups of a plan start and play: in lock-step for an engine that batches, else each as soon as it can."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from rllib_gigpo.env_runners.member import Member
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.inference.protocol import InferenceClient, RolloutEngine


class GroupPlayer(Protocol):
    """What a schedule calls."""

    async def start_group(self, group: GroupPlan, plan: RolloutPlan) -> list[Member]:
        """Starts the members of a group, with a client each; those that fail are not among them."""
        ...

    async def play(self, member: Member, plan: RolloutPlan) -> None:
        """Plays a member to its end."""
        ...


async def play_in_lock_step(
    player: GroupPlayer, plan: RolloutPlan, engine: RolloutEngine, *, num_envs: int
) -> dict[int, list[Member]]:
    """Plays the groups of `plan` so that what a batching engine samples together does not depend on timing.

    As many groups as there is room for play at once, and a group that has ended hands its place to the next one.

    Args:
        player: Starts groups and plays members.
        plan: The groups.
        engine: Waits for every client that is open.
        num_envs: How many trajectories may run at once, `plan.group_size` at least.

    Returns:
        The members of each group that have started, by group id.
    """
    waiting = deque(plan.groups)
    finished: dict[int, list[Member]] = {}

    async def play_group(members: list[Member]) -> tuple[GroupPlan, InferenceClient] | None:
        """Plays all members to their ends.

        Returns:
            The group of `waiting` that takes their place, with a client that keeps a batching engine waiting while it
            starts; None where none is left. Without that client, what is sampled together would depend on how long
            environments take.
        """
        playing = len(members)

        def successor() -> tuple[GroupPlan, InferenceClient] | None:
            return (waiting.popleft(), engine.client()) if waiting else None

        async def play(member: Member) -> tuple[GroupPlan, InferenceClient] | None:
            nonlocal playing
            # Open all the time, so that an engine waits for the member also between two steps.
            async with member.client:
                await player.play(member, plan)
                playing -= 1
                return None if playing else successor()

        if not members:
            return successor()
        found = await asyncio.gather(*(play(member) for member in members))
        return next((one for one in found if one is not None), None)

    async def play_groups(group: GroupPlan, members: list[Member]) -> None:
        while True:
            next_one = await play_group(members)
            finished[group.group_id] = members
            if next_one is None:
                return
            group, place = next_one
            async with place:
                members = await player.start_group(group, plan)

    # All first groups start before anyone plays: a batching engine must know of every client before the first asks.
    num_at_once = min(len(waiting), num_envs // plan.group_size)
    groups = [waiting.popleft() for _ in range(num_at_once)]
    first = await asyncio.gather(*(player.start_group(group, plan) for group in groups))
    await asyncio.gather(*(play_groups(group, members) for group, members in zip(groups, first, strict=True)))
    return finished


async def play_freely(player: GroupPlayer, plan: RolloutPlan, *, num_envs: int) -> dict[int, list[Member]]:
    """Plays the groups of `plan` with an engine that takes requests as they come.

    A group waits for nothing but room for its members, which those of any other groups that have ended leave. The
    first failure ends all others.

    Args:
        player: Starts groups and plays members.
        plan: The groups.
        num_envs: How many trajectories may run at once, `plan.group_size` at least.

    Returns:
        The members of each group that have started, by group id.
    """
    finished: dict[int, list[Member]] = {}
    room = asyncio.Semaphore(num_envs)
    failure: BaseException | None = None

    async def play(member: Member) -> None:
        async with member.client:
            await player.play(member, plan)
        room.release()

    async def start(group: GroupPlan) -> None:
        finished[group.group_id] = await player.start_group(group, plan)
        for member in finished[group.group_id]:
            tasks.create_task(play(member))
        for _ in range(plan.group_size - len(finished[group.group_id])):
            room.release()

    try:
        async with asyncio.TaskGroup() as tasks:
            for group in plan.groups:
                # Here alone, so that two groups never hold half of their room each and wait for the rest.
                for _ in range(plan.group_size):
                    await room.acquire()
                tasks.create_task(start(group))
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    # Out here: the exception of a rollout would name a group of exceptions, of which it is one, as its context.
    if failure is not None:
        raise failure
    return finished
