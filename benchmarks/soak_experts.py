"""For each environment one who wins every task that can be won, if need be by what agents do not see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rllib_gigpo.env_adapters.gym_cards.hands import TARGET
from rllib_gigpo.env_adapters.gym_cards.points24 import Points24
from rllib_gigpo.env_adapters.gym_cards.solver import solution
from rllib_gigpo.env_adapters.household.expert import expert_actions as household_actions
from rllib_gigpo.env_adapters.multi_agent.nim_rules import PLAYER, best_moves
from rllib_gigpo.env_adapters.search_qa.generated_questions import expert_act, generated_question
from rllib_gigpo.env_adapters.sokoban.expert import expert_actions as sokoban_moves
from rllib_gigpo.env_adapters.sokoban.expert import moves_to_solution
from rllib_gigpo.env_adapters.webshop.expert import expert_action as webshop_action
from rllib_gigpo.env_checks.player import Moment, Player

MOST_HITS = 20  # with aces alone; one more is a bust
# The actions of those who act next, by agent.
Choose = Callable[[Moment], dict[Any, str]]
# Looks at a task that has just been started; None where nobody can win it. It leaves the task at its start.
Expert = Callable[[Player, int, Moment], Choose | None]


def agent_and_info(moment: Moment) -> tuple[Any, Mapping[str, Any]]:
    """Whose turn it is, and the info for it; one agent acts at a time in all of these environments."""
    (agent,) = moment.observations
    return agent, moment.infos[agent]


def from_info(choose: Callable[[Mapping[str, Any]], str]) -> Choose:
    """Chooses by the info of whose turn it is."""

    def chosen(moment: Moment) -> dict[Any, str]:
        agent, info = agent_and_info(moment)
        return {agent: choose(info)}

    return chosen


def one_by_one(actions: Iterable[str]) -> Choose:
    """Takes these actions, whatever happens."""
    left = iter(actions)
    return from_info(lambda info: next(left))


def number_line(player: Player, task: int, start: Moment) -> Choose:
    return from_info(lambda info: "+" if info["Current"] < info["Target"] else "-")


def formula(target: int) -> Expert:
    """Writes the solver's formula."""

    def expert(player: Player, task: int, start: Moment) -> Choose | None:
        parts = solution(agent_and_info(start)[1]["Numbers"], target=target)
        return None if parts is None else from_info(lambda info: (*parts, "=")[len(info["Formula"])])

    return expert


def blackjack(player: Player, task: int, start: Moment) -> Choose | None:
    """Tries out how many cards win; the deck of a task is always the same."""
    for hits in range(MOST_HITS + 1):
        plan = [*["hit"] * hits, "stand"]
        moment = start
        for action in plan:
            if moment.ended:
                break
            moment = player.step({agent: action for agent in moment.observations})
        player.reset(task, 0)
        if any(moment.values("won")):
            return one_by_one(plan)
    return None


def sokoban(player: Player, task: int, start: Moment) -> Choose:
    env: Any = player.env.unwrapped
    board = env.level.board
    distances = moves_to_solution(board, env.position)
    return from_info(lambda info: sokoban_moves(board, env.position, distances)[0])


def household(player: Player, task: int, start: Moment) -> Choose:
    env: Any = player.env.unwrapped
    return from_info(lambda info: household_actions(env.room)[0])


def search_qa(player: Player, task: int, start: Moment) -> Choose:
    question = generated_question(agent_and_info(start)[1]["task_description"], hops=1)
    return one_by_one(expert_act(question, step) for step in range(len(question.names) + 1))


def nim(player: Player, task: int, start: Moment) -> Choose:
    """Wins from any start, against an opponent that takes one stone after the other."""
    env: Any = player.env.unwrapped

    def choose(moment: Moment) -> dict[Any, str]:
        agent, _ = agent_and_info(moment)
        return {agent: best_moves(env.stones, most_taken=3)[0] if agent == PLAYER else "take 1"}

    return choose


def relay_household(player: Player, task: int, start: Moment) -> Choose:
    env: Any = player.env.unwrapped

    def choose(moment: Moment) -> dict[Any, str]:
        agent, _ = agent_and_info(moment)
        return {agent: household_actions(env.relay.rooms[agent])[0]}

    return choose


def walkthrough(player: Player, task: int, start: Moment) -> Choose:
    """Follows the planner's solution, which ALFWorld shows with `walkthrough=True`."""
    return one_by_one(agent_and_info(start)[1]["walkthrough"])


def webshop(player: Player, task: int, start: Moment) -> Choose:
    """Buys the product that the goal was made of."""
    env: Any = player.env.unwrapped
    return from_info(lambda info: webshop_action(env.shop, env.goal, env.catalogue))


EXPERTS: dict[str, Expert] = {
    "ALFWorld": walkthrough,
    "ALFWorldTiny": walkthrough,
    "Blackjack": blackjack,
    "EZPoints": formula(TARGET),
    "Household": household,
    "Nim": nim,
    "NumberLine": number_line,
    "Points24": formula(Points24.target),
    "RelayHousehold": relay_household,
    "SearchQA": search_qa,
    "Sokoban": sokoban,
    "WebShop": webshop,
}
