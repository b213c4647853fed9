"""A two-agent environment for tests, and a small Algorithm that plays it; no game worth playing."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any, ClassVar

from gymnasium import spaces
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_gigpo.agent_formats import ParsedResponse
from rllib_gigpo.algorithms.gigpo.gigpo import GiGPOConfig

AGENTS = ["ann", "bob"]


class TwoAgents(MultiAgentEnv):
    """Ann and Bob are shown something, and rewarded by their own action; after `steps` steps the game is won.

    Args:
        config: kind: "together" (both act in every step), "turns" (Ann begins), "early" (both act; Ann's episode ends
            after her first act) or "silent" (only Ann ever acts). steps: of the game. team_reward: what both get for
            the last step, whoever acts. anonymous: everybody is shown the same.
    """

    possible_agents = AGENTS
    fails_once = False  # set on the class, for tests in one process: the next second step raises

    def __init__(self, config: Any = None):
        super().__init__()
        config = dict(config or {})
        self.kind, self.steps = config.get("kind", "together"), config.get("steps", 3)
        self.team_reward, self.anonymous = config.get("team_reward", 0.0), config.get("anonymous", False)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        self.t, self.task = 0, (options or {})["task"]
        shown = AGENTS if self.kind in ("together", "early") else ["ann"]
        return self._shown(shown), {"__common__": {"task_id": f"task {self.task}"}}

    def step(self, actions: dict[str, str]) -> Any:
        self.t += 1
        if self.t == 2 and TwoAgents.fails_once:
            TwoAgents.fails_once = False
            raise ConnectionError("the game is gone")
        over = self.t >= self.steps
        rewards = {agent: float(len(action) % 2) for agent, action in actions.items()}
        for agent in AGENTS if over else ():
            rewards[agent] = rewards.get(agent, 0.0) + self.team_reward
        ended = {"ann": True} if self.kind == "early" and self.t == 1 else {}
        infos = {"__common__": {"won": over}}
        return self._shown([] if over else self._next()), rewards, {"__all__": over, **ended}, {"__all__": False}, infos

    def _next(self) -> list[str]:
        if self.kind == "together":
            return AGENTS
        if self.kind == "turns":
            return [AGENTS[self.t % 2]]
        return ["bob"] if self.kind == "early" else ["ann"]

    def _shown(self, agents: list[str]) -> dict[str, str]:
        return {agent: f"{'you' if self.anonymous else agent} in step {self.t}" for agent in agents}


class TwoAgentsWithSpaces(TwoAgents):
    """Declares what RLlib's checker wants: spaces and the agents of now; and starts without a task."""

    agents = AGENTS
    observation_spaces: ClassVar = dict.fromkeys(AGENTS, spaces.Text(60, charset=frozenset(string.printable)))
    action_spaces: ClassVar = observation_spaces

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        return super().reset(seed=seed, options={"task": 0, **(options or {})})


def whole_text(text: str) -> ParsedResponse:
    """Any response is an action: a random model never follows a grammar."""
    return ParsedResponse(text, True, None)


def own_module(agent_id: str, episode: Any, **kwargs: Any) -> str:
    """A module for each agent, with its name in upper case."""
    return agent_id.upper()


def two_agent_config(
    model_directory: Path, *, modules: str = "own", config_class: type = GiGPOConfig, **env_config: Any
) -> Any:
    """2 groups of 4, in one process. `modules`: "own" (ANN and BOB), "shared" (one, SHARED) or "default"."""
    config = (
        config_class()
        .environment(TwoAgents, env_config=env_config)
        .language_model(model_path=str(model_directory))
        .agent_format(prompt_template="{{ observation }}", history_length=0, response_parser=whole_text, stop=())
        .generation(max_prompt_tokens=100, max_response_tokens=4)
        .training(group_size=4, groups_per_iteration=2, lr=1e-2, optimizer="sgd")
        .evaluation(evaluation_duration=3)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .learners(num_learners=0)
        .debugging(seed=0)
    )
    if modules == "own":
        return config.multi_agent(policies={"ANN", "BOB"}, policy_mapping_fn=own_module)
    if modules == "shared":
        return config.multi_agent(policies={"SHARED"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "SHARED")
    return config
