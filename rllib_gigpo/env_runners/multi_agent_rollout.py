"""Rolls out whole groups of a multi-agent environment: agents that act at the same time ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import SERVICE_FAILURE
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.agent_metrics import silent_trajectories
from rllib_gigpo.env_runners.environment_answers import EnvironmentAnswerError
from rllib_gigpo.env_runners.environment_pool import LentEnvironment
from rllib_gigpo.env_runners.group_rollout import GroupRollout, Prompt
from rllib_gigpo.env_runners.member import Member
from rllib_gigpo.env_runners.multi_agent_answers import check_multi_agent_reset, check_multi_agent_step
from rllib_gigpo.env_runners.multi_agent_member import Act, MultiAgentMember
from rllib_gigpo.env_runners.policy_mapping import PolicyMapping
from rllib_gigpo.env_runners.rollout_plan import GroupPlan, RolloutPlan
from rllib_gigpo.images import ImageStore
from rllib_gigpo.inference.protocol import Generation, GenerationRequest

# A counter, beside those of `GroupRollout`.
REWARDS_WITHOUT_ACT = "rewards_without_act"


class MultiAgentGroupRollout(GroupRollout):
    """`GroupRollout` for environments of several agents.

    An observation is an invitation to act: the agents that the environment shows something act next, together. Of a
    trajectory, each agent that acted gets an episode of its own, with `agent_id`, `module_id` and
    `multi_agent_episode_id`, side by side and in the order of `possible_agents`. A member that fails leaves its group
    with all of its agents.

    Args:
        possible_agents: Every agent that there may be.
        rl_modules: By module id; a connector gets the one of its agent.
        policy_mapping: From agents to modules.
        kwargs: As of `GroupRollout`. The engine answers requests for every module.
    """

    def __init__(
        self,
        *,
        possible_agents: Sequence[str],
        rl_modules: Mapping[str, Any],
        policy_mapping: PolicyMapping,
        **kwargs: Any,
    ):
        super().__init__(rl_module=None, **kwargs)
        self._possible_agents = possible_agents
        self._rl_modules = rl_modules
        self._policy_mapping = policy_mapping

    async def _reset(self, group: GroupPlan, index: int, env: LentEnvironment, images: ImageStore) -> Member:
        answer = await env.reset(seed=group.env_seed, options={"task": group.task})
        return MultiAgentMember(
            group,
            index,
            env,
            images,
            start=check_multi_agent_reset(answer, self._possible_agents),
            possible_agents=self._possible_agents,
            policy_mapping=self._policy_mapping,
        )

    async def play(self, member: Member, plan: RolloutPlan) -> None:
        assert isinstance(member, MultiAgentMember)
        try:
            member.begin()
            while member.ending is None:
                prompts = self._prompts(member, plan)
                if prompts is None:
                    self._note_overflow(member, member.env_steps)
                    self._end_all(member, endings.PROMPT_OVERFLOW)
                    break
                requests = [self._request(member, plan, agent_id, prompts[agent_id]) for agent_id in prompts]
                generations = await self._generate(member, requests)
                member.response_tokens += sum(len(generation.response_ids) for generation in generations)
                await self._step_all(member, plan, prompts, dict(zip(prompts, generations, strict=True)))
                if member.ending is None and plan.budget.is_spent(member.env_steps, member.response_tokens):
                    self._end_all(member, endings.STRAGGLER_CUT)
        finally:
            self._counts[REWARDS_WITHOUT_ACT] += member.rewards_without_act
            self._give_back(member)

    def _prompts(self, member: MultiAgentMember, plan: RolloutPlan) -> dict[str, Prompt] | None:
        """The prompt of each agent that acts, or None where one of them does not fit."""
        prompts = {}
        for agent in (member.agents[agent_id] for agent_id in member.acting):
            prompt = self._prompt(agent.episode, agent.shared_data, self._rl_modules[agent.module_id], plan)
            if prompt is None:
                return None
            prompts[agent.agent_id] = prompt
        return prompts

    def _request(self, member: MultiAgentMember, plan: RolloutPlan, agent_id: str, prompt: Prompt) -> GenerationRequest:
        return GenerationRequest(
            prompt_ids=prompt.ids,
            seed=member.group.request_seed(member.index, member.env_steps, agent_id),
            sampling=plan.sampling,
            order=(member.group.group_id, member.index, self._possible_agents.index(agent_id)),
            module_id=member.agents[agent_id].module_id,
            images=prompt.images,
        )

    async def _generate(self, member: MultiAgentMember, requests: list[GenerationRequest]) -> list[Generation]:
        """Responses to all requests of a step, which the engine gets at the same time."""
        if len(requests) == 1:
            return [await member.client.generate(requests[0])]
        async with AsyncExitStack() as stack:
            others = [await stack.enter_async_context(self._engine.client()) for _ in requests[1:]]
            clients = [member.client, *others]
            return await asyncio.gather(*(c.generate(request) for c, request in zip(clients, requests, strict=True)))

    async def _step_all(
        self,
        member: MultiAgentMember,
        plan: RolloutPlan,
        prompts: dict[str, Prompt],
        generations: dict[str, Generation],
    ) -> None:
        """Gives the actions of all agents that act to the environment and records the step."""
        parsed = {}
        for agent_id, generation in generations.items():
            agent = member.agents[agent_id]
            rl_module = self._rl_modules[agent.module_id]
            parsed[agent_id] = self._parsed(agent.episode, agent.shared_data, rl_module, plan, generation)
        try:
            answer = await member.env.step({agent_id: one.action for agent_id, one in parsed.items()})
            step = check_multi_agent_step(answer, self._possible_agents, member.ended)
            if member.nobody_acts(step):
                raise EnvironmentAnswerError("step() returned no observations and no ending, so nobody can act")
        except Exception as failure:
            self._fail(member, failure)
            return
        failed = next((info for info in step.infos.values() if info.get(SERVICE_FAILURE)), None)
        if failed is not None:
            self._fail_by_service(member, failed)
            return
        acts = {
            agent_id: Act(
                one.action,
                self._validity(one, step.infos[agent_id]),
                self._model_outputs(prompts[agent_id], generations[agent_id]),
            )
            for agent_id, one in parsed.items()
        }
        member.take(acts, step)
        if member.ending is not None:
            self._counts[f"endings/{member.ending}"] += 1

    def _end_all(self, member: MultiAgentMember, ending: str) -> None:
        """Ends the trajectory of all agents as truncated."""
        member.end(ending)
        self._counts[f"endings/{ending}"] += 1

    def _kept(self, members: list[Member], plan: RolloutPlan) -> list[SingleAgentEpisode]:
        episodes = super()._kept(members, plan)
        acted: dict[Any, set[Any]] = {}
        for episode in episodes:
            acted.setdefault(episode.multi_agent_episode_id, set()).add(episode.agent_id)
        for agent_id in self._possible_agents:
            silent = sum(agent_id not in agents for agents in acted.values())
            self._counts[silent_trajectories(agent_id)] += silent
        return episodes
