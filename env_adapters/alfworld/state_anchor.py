"""An anchor state from what is true in the game, instead of from what its last answer says."""

from __future__ import annotations

from typing import Any

# What actions change. Not among them: what was looked at ("checked"), which opens or moves nothing.
_CHANGING = ("opened", "inreceptacle", "holds", "isclean", "ishot", "iscool", "istoggled", "issliced")


def state_anchor(state: Any) -> str:
    """Where the agent is and all that actions can change, "at fridge 1; holds agent apple 1; opened fridge 1; ...".

    Args:
        state: TextWorld's state of the game, which carries its facts and the names of its things.

    Two states with equal anchors have the same future.
    """
    names = {identity: info.name.strip() for identity, info in state["_entity_infos"].items()}
    facts = [fact for fact in state["_facts"] if not fact.is_negation]
    agent_at = {fact.arguments[1].name for fact in facts if fact.name == "atlocation"}
    parts = [
        f"at {names[fact.arguments[0].name]}"
        for fact in facts
        if fact.name == "receptacleatlocation" and fact.arguments[1].name in agent_at
    ]
    parts += [
        " ".join([fact.name, *(names[argument.name] for argument in fact.arguments)])
        for fact in facts
        if fact.name in _CHANGING
    ]
    return "; ".join(sorted(parts))
