"""Rolls out whole groups: every trajectory is a coroutine that asks the engine for its next response."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.columns import (
    ENDING,
    FINISH_REASON,
    INVALID_REASON,
    IS_ACTION_VALID,
    PROMPT_IDS,
    PROMPT_IMAGES,
    RESPONSE_IDS,
    ROLLOUT_LOGP,
    SERVICE_FAILURE,
    SERVICE_FAILURE_DETAILS,
    WEIGHTS_VERSION,
    WON,
)
from rllib_gigpo.connectors.actions import PARSED_RESPONSE
from rllib_gigpo.connectors.prompts import DROPPED_TURNS
from rllib_gigpo.connectors.prompts import PROMPT_OVERFLOW as PROMPT_OVERFLOWS
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.environment_answers import check_anchor_state, check_reset, check_step
from rllib_gigpo.env_runners.environment_pool import EnvironmentPool, LentEnvironment
from rllib_gigpo.env_runners.group_schedules import play_freely, play_in_lock_step
from rllib_gigpo.env_runners.member import Member, SingleAgentMember
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.env_runners.stall_watch import StallWatch
from rllib_gigpo.failures import FailureKind, failure_of
from rllib_gigpo.images import ImageStore, StoredImage, stored_observation
from rllib_gigpo.inference.protocol import Generation, GenerationRequest, RolloutEngine

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Counters of `GroupRollout.take_counts`, beside one for each ending ("endings/won", …).
FAILURE_CAUSES = "env_failure_causes"
FAILURE_KINDS = "failure_kinds"
SERVICE_FAILURE_CAUSES = "service_failure_causes"
INVALID_REASONS = "invalid_reasons"
TRUNCATED_PROMPTS = "truncated_prompts"
RESPONSE_CUT = "response_cut"
DROPPED_GROUPS = "dropped_groups"
DROPPED_EPISODES = "dropped_episodes"
UNEQUAL_START = "UnequalStart"


class Prompt(NamedTuple):
    """A prompt that fits.

    Attributes:
        ids: int32[P].
        images: Those that it shows, in their order.
    """

    ids: np.ndarray
    images: tuple[StoredImage, ...]


class GroupRollout:
    """Rolls out the groups of a plan on an engine and a pool of environments.

    Args:
        pool: Lends environments; as many groups run at once as it has room for.
        engine: Samples the responses.
        rl_module: Given to the connectors (they use its tokenizer).
        env_to_module: Connectors from an episode to prompt token ids.
        module_to_env: Connectors from sampled token ids to the parsed action.
        stall_timeout_s: How long no environment and no engine may answer, seconds; None for ever.
    """

    def __init__(
        self,
        *,
        pool: EnvironmentPool,
        engine: RolloutEngine,
        rl_module: Any,
        env_to_module: ConnectorV2,
        module_to_env: ConnectorV2,
        stall_timeout_s: float | None = None,
    ):
        self._pool = pool
        self._engine = engine
        self._rl_module = rl_module
        self._env_to_module = env_to_module
        self._module_to_env = module_to_env
        self._stall_timeout_s = stall_timeout_s
        self._answers = 0
        self._counts: Counter[str] = Counter()
        self._warned_of_won = False
        self.last_failure: str | None = None

    def run(self, plan: RolloutPlan) -> list[SingleAgentEpisode]:
        """Rolls out every group of `plan`.

        Returns:
            Finished episodes, members of a group side by side and in order, groups in the plan's order. Members that
            left their group, and groups that kept too few, are not among them: `take_counts` has them.

        Raises:
            ValueError: The pool has no room for one group; or the config's prompt template cannot be rendered, or its
                response parser raised or returned something that is no ParsedResponse.
            RolloutStalled: Nothing has answered for `stall_timeout_s`.
        """
        if plan.group_size > self._pool.num_envs:
            raise ValueError(
                f"num_envs_per_env_runner={self._pool.num_envs} has no room for a group of "
                f"group_size={plan.group_size}; raise it to group_size or more"
            )
        try:
            watch = StallWatch(lambda: self._answers, self._stall_timeout_s)
            finished = watch.run(lambda: _run_to_end(self._roll_out(plan)))
        finally:
            self._engine.abort()
        return [episode for group in plan.groups for episode in self._kept(finished[group.group_id], plan)]

    def close(self) -> None:
        """Ends what the engine runs outside of this process; nothing can be rolled out afterwards."""
        self._engine.close()

    def take_counts(self) -> Counter[str]:
        """What was counted since the last call."""
        counts, self._counts = self._counts, Counter()
        counts.update(self._pool.take_counts())
        return counts

    async def _roll_out(self, plan: RolloutPlan) -> dict[int, list[Member]]:
        if self._engine.in_lock_step:
            return await play_in_lock_step(self, plan, self._engine, num_envs=self._pool.num_envs)
        return await play_freely(self, plan, num_envs=self._pool.num_envs)

    async def start_group(self, group: GroupPlan, plan: RolloutPlan) -> list[Member]:
        """Starts the members of a group; those that fail, or do not start where the others do, leave it."""
        images = ImageStore()
        started = await asyncio.gather(*(self._start(group, index, images) for index in range(plan.group_size)))
        members = self._with_equal_start([member for member in started if member is not None])
        for member in members:
            member.client = self._engine.client()
        return members

    async def _start(self, group: GroupPlan, index: int, images: ImageStore) -> Member | None:
        """A member that has been started, or None where that failed."""
        env, member = None, None
        try:
            env = await self._pool.acquire()
            self._answers += 1  # of the environment, as what it does next
            member = await self._reset(group, index, env, images)
        except Exception as failure:
            self._count_env_failure(group, index, failure)
        finally:  # also where the rollout is cancelled
            self._answers += 1
            if member is None and env is not None:
                self._pool.discard(env)
        return member

    async def _reset(self, group: GroupPlan, index: int, env: LentEnvironment, images: ImageStore) -> Member:
        """A member that has been started; raises what its environment raises, or EnvironmentAnswerError."""
        observation, info = check_reset(await env.reset(seed=group.env_seed, options={"task": group.task}))
        return SingleAgentMember(group, index, env, images, observation=observation, info=info)

    def _with_equal_start(self, members: list[Member]) -> list[Member]:
        """The members that share the most common first observation (of equals, the earliest member's)."""
        starts = Counter(member.start for member in members)
        if len(starts) <= 1:
            return members
        common = starts.most_common(1)[0][0]
        for member in members:
            if member.start != common:
                self._counts[f"endings/{endings.ENV_FAILURE}"] += 1
                self._counts[f"{FAILURE_CAUSES}/{UNEQUAL_START}"] += 1
                self._counts[f"{FAILURE_KINDS}/{FailureKind.DATA}"] += 1
                self._pool.discard(member.env)
                logger.warning(
                    "group %d, task %r: member %d does not start from the observation that the others have; "
                    "it leaves its group. reset(seed=, options=) must be deterministic.",
                    member.group.group_id,
                    member.group.task,
                    member.index,
                )
        return [member for member in members if member.start == common]

    async def play(self, member: Member, plan: RolloutPlan) -> None:
        """Plays a member to its end, and gives its environment back."""
        assert isinstance(member, SingleAgentMember)
        try:
            while member.ending is None:
                prompt = self._prompt(member.episode, member.shared_data, self._rl_module, plan)
                if prompt is None:
                    self._note_overflow(member, len(member.episode))
                    self._end_truncated(member, endings.PROMPT_OVERFLOW)
                    break
                request = GenerationRequest(
                    prompt_ids=prompt.ids,
                    seed=member.group.request_seed(member.index, len(member.episode)),
                    sampling=plan.sampling,
                    order=(member.group.group_id, member.index),
                    images=prompt.images,
                )
                generation = await member.client.generate(request)
                member.response_tokens += len(generation.response_ids)
                await self._step(member, plan, prompt, generation)
                if member.ending is None and plan.budget.is_spent(len(member.episode), member.response_tokens):
                    self._end_truncated(member, endings.STRAGGLER_CUT)
        finally:
            self._give_back(member)

    async def _step(self, member: SingleAgentMember, plan: RolloutPlan, prompt: Prompt, generation: Generation) -> None:
        """Gives the response's action to the environment and records the step."""
        parsed = self._parsed(member.episode, member.shared_data, self._rl_module, plan, generation)
        try:
            observation, reward, terminated, truncated, info = check_step(await member.env.step(parsed.action))
            if not (terminated or truncated or info.get(SERVICE_FAILURE)):  # no action is taken in a last state
                check_anchor_state(member.episode.get_infos(0), info)
        except Exception as failure:
            self._fail(member, failure)
            return
        if info.get(SERVICE_FAILURE):
            self._fail_by_service(member, info)
            return
        if (terminated or truncated) and WON not in info and not self._warned_of_won:
            self._warned_of_won = True
            logger.warning("the last info of an episode has no %r: without it, no episode counts as won", WON)

        info = {**info, WON: bool(info.get(WON, False)), **self._validity(parsed, info)}
        if terminated or truncated:
            member.ending = (endings.WON if info[WON] else endings.LOST) if terminated else endings.STEP_LIMIT
            info[ENDING] = member.ending
            self._counts[f"endings/{member.ending}"] += 1
        member.episode.add_env_step(
            stored_observation(observation, member.images),
            parsed.action,
            reward,
            info,
            terminated=terminated,
            truncated=truncated and not terminated,
            extra_model_outputs=self._model_outputs(prompt, generation),
        )

    # --- One turn of an agent: from its episode to a prompt, from a response to an action.

    def _prompt(
        self, episode: SingleAgentEpisode, shared_data: dict[str, Any], rl_module: Any, plan: RolloutPlan
    ) -> Prompt | None:
        """The prompt of the next request, or None where it does not fit."""
        self._answers += 1  # of the environment
        batch = self._env_to_module(
            rl_module=rl_module, batch={}, episodes=[episode], explore=plan.explore, shared_data=shared_data
        )
        self._counts[TRUNCATED_PROMPTS] += batch[DROPPED_TURNS] > 0
        return None if batch[PROMPT_OVERFLOWS] else Prompt(batch[PROMPT_IDS], batch.get(PROMPT_IMAGES, ()))

    def _parsed(
        self,
        episode: SingleAgentEpisode,
        shared_data: dict[str, Any],
        rl_module: Any,
        plan: RolloutPlan,
        generation: Generation,
    ) -> ParsedResponse:
        self._answers += 1  # of the engine
        batch = self._module_to_env(
            rl_module=rl_module,
            batch={RESPONSE_IDS: generation.response_ids},
            episodes=[episode],
            explore=plan.explore,
            shared_data=shared_data,
        )
        parsed: ParsedResponse = batch[PARSED_RESPONSE]
        return parsed

    def _validity(self, parsed: ParsedResponse, info: dict[str, Any]) -> dict[str, Any]:
        """What the info of a step says about the action, where `info` is the environment's; counts what is invalid."""
        if parsed.is_valid and bool(info.get(IS_ACTION_VALID, True)):
            return {IS_ACTION_VALID: True}
        reason = parsed.reason or "inadmissible_action"
        self._counts[f"{INVALID_REASONS}/{reason}"] += 1
        return {IS_ACTION_VALID: False, INVALID_REASON: reason}

    def _model_outputs(self, prompt: Prompt, generation: Generation) -> dict[str, Any]:
        """The extra model outputs of a step."""
        self._counts[RESPONSE_CUT] += generation.finish_reason == "length"
        return {
            PROMPT_IDS: prompt.ids,
            PROMPT_IMAGES: prompt.images,
            RESPONSE_IDS: generation.response_ids,
            ROLLOUT_LOGP: generation.logp,
            FINISH_REASON: generation.finish_reason,
            WEIGHTS_VERSION: generation.weights_version,
        }

    # --- Endings.

    def _give_back(self, member: Member) -> None:
        if member.ending in (None, endings.ENV_FAILURE):
            self._pool.discard(member.env)
        else:
            self._pool.release(member.env)

    def _fail(self, member: Member, failure: Exception) -> None:
        member.ending = endings.ENV_FAILURE
        self._count_env_failure(member.group, member.index, failure)

    def _fail_by_service(self, member: Member, info: dict[str, Any]) -> None:
        """Ends a trajectory whose environment says in an info that a service has failed it. The environment is whole,
        and will be lent again."""
        member.ending = endings.SERVICE_FAILURE
        cause = f"{SERVICE_FAILURE_CAUSES}/{info[SERVICE_FAILURE]}"
        self._counts[f"endings/{endings.SERVICE_FAILURE}"] += 1
        self._counts[cause] += 1
        self.last_failure = str(info.get(SERVICE_FAILURE_DETAILS, info[SERVICE_FAILURE]))
        if self._counts[cause] == 1:
            logger.warning(
                "group %d, task %r: a service has failed the environment of member %d, which leaves its group. The "
                "count of such failures is in env_runners/%s. %s",
                member.group.group_id,
                member.group.task,
                member.index,
                cause,
                self.last_failure,
            )

    def _end_truncated(self, member: SingleAgentMember, ending: str) -> None:
        """Ends a trajectory as truncated; one without any step leaves its group."""
        member.ending = ending
        self._counts[f"endings/{ending}"] += 1
        if len(member.episode) > 0:
            member.episode.is_truncated = True
            member.episode.get_infos(-1)[ENDING] = ending

    def _note_overflow(self, member: Member, step: int) -> None:
        self.last_failure = (
            f"task {member.group.task!r}, step {step}: the prompt does not fit into max_prompt_tokens, "
            "even without history"
        )

    def _count_env_failure(self, group: GroupPlan, index: int, error: Exception) -> None:
        failure = failure_of(error)
        cause = f"{FAILURE_CAUSES}/{failure.cause}"
        self._counts[f"endings/{endings.ENV_FAILURE}"] += 1
        self._counts[f"{FAILURE_KINDS}/{failure.kind}"] += 1
        self._counts[cause] += 1
        self.last_failure = failure.details
        # One traceback a cause and rollout: where all environments fail alike, hundreds would hide it.
        if self._counts[cause] == 1:
            logger.warning(
                "group %d, task %r: the environment of member %d failed; it leaves its group. "
                "The count of such failures is in env_runners/%s.",
                group.group_id,
                group.task,
                index,
                cause,
                exc_info=error,
            )

    def _kept(self, members: list[Member], plan: RolloutPlan) -> list[SingleAgentEpisode]:
        """Episodes of a group that go on to credit assignment."""
        kept = [m for m in members if m.ending not in endings.LEAVES_ITS_GROUP and m.episodes()]
        if len(kept) < plan.min_group_size:
            self._counts[DROPPED_GROUPS] += 1
            self._counts[DROPPED_EPISODES] += len(kept)
            return []
        kept[0].images.seal()
        return [episode for member in kept for episode in member.episodes()]


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
