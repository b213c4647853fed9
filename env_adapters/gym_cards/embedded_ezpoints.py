"""Builds the embedded model of EZPoints from nothing.

    python -m rllib_gigpo.env_adapters.gym_cards.embedded_ezpoints OUT

The model first imitates an expert for a while, which teaches it to read the state, then a weak mixture: each step the
expert's with some probability, else uniform over the grammatical ones. So it ends with the format learnt well and the
game played poorly, and leaves the game to reinforcement learning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS
from rllib_gigpo.env_adapters.gym_cards.arithmetic import evaluate
from rllib_gigpo.env_adapters.gym_cards.ezpoints import END, MAX_FORMULA_PARTS, OPERATORS, EZPoints
from rllib_gigpo.env_adapters.gym_cards.hands import TARGET
from rllib_gigpo.rl_modules.embedded import Stage, build_causal_lm, build_tokenizer, save_model, warm_start

SEED = 0


@dataclass(frozen=True)
class Demonstrations:
    """What one stage of the warm start imitates.

    Attributes:
        episodes: Games played.
        played_by_expert: Probability that a step of the game is the expert's; it decides which states are seen.
        labelled_by_expert: Probability that the action to imitate is the expert's; it decides how well the model plays.
        steps: Optimizer steps.
        learning_rate: Its peak.
    """

    episodes: int
    played_by_expert: float
    labelled_by_expert: float
    steps: int
    learning_rate: float


# The first stage teaches to read numbers and formula, the second to play badly.
STAGES = (
    Demonstrations(episodes=2000, played_by_expert=0.5, labelled_by_expert=1.0, steps=200, learning_rate=2e-3),
    Demonstrations(episodes=2000, played_by_expert=0.35, labelled_by_expert=0.35, steps=100, learning_rate=1.5e-3),
)


def demonstrate(plan: Demonstrations, *, seed: int) -> Iterator[tuple[str, str]]:
    """User message and response of every step of the games of a stage.

    The thought tells which numbers are left, and the part written last: a correct reading of the state, never the action.
    """
    rng = np.random.default_rng(seed)
    prompt = PromptTemplate(EZPOINTS.agent_format.prompt_template)
    env = EZPoints()
    for _ in range(plan.episodes):
        observation, info = env.reset(options={"task": int(rng.integers(2**31))})
        for step in count():
            user_message = prompt.render(
                observation=observation, history=(), step=step, admissible_actions=info["admissible_actions"]
            )
            # One draw decides both, so that with equal probabilities the action played is the action imitated.
            draw = rng.random()
            expert = str(rng.choice(expert_actions(tuple(info["Numbers"]), tuple(info["Formula"]))))
            uniform = str(rng.choice(grammatical_actions(tuple(info["Numbers"]), tuple(info["Formula"]))))
            label = expert if draw < plan.labelled_by_expert else uniform
            yield (
                user_message,
                f"<think>{_thought(tuple(info['Numbers']), tuple(info['Formula']))}</think><action>{label}</action>",
            )
            played = expert if draw < plan.played_by_expert else uniform
            observation, _, terminated, truncated, info = env.step(played)
            if terminated or truncated:
                break


def expert_actions(numbers: tuple[int, int], formula: tuple[str, ...]) -> list[str]:
    """The actions that win soonest from a formula; only "=" where nothing wins any more."""
    shortest, actions = _shortest_win(numbers, formula)
    return actions if shortest is not None else [END]


def grammatical_actions(numbers: tuple[int, int], formula: tuple[str, ...]) -> list[str]:
    """The actions that keep a formula an alternation of unused numbers and operators, or end it."""
    if formula and formula[-1] not in OPERATORS:
        return [*OPERATORS, END]
    return _unused(numbers, formula) or [END]


@cache
def _shortest_win(numbers: tuple[int, int], formula: tuple[str, ...]) -> tuple[int | None, list[str]]:
    """The least number of actions to a win, None if there is no win, and the actions that begin such a way."""
    if len(formula) > MAX_FORMULA_PARTS:
        return None, []
    unused = _unused(numbers, formula)
    if not unused and evaluate("".join(formula)) == TARGET:
        return 1, [END]
    ways = {part: _shortest_win(numbers, (*formula, part))[0] for part in (*unused, "+", "*")}
    lengths = [length for length in ways.values() if length is not None]
    if not lengths:
        return None, []
    return min(lengths) + 1, [part for part, length in ways.items() if length == min(lengths)]


def _unused(numbers: tuple[int, int], formula: tuple[str, ...]) -> list[str]:
    unused = [str(number) for number in numbers]
    for part in formula:
        if part in unused:
            unused.remove(part)
    return unused


def _thought(numbers: tuple[int, int], formula: tuple[str, ...]) -> str:
    unused = " ".join(_unused(numbers, formula)) or "nothing"
    last = formula[-1] if formula else "nothing"
    return f"I have {unused} after {last}."


def build(directory: Path) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    demonstrations = [list(demonstrate(plan, seed=SEED + i)) for i, plan in enumerate(STAGES)]
    tokenizer = build_tokenizer([text for rows in demonstrations for pair in rows for text in pair])
    model = build_causal_lm(tokenizer, seed=SEED)
    stages = [
        Stage(
            prompts=[encode_prompt(tokenizer, user_message) for user_message, _ in rows],
            responses=[_encode_response(tokenizer, response) for _, response in rows],
            steps=plan.steps,
            learning_rate=plan.learning_rate,
        )
        for plan, rows in zip(STAGES, demonstrations, strict=True)
    ]
    losses = warm_start(model, stages, seed=SEED)
    save_model(directory, model, tokenizer)
    print(
        f"{directory}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens, "
        f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} nats per token at last"
    )


def _encode_response(tokenizer: PreTrainedTokenizerBase, response: str) -> np.ndarray:
    """Token ids, int32[R], end-of-sequence token included."""
    return np.asarray([*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id], np.int32)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]))
