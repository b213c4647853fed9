"""Household as a relay of two agents: one finds the object and passes it on, the other puts it away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_gigpo.env_adapters.generated_tasks import check_integer, task_of_reset, text_space
from rllib_gigpo.env_adapters.household.household import SUCCESS_REWARD, task_description
from rllib_gigpo.env_adapters.household.layouts import OBJECTS
from rllib_gigpo.env_adapters.household.room import Room
from rllib_gigpo.env_adapters.multi_agent.relay import AGENTS, Relay, relay_task


class RelayHousehold(MultiAgentEnv):
    """Two rooms joined by a hatch; the "finder" has the objects, the "placer" the place where one of them belongs.

    Exactly one agent is observed and acts at a time. The finder does until the object of the task lies in the hatch,
    which hands the turn over for good; then the placer does until the object lies in its destination. Neither wins
    without the other, and neither ever sees the other's room.

    Observation of an agent: text of two lines, who it is and what it has checked so far, then what is the case now, for
    example "You are the finder. You checked table.\\nYou are at the hatch. You see nothing. You hold apple."
    The task is not in it; it is `info["task_description"]`: "put apple in hatch" for the finder, "put apple in shelf"
    for the placer.

    Action of the agent whose turn it is: text, a command as in Household. Any other text, "" included, and a command
    that cannot be carried out now, is a no-op: invalid, nothing changes, the step counts.

    Reward: +10 for both agents as soon as the object lies in its destination, which terminates for all; 0 for
    everything else. `max_steps` acts of both together truncate for all. Without mistakes an episode takes 8 to 13.

    The observations of a step are those of the agent that acts next, rewards those of the agent that acted; the last
    step has an observation, a reward and an info for every agent that ever had a turn. So an agent's last info says of
    its own last action whether it was valid, as every info does.

    Infos hold, for the agent concerned, `won`, `task_id`, `task_type`, `task_description`, `admissible_actions` (all
    that are not invalid) and `anchor_state`, the line on what is the case now; after an act, also `is_action_valid`.

    Args:
        config: The options below as a mapping, as RLlib gives them to an environment's class.
        max_steps: Acts after which an episode is truncated.
        num_objects: How many of the six objects there are.

    Raises:
        ValueError: An option is unknown, or has a value that is not allowed.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)
    # Of the class too: so the mapping of a config is checked before an environment is made.
    possible_agents: list[str] = list(AGENTS)  # noqa: RUF012 (as above; an instance has its own)

    def __init__(self, config: Mapping[str, Any] | None = None, *, max_steps: int = 20, num_objects: int = 4):
        options = {"max_steps": max_steps, "num_objects": num_objects}
        if unknown := sorted(set(config or {}) - set(options)):
            raise ValueError(f"RelayHousehold got options {unknown}; known are {sorted(options)}")
        options.update(config or {})
        check_integer("max_steps", options["max_steps"], lowest=1)
        check_integer("num_objects", options["num_objects"], lowest=1, highest=len(OBJECTS))
        self.possible_agents = list(AGENTS)
        self.agents = list(AGENTS)
        super().__init__()
        # One space object for each agent: seeding the one must not seed the other.
        self.observation_spaces = {agent: text_space(256, min_length=1) for agent in AGENTS}
        self.action_spaces = {agent: text_space(64) for agent in AGENTS}
        self._max_steps = options["max_steps"]
        self._num_objects = options["num_objects"]
        self._task = 0
        self._relay: Relay | None = None
        self._steps = 0
        self._is_action_valid: dict[str, bool] = {}

    @property
    def relay(self) -> Relay:
        """The state, for experts and tests. Raises RuntimeError before the first reset."""
        if self._relay is None:
            raise RuntimeError("RelayHousehold.step was called before reset")
        return self._relay

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Sets up `options["task"]`, an integer of at least 0, or a task drawn from the seed.

        Returns:
            The finder's observation and info.

        Raises:
            TypeError: The task is not an integer.
            ValueError: The task is negative, or `options` has another key.
        """
        super().reset(seed=seed)
        self._task = task_of_reset(options, self.np_random, environment="RelayHousehold")
        self._relay = Relay(relay_task(self._task, num_objects=self._num_objects))
        self._steps = 0
        self._is_action_valid = {}
        return self._answers([self.relay.agent])

    def step(
        self, action_dict: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Carries out the command of the agent whose turn it is, or nothing.

        Raises:
            ValueError: The actions are not those of exactly that agent.
            TypeError: Its action is not a text.
            RuntimeError: The environment was never reset.
        """
        agent = self.relay.agent
        if set(action_dict) != {agent}:
            raise ValueError(f"step got actions of {sorted(action_dict)}; it is the turn of {agent!r}, and of no other")
        action = action_dict[agent]
        if not isinstance(action, str):
            raise TypeError(
                f"action of {agent!r} is {action!r} of type {type(action).__name__}; RelayHousehold takes text, "
                "e.g. 'go to hatch'"
            )
        is_valid = action in self.relay.rooms[agent].commands()
        if is_valid:
            self.relay.do(action)
        self._is_action_valid[agent] = is_valid
        self._steps += 1

        won = self.relay.is_done
        truncated = self._steps >= self._max_steps and not won
        # An agent whose first observation came with the end would be one that never acts.
        took_part = list(self._is_action_valid)
        observations, infos = self._answers(took_part if won or truncated else [self.relay.agent])
        rewards = dict.fromkeys(took_part, SUCCESS_REWARD) if won else {agent: 0.0}
        if truncated:
            rewards = dict.fromkeys(took_part, 0.0)
        return observations, rewards, {"__all__": won}, {"__all__": truncated}, infos

    def _answers(self, agents: list[str]) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Observation and info of each of `agents`."""
        rooms = {agent: self.relay.rooms[agent] for agent in agents}
        observations = {
            agent: f"You are the {agent}. {room.history_line()}\n{room.state_line()}" for agent, room in rooms.items()
        }
        return observations, {agent: self._info(agent, room) for agent, room in rooms.items()}

    def _info(self, agent: str, room: Room) -> dict[str, Any]:
        info = {
            "won": self.relay.is_done,
            "task_id": f"relay_household/{self._task}",
            "task_type": "relay",
            "task_description": task_description(room.layout),
            "admissible_actions": room.commands(),
            "anchor_state": room.state_line(),
        }
        return info | {"is_action_valid": self._is_action_valid[agent]} if agent in self._is_action_valid else info
