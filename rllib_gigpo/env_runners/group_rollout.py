"""Rolls out whole groups: every trajectory is a coroutine that asks the engine for its next response."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter, deque
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import gymnasium as gym
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import (
    ENDING,
    FINISH_REASON,
    GROUP_ID,
    INVALID_REASON,
    IS_ACTION_VALID,
    MEMBER,
    PROMPT_IDS,
    RESPONSE_IDS,
    ROLLOUT_LOGP,
    TASK,
    WEIGHTS_VERSION,
    WON,
)
from rllib_gigpo.connectors.actions import PARSED_RESPONSE
from rllib_gigpo.connectors.prompts import DROPPED_TURNS
from rllib_gigpo.connectors.prompts import PROMPT_OVERFLOW as PROMPT_OVERFLOWS
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.environment_answers import check_reset, check_step
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, InferenceClient, InferenceEngine

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Counters of `GroupRollout.take_counts`, beside one for each ending ("endings/won", …).
FAILURE_CAUSES = "env_failure_causes"
INVALID_REASONS = "invalid_reasons"
TRUNCATED_PROMPTS = "truncated_prompts"
RESPONSE_CUT = "response_cut"
DROPPED_GROUPS = "dropped_groups"
DROPPED_EPISODES = "dropped_episodes"
UNEQUAL_START = "UnequalStart"


class _Member:
    """One trajectory of a group while it is rolled out."""

    client: InferenceClient

    def __init__(self, group: GroupPlan, index: int, env: gym.Env):
        self.group = group
        self.index = index
        self.env = env
        self.episode = SingleAgentEpisode()
        self.shared_data: dict[str, Any] = {}
        self.ending: str | None = None


class GroupRollout:
    """Rolls out the groups of a plan on an engine and a pool of environments.

    Args:
        pool: Lends environments; as many groups run at once as it has room for.
        engine: Samples the responses.
        rl_module: Given to the connectors (they use its tokenizer).
        env_to_module: Connectors from an episode to prompt token ids.
        module_to_env: Connectors from sampled token ids to the parsed action.
    """

    def __init__(
        self,
        *,
        pool: EnvironmentPool,
        engine: InferenceEngine,
        rl_module: Any,
        env_to_module: ConnectorV2,
        module_to_env: ConnectorV2,
    ):
        self._pool = pool
        self._engine = engine
        self._rl_module = rl_module
        self._env_to_module = env_to_module
        self._module_to_env = module_to_env
        self._counts: Counter[str] = Counter()
        self.last_failure: str | None = None

    def run(self, plan: RolloutPlan) -> list[SingleAgentEpisode]:
        """Rolls out every group of `plan`.

        Returns:
            Finished episodes, members of a group side by side and in order, groups in the plan's order. Members that
            left their group, and groups that kept too few, are not among them: `take_counts` has them.

        Raises:
            ValueError: The pool has no room for one group; or the config's prompt template cannot be rendered, or its
                response parser raised or returned something that is no ParsedResponse.
        """
        if plan.group_size > self._pool.num_envs:
            raise ValueError(
                f"num_envs_per_env_runner={self._pool.num_envs} has no room for a group of "
                f"group_size={plan.group_size}; raise it to group_size or more"
            )
        try:
            finished = _run_to_end(self._roll_out(plan))
        finally:
            self._engine.abort()
        return [episode for group in plan.groups for episode in self._kept(finished[group.group_id], plan)]

    def take_counts(self) -> Counter[str]:
        """What was counted since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

    async def _roll_out(self, plan: RolloutPlan) -> dict[int, list[_Member]]:
        waiting = deque(plan.groups)
        finished: dict[int, list[_Member]] = {}

        async def run_groups(group: GroupPlan, members: list[_Member]) -> None:
            while True:
                await asyncio.gather(*(self._play(member, plan) for member in members))
                finished[group.group_id] = members
                if not waiting:
                    return
                group = waiting.popleft()
                members = self._start_group(group, plan)

        # All first groups start before anyone plays: a batching engine must know of every client before the first asks.
        num_at_once = min(len(waiting), self._pool.num_envs // plan.group_size)
        first = [(group, self._start_group(group, plan)) for group in (waiting.popleft() for _ in range(num_at_once))]
        await asyncio.gather(*(run_groups(group, members) for group, members in first))
        return finished

    def _start_group(self, group: GroupPlan, plan: RolloutPlan) -> list[_Member]:
        """Resets the members of a group; those that fail, or do not start where the others do, leave it."""
        members = []
        for index in range(plan.group_size):
            env = self._pool.acquire()
            try:
                observation, info = check_reset(env.reset(seed=group.env_seed, options={"task": group.task}))
            except Exception as failure:
                self._count_env_failure(group, index, failure)
                self._pool.discard(env)
                continue
            member = _Member(group, index, env)
            marks = {GROUP_ID: group.group_id, MEMBER: index, TASK: group.task}
            member.episode.add_env_reset(observation, {**info, **marks})
            members.append(member)
        members = self._with_equal_start(members)
        for member in members:
            member.client = self._engine.client()
        return members

    def _with_equal_start(self, members: list[_Member]) -> list[_Member]:
        """The members that share the most common first observation (of equals, the earliest member's)."""
        starts = Counter(member.episode.get_observations(0) for member in members)
        if len(starts) <= 1:
            return members
        common = starts.most_common(1)[0][0]
        for member in members:
            if member.episode.get_observations(0) != common:
                self._counts[f"endings/{endings.ENV_FAILURE}"] += 1
                self._counts[f"{FAILURE_CAUSES}/{UNEQUAL_START}"] += 1
                self._pool.discard(member.env)
                logger.warning(
                    "group %d, task %r: member %d does not start from the observation that the others have; "
                    "it leaves its group. reset(seed=, options=) must be deterministic.",
                    member.group.group_id,
                    member.group.task,
                    member.index,
                )
        return [member for member in members if member.episode.get_observations(0) == common]

    async def _play(self, member: _Member, plan: RolloutPlan) -> None:
        try:
            async with member.client as client:
                while member.ending is None:
                    prompt_ids = self._prompt(member, plan)
                    if prompt_ids is None:
                        self._end_by_overflow(member)
                        break
                    request = GenerationRequest(
                        prompt_ids=prompt_ids,
                        seed=member.group.request_seed(member.index, len(member.episode)),
                        sampling=plan.sampling,
                        order=(member.group.group_id, member.index),
                    )
                    self._step(member, plan, prompt_ids, await client.generate(request))
        finally:
            if member.ending in (None, endings.ENV_FAILURE):
                self._pool.discard(member.env)
            else:
                self._pool.release(member.env)

    def _prompt(self, member: _Member, plan: RolloutPlan) -> Any | None:
        """Prompt ids int32[P] of the member's next request, or None where they do not fit."""
        batch = self._env_to_module(
            rl_module=self._rl_module,
            batch={},
            episodes=[member.episode],
            explore=plan.explore,
            shared_data=member.shared_data,
        )
        self._counts[TRUNCATED_PROMPTS] += batch[DROPPED_TURNS] > 0
        return None if batch[PROMPT_OVERFLOWS] else batch[PROMPT_IDS]

    def _step(self, member: _Member, plan: RolloutPlan, prompt_ids: Any, generation: Generation) -> None:
        """Gives the response's action to the environment and records the step."""
        batch = self._module_to_env(
            rl_module=self._rl_module,
            batch={RESPONSE_IDS: generation.response_ids},
            episodes=[member.episode],
            explore=plan.explore,
            shared_data=member.shared_data,
        )
        parsed = batch[PARSED_RESPONSE]
        try:
            observation, reward, terminated, truncated, info = check_step(member.env.step(parsed.action))
        except Exception as failure:
            member.ending = endings.ENV_FAILURE
            self._count_env_failure(member.group, member.index, failure)
            return

        is_valid = parsed.is_valid and bool(info.get(IS_ACTION_VALID, True))
        info = {**info, WON: bool(info.get(WON, False)), IS_ACTION_VALID: is_valid}
        if not is_valid:
            info[INVALID_REASON] = parsed.reason or "inadmissible_action"
            self._counts[f"{INVALID_REASONS}/{info[INVALID_REASON]}"] += 1
        if terminated or truncated:
            member.ending = (endings.WON if info[WON] else endings.LOST) if terminated else endings.STEP_LIMIT
            info[ENDING] = member.ending
            self._counts[f"endings/{member.ending}"] += 1
        self._counts[RESPONSE_CUT] += generation.finish_reason == "length"
        member.episode.add_env_step(
            observation,
            parsed.action,
            reward,
            info,
            terminated=terminated,
            truncated=truncated and not terminated,
            extra_model_outputs={
                PROMPT_IDS: prompt_ids,
                RESPONSE_IDS: generation.response_ids,
                ROLLOUT_LOGP: generation.logp,
                FINISH_REASON: generation.finish_reason,
                WEIGHTS_VERSION: generation.weights_version,
            },
        )

    def _end_by_overflow(self, member: _Member) -> None:
        """Ends a trajectory whose prompt does not fit: truncated where it has steps, else it leaves its group."""
        member.ending = endings.PROMPT_OVERFLOW
        self.last_failure = (
            f"task {member.group.task!r}, step {len(member.episode)}: the prompt does not fit into max_prompt_tokens, "
            "even without history"
        )
        self._counts[f"endings/{endings.PROMPT_OVERFLOW}"] += 1
        if len(member.episode) > 0:
            member.episode.is_truncated = True
            member.episode.get_infos(-1)[ENDING] = endings.PROMPT_OVERFLOW

    def _count_env_failure(self, group: GroupPlan, index: int, failure: Exception) -> None:
        cause = f"{FAILURE_CAUSES}/{type(failure).__name__}"
        self._counts[f"endings/{endings.ENV_FAILURE}"] += 1
        self._counts[cause] += 1
        self.last_failure = "".join(traceback.format_exception(failure))
        # One traceback a cause and rollout: where all environments fail alike, hundreds would hide it.
        if self._counts[cause] == 1:
            logger.warning(
                "group %d, task %r: the environment of member %d failed; it leaves its group. "
                "The count of such failures is in env_runners/%s.",
                group.group_id,
                group.task,
                index,
                cause,
                exc_info=failure,
            )

    def _kept(self, members: list[_Member], plan: RolloutPlan) -> list[SingleAgentEpisode]:
        """Episodes of a group that go on to credit assignment."""
        episodes = [m.episode for m in members if m.ending != endings.ENV_FAILURE and len(m.episode) > 0]
        if len(episodes) >= plan.min_group_size:
            return episodes
        self._counts[DROPPED_GROUPS] += 1
        self._counts[DROPPED_EPISODES] += len(episodes)
        return []


def _run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on an event loop of its own, also where this thread already runs one (a notebook)."""
    try:
        asyncio.get_running_loop()
        has_loop = True
    except RuntimeError:
        has_loop = False
    # Not inside the handler: every exception of a rollout would then name this one as its context.
    if not has_loop:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
