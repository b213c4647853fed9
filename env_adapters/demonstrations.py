"""Games played for a language model to imitate: what it would be shown at every turn, and what it is to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rllib_gigpo.agent_formats import AgentFormat, PromptTemplate
from rllib_gigpo.agent_formats import Turn as EarlierTurn
from rllib_gigpo.env_adapters.generated_tasks import TASKS

if TYPE_CHECKING:
    from rllib_gigpo.rl_modules.embedded import PictureRow


class Turn(NamedTuple):
    """What a player is shown before an action, and what an expert makes of it.

    Attributes:
        observation: What the environment shows: a text, or a dict of "text" and "image".
        task: The `task_description`, or None.
        step: How many actions the player took before.
        thought: A correct reading of observation and task that never names the action.
        situation: How things stand, for `most_per_situation` of `demonstrations`.
        expert_actions: What an expert does here; several where it cannot know better.
        possible_actions: Everything that can be done here.
        history: The earlier turns, where the prompt shows them.
    """

    observation: Any
    task: str | None
    step: int
    thought: str
    situation: Hashable
    expert_actions: Sequence[str]
    possible_actions: Sequence[str]
    history: Sequence[EarlierTurn] = ()


# From a task number to a game: a generator of turns that is sent the action for each.
Game = Callable[[int], Generator[Turn, str, None]]
# From a thought and an action to the response that holds both.
Response = Callable[[str, str], str]


def think_action_response(thought: str, action: str) -> str:
    """As the parser `think_action` reads it."""
    return f"<think>{thought}</think><action>{action}</action>"


def demonstrations(
    game: Game,
    agent_format: AgentFormat,
    *,
    episodes: int,
    played_by_expert: float,
    shown_by_expert: float | None = None,
    most_per_situation: int | None = None,
    response: Response = think_action_response,
    seed: int,
) -> Iterator[tuple[str, str]]:
    """User message and response of every turn of `episodes` games.

    An action is an expert's with probability `played_by_expert`, else uniform over the possible ones. The response
    shows that same action, or, if `shown_by_expert` is given, one drawn anew with that probability.

    With `most_per_situation`, turns in a situation that has come up as often are played but not shown: most of a game
    may be search, and a model that sees little else learns little else.
    """
    prompt = PromptTemplate(agent_format.prompt_template)
    for turn, action in _shown_turns(game, episodes, played_by_expert, shown_by_expert, most_per_situation, seed):
        yield _user_message(prompt, turn, turn.observation), response(turn.thought, action)


def picture_demonstrations(
    game: Game,
    agent_format: AgentFormat,
    *,
    episodes: int,
    played_by_expert: float,
    shown_by_expert: float | None = None,
    most_per_situation: int | None = None,
    response: Response = think_action_response,
    seed: int,
) -> Iterator[PictureRow]:
    """As `demonstrations`, of a game that shows dicts of "text" and "image"."""
    # Here and not above: it brings torch, which experts that play without a model have no need of.
    from rllib_gigpo.rl_modules.embedded import PictureRow

    prompt = PromptTemplate(agent_format.prompt_template)
    for turn, action in _shown_turns(game, episodes, played_by_expert, shown_by_expert, most_per_situation, seed):
        message = _user_message(prompt, turn, turn.observation["text"])
        yield PictureRow(turn.observation["image"], message, response(turn.thought, action))


def _shown_turns(
    game: Game,
    episodes: int,
    played_by_expert: float,
    shown_by_expert: float | None,
    most_per_situation: int | None,
    seed: int,
) -> Iterator[tuple[Turn, str]]:
    """Turns, and the action that each is shown with."""
    rng = np.random.default_rng(seed)
    times: Counter[Hashable] = Counter()

    def choose(turn: Turn, expert_probability: float) -> str:
        actions = turn.expert_actions if rng.random() < expert_probability else turn.possible_actions
        return actions[int(rng.integers(len(actions)))]

    for _ in range(episodes):
        turns = game(int(rng.integers(TASKS)))
        turn: Turn | None = next(turns)
        while turn is not None:
            played = choose(turn, played_by_expert)
            shown = played if shown_by_expert is None else choose(turn, shown_by_expert)
            times[turn.situation] += 1
            if most_per_situation is None or times[turn.situation] <= most_per_situation:
                yield turn, shown
            try:
                turn = turns.send(played)
            except StopIteration:
                turn = None


def _user_message(prompt: PromptTemplate, turn: Turn, text: str) -> str:
    return prompt.render(
        observation=text, history=turn.history, step=turn.step, task=turn.task, admissible_actions=turn.possible_actions
    )
