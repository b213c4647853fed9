"""An expert at made-up questions: what it knows from the passages it saw, and what it does."""

from __future__ import annotations

from rllib_gigpo.agent_formats import Turn as EarlierTurn
from rllib_gigpo.env_adapters.demonstrations import Turn
from rllib_gigpo.env_adapters.search_qa.generated_questions import GeneratedQuestion
from rllib_gigpo.env_adapters.search_qa.generated_world import Land, Person, Town, World


class Search:
    """What somebody who answers a made-up question has found out.

    Args:
        question: The question.
        made_up: The world that it is about.
    """

    def __init__(self, question: GeneratedQuestion, made_up: World):
        self.question = question
        self._things: dict[str, Person | Town | Land] = {**made_up.people, **made_up.towns, **made_up.lands}
        self._known: str | None = None  # what the last passage is about
        self._next = 0  # which name of the question an expert searches for next

    @property
    def facts(self) -> tuple[str, ...]:
        """What the last passage says, its subject first."""
        return (self.question.names[0],) if self._known is None else tuple(self._things[self._known])

    def looks_up(self, action: str) -> None:
        """Takes note of a search that finds the passage of that name, where there is one."""
        name = action.removeprefix("<search>").removesuffix("</search>")
        if name in self._things:
            self._known = name
            if self._next < len(self.question.names) and name == self.question.names[self._next]:
                self._next += 1

    def expert_action(self) -> str:
        """What brings the answer nearer: the next name to search for, or the answer."""
        if self._next < len(self.question.names):
            return f"<search>{self.question.names[self._next]}</search>"
        return f"<answer>{self.question.answer}</answer>"

    def possible_actions(self) -> list[str]:
        """To search for, or answer with, anything that the last passage names."""
        return [f"<{kind}>{name}</{kind}>" for kind in ("search", "answer") for name in self.facts]

    def thought(self) -> str:
        """What is known, in a few words; it never says what to do."""
        subject, *facts = self.facts
        return f"{subject}: {', '.join(facts)}" if facts else f"{subject}: unknown"

    def turn(self, *, observation: str, history: list[EarlierTurn]) -> Turn:
        """A turn, for demonstrations."""
        known = None if self._known is None else type(self._things[self._known]).__name__
        return Turn(
            observation=observation,
            task=self.question.text,
            step=len(history),
            thought=self.thought(),
            situation=(len(self.question.names), self._next, known),
            expert_actions=[self.expert_action()],
            possible_actions=self.possible_actions(),
            history=list(history),
        )
