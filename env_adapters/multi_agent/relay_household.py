"""Household as a relay of two agents: one finds the object and passes it on, the other puts it away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rllib_gigpo.env_adapters.generated_tasks import check_integer
from rllib_gigpo.env_adapters.household.household import SUCCESS_REWARD, task_description
from rllib_gigpo.env_adapters.household.layouts import OBJECTS
from rllib_gigpo.env_adapters.multi_agent.relay import AGENTS, Relay, relay_task
from rllib_gigpo.env_adapters.multi_agent.turn_taking import TurnTakingEnv, options_of


class RelayHousehold(TurnTakingEnv):
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

    Infos hold, for the agent concerned, `won`, `task_id`, `task_type`, `task_description`, `admissible_actions` (all
    that are not invalid) and `anchor_state`, the line on what is the case now; after an act, also `is_action_valid`.

    Args:
        config: The options below as a mapping, as RLlib gives them to an environment's class.
        max_steps: Acts after which an episode is truncated.
        num_objects: How many of the six objects there are.

    Raises:
        ValueError: An option is unknown, or has a value that is not allowed.
    """

    game_name = "RelayHousehold"
    example_action = "go to hatch"
    # Of the class too: so the mapping of a config is checked before an environment is made.
    possible_agents: list[str] = list(AGENTS)  # noqa: RUF012 (an instance has its own)

    def __init__(self, config: Mapping[str, Any] | None = None, *, max_steps: int = 20, num_objects: int = 4):
        options = options_of(self.game_name, {"max_steps": max_steps, "num_objects": num_objects}, config)
        check_integer("num_objects", options["num_objects"], lowest=1, highest=len(OBJECTS))
        super().__init__(AGENTS, max_steps=options["max_steps"], longest_observation=256, longest_action=64)
        self._num_objects = options["num_objects"]
        self._relay: Relay | None = None

    @property
    def relay(self) -> Relay:
        """The state, for experts and tests. Raises RuntimeError before the first reset."""
        if self._relay is None:
            raise RuntimeError("RelayHousehold has no state before reset")
        return self._relay

    def _set_up(self, task: int) -> None:
        self._relay = Relay(relay_task(task, num_objects=self._num_objects))

    def _mover(self) -> str:
        return self.relay.agent

    def _act(self, action: str) -> bool:
        is_valid = action in self.relay.rooms[self.relay.agent].commands()
        if is_valid:
            self.relay.do(action)
        return is_valid

    def _final_rewards(self) -> Mapping[str, float] | None:
        return dict.fromkeys(AGENTS, SUCCESS_REWARD) if self.relay.is_done else None

    def _observation(self, agent: str) -> str:
        room = self.relay.rooms[agent]
        return f"You are the {agent}. {room.history_line()}\n{room.state_line()}"

    def _info(self, agent: str) -> dict[str, Any]:
        room = self.relay.rooms[agent]
        return {
            "won": self.relay.is_done,
            "task_id": f"relay_household/{self._task}",
            "task_type": "relay",
            "task_description": task_description(room.layout),
            "admissible_actions": room.commands(),
            "anchor_state": room.state_line(),
        }
