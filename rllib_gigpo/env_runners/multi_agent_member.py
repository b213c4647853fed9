"""A trajectory of an RLlib `MultiAgentEnv`: one episode per agent, each of which acts when it is shown something."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import ENDING, ENTERED_AT, ENV_STEPS, IN_EVALUATION, WON
from rllib_gigpo.env_runners import endings
from rllib_gigpo.env_runners.environment_pool import LentEnvironment
from rllib_gigpo.env_runners.member import Member
from rllib_gigpo.env_runners.multi_agent_answers import MultiAgentStart, MultiAgentStep
from rllib_gigpo.env_runners.policy_mapping import PolicyMapping
from rllib_gigpo.env_runners.rollout_plan import GroupPlan
from rllib_gigpo.images import ImageStore, observation_key, stored_observation


class Act(NamedTuple):
    """What an agent did in a step.

    Attributes:
        action: As it was given to the environment.
        validity: What the step's info says about the action.
        model_outputs: Of the step.
    """

    action: str
    validity: dict[str, Any]
    model_outputs: dict[str, Any]


@dataclass
class Agent:
    """An agent of a trajectory, from the moment on at which the environment shows it something.

    An act is put into the episode once its consequences are known: the rewards until the agent is shown something
    again, or until the trajectory ends.
    """

    agent_id: str
    module_id: str
    episode: SingleAgentEpisode
    shared_data: dict[str, Any] = field(default_factory=dict)
    last_act: Act | None = None
    reward: float = 0.0  # since the last act
    final: tuple[Any, dict[str, Any]] | None = None  # observation and info at the end of its episode

    def show(self, observation: Any, info: dict[str, Any]) -> None:
        """Shows the agent something, and with that completes its last act."""
        if self.last_act is None:
            self.episode.add_env_reset(observation, info)
            return
        self.episode.add_env_step(
            observation,
            self.last_act.action,
            self.reward,
            {**info, WON: bool(info.get(WON, False)), **self.last_act.validity},
            extra_model_outputs=self.last_act.model_outputs,
        )
        self.last_act, self.reward = None, 0.0


class MultiAgentMember(Member):
    """A trajectory of a `MultiAgentEnv`.

    Args:
        group, index, env, images: See `Member`.
        start: What its `reset` showed.
        possible_agents: Every agent that there may be.
        policy_mapping: From agents to modules; asked once for each agent that enters.
    """

    def __init__(
        self,
        group: GroupPlan,
        index: int,
        env: LentEnvironment,
        images: ImageStore,
        *,
        start: MultiAgentStart,
        possible_agents: Sequence[str],
        policy_mapping: PolicyMapping,
    ):
        super().__init__(group, index, env, images)
        self.agents: dict[str, Agent] = {}
        self.acting: list[str] = []
        self.ended: set[str] = set()
        self.env_steps = 0
        self.rewards_without_act = 0
        self._terminated: set[str] = set()
        self._start = start._replace(observations=self._stored(start.observations))
        self._possible_agents = possible_agents
        # RLlib's episode is what a mapping function expects; here it holds the agents' episodes and nothing else.
        self._episode = MultiAgentEpisode(id_=f"{group.group_id}_{index}", agent_to_module_mapping_fn=policy_mapping)
        self._episode.custom_data.update({**self.marks(), IN_EVALUATION: group.in_evaluation})

    @property
    def start(self) -> Hashable:
        shown = ((agent_id, observation_key(seen)) for agent_id, seen in self._start.observations.items())
        return tuple(sorted(shown, key=lambda item: item[0]))

    def episodes(self) -> list[SingleAgentEpisode]:
        found = (self.agents[agent_id].episode for agent_id in self._possible_agents if agent_id in self.agents)
        return [episode for episode in found if len(episode) > 0]

    def begin(self) -> None:
        """Shows the agents of the reset what there is to see."""
        self._show(self._start.observations, self._start.infos)

    def take(self, acts: dict[str, Act], step: MultiAgentStep) -> None:
        """Records a step of the environment; at the end of the trajectory sets `ending`.

        Args:
            acts: Of the agents in `acting`.
            step: What the environment answered; it does not leave everybody waiting (see `nobody_acts`).
        """
        self.env_steps += 1
        step = step._replace(observations=self._stored(step.observations))
        for agent_id, act in acts.items():
            self.agents[agent_id].last_act = act
        for agent_id, reward in step.rewards.items():
            self._reward(agent_id, reward)
        newly_ended = (step.terminated | step.truncated) - self.ended
        self.ended |= newly_ended
        self._terminated |= newly_ended & step.terminated
        acting = {a: observation for a, observation in step.observations.items() if a not in self.ended}
        is_over = step.all_terminated or step.all_truncated or not acting
        for agent_id in self.agents.keys() & newly_ended:
            self._show_final(agent_id, step)
        for agent_id in self.agents.keys() - self.ended if is_over else ():
            self._show_final(agent_id, step)
        if not is_over:
            self._show(acting, step.infos)
            return
        by_all = step.all_terminated or step.all_truncated
        terminated = step.all_terminated or (not by_all and self.agents.keys() <= self._terminated)
        won = any(info.get(WON, False) for info in step.infos.values())
        self.end((endings.WON if won else endings.LOST) if terminated else endings.STEP_LIMIT, won=won)

    def end(self, ending: str, *, won: bool = False) -> None:
        """Completes the last act of every agent, and closes all episodes.

        Every agent's last info gets the trajectory's `ending` and `won`; an agent has terminated where it did so by
        itself, or the whole trajectory has.
        """
        self.ending = ending
        self.acting = []
        terminated = ending in (endings.WON, endings.LOST)
        for agent_id, agent in self.agents.items():
            episode = agent.episode
            if agent.last_act is not None:
                agent.show(*(agent.final or (episode.get_observations(-1), {})))
            episode.is_terminated = agent_id in self._terminated or (terminated and agent_id not in self.ended)
            episode.is_truncated = not episode.is_terminated
            episode.get_infos(-1).update({ENDING: ending, WON: won, ENV_STEPS: self.env_steps})

    def nobody_acts(self, step: MultiAgentStep) -> bool:
        """Whether `step` leaves agents that have not ended, and shows none of them anything."""
        ended = self.ended | step.terminated | step.truncated
        goes_on = not step.all_terminated and not step.all_truncated and self.agents.keys() - ended
        return bool(goes_on) and not step.observations.keys() - ended

    def _stored(self, observations: dict[str, Any]) -> dict[str, Any]:
        return {agent_id: stored_observation(seen, self.images) for agent_id, seen in observations.items()}

    def _show(self, observations: dict[str, Any], infos: dict[str, dict[str, Any]]) -> None:
        self.acting = [agent_id for agent_id in self._possible_agents if agent_id in observations]
        for agent_id in self.acting:
            info = infos[agent_id]
            if agent_id not in self.agents:
                self.agents[agent_id] = self._enter(agent_id)
                info = {**info, **self.marks(), ENTERED_AT: self.env_steps}
            self.agents[agent_id].show(observations[agent_id], info)

    def _enter(self, agent_id: str) -> Agent:
        module_id = self._episode.module_for(agent_id)
        episode = SingleAgentEpisode(agent_id=agent_id, module_id=module_id, multi_agent_episode_id=self._episode.id_)
        self._episode.agent_episodes[agent_id] = episode
        return Agent(agent_id, module_id, episode)

    def _reward(self, agent_id: str, reward: float) -> None:
        agent = self.agents.get(agent_id)
        # An agent that has not acted has done nothing that could be rewarded.
        if agent is None or agent.last_act is None:
            self.rewards_without_act += reward != 0
        else:
            agent.reward += reward

    def _show_final(self, agent_id: str, step: MultiAgentStep) -> None:
        agent = self.agents[agent_id]
        last = agent.episode.get_observations(-1)
        agent.final = (step.observations.get(agent_id, last), step.infos[agent_id])
