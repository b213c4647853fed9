"""Builds the embedded model of Household from nothing.

    python -m rllib_gigpo.env_adapters.household.embedded_household OUT

It is warmed up twice. First it imitates an expert, on states that a half random player gets into: that teaches it to
read state and task. Then it imitates a weak mixture, each step an expert's with some probability, else uniform over the
admissible actions: that takes most of the skill away again, leaves the reading, and the game to reinforcement learning.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt
from rllib_gigpo.env_adapters.household import HOUSEHOLD
from rllib_gigpo.env_adapters.household.expert import expert_actions, situation, thought
from rllib_gigpo.env_adapters.household.household import Household
from rllib_gigpo.rl_modules.embedded import build_causal_lm, build_tokenizer, save_model, warm_start

SEED = 0
EPISODES = 3000
ROWS_PER_SITUATION = 4000
READING_STEPS = 700
READING_LEARNING_RATE = 3e-3
WEAK_EXPERT_PROBABILITY = 0.35
WEAK_STEPS = 250
WEAK_LEARNING_RATE = 1.5e-3


def demonstrations(
    *,
    episodes: int,
    played_by_expert: float,
    shown_by_expert: float | None = None,
    most_per_situation: int | None = None,
    seed: int,
) -> Iterator[tuple[str, str]]:
    """User message and response of every step of `episodes` games.

    A step is an expert's with probability `played_by_expert`, else uniform over the admissible actions. The response
    shows that same action, or, if `shown_by_expert` is given, one drawn anew with that probability.

    The thought tells how the task stands: a correct reading of the state and the task, never the action.

    With `most_per_situation`, steps in a situation that has come up as often are played but not shown: most of a game
    is search, and a model that sees little else learns little else.
    """
    rng = np.random.default_rng(seed)
    prompt = PromptTemplate(HOUSEHOLD.agent_format.prompt_template)
    env = Household()
    times: Counter[tuple[str, str]] = Counter()

    def choose(expert_probability: float) -> str:
        actions = expert_actions(env.room) if rng.random() < expert_probability else env.room.commands()
        return actions[rng.integers(len(actions))]

    for _ in range(episodes):
        observation, info = env.reset(options={"task": int(rng.integers(2**31))})
        for step in count():
            user_message = prompt.render(observation=observation, history=(), step=step, task=info["task_description"])
            played = choose(played_by_expert)
            shown = played if shown_by_expert is None else choose(shown_by_expert)
            times[situation(env.room)] += 1
            if most_per_situation is None or times[situation(env.room)] <= most_per_situation:
                yield user_message, f"<think>{thought(env.room)}</think><action>{shown}</action>"
            observation, _, terminated, truncated, info = env.step(played)
            if terminated or truncated:
                break


def build(directory: Path) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    reading = list(
        demonstrations(
            episodes=EPISODES,
            played_by_expert=0.5,
            shown_by_expert=1.0,
            most_per_situation=ROWS_PER_SITUATION,
            seed=SEED,
        )
    )
    weak = list(demonstrations(episodes=EPISODES, played_by_expert=WEAK_EXPERT_PROBABILITY, seed=SEED + 1))
    tokenizer = build_tokenizer([text for row in weak for text in row])
    model = build_causal_lm(tokenizer, seed=SEED)
    for rows, steps, learning_rate in (
        (reading, READING_STEPS, READING_LEARNING_RATE),
        (weak, WEAK_STEPS, WEAK_LEARNING_RATE),
    ):
        losses = _imitate(model, tokenizer, rows, steps=steps, learning_rate=learning_rate)
        print(f"{steps} steps on {len(rows)} rows: loss {losses[0]:.3f} to {losses[-1]:.3f} nats per token")
    save_model(directory, model, tokenizer)
    print(f"{directory}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens")


def _imitate(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    rows: list[tuple[str, str]],
    *,
    steps: int,
    learning_rate: float,
) -> list[float]:
    """Warms `model` up on rows of user message and response; the loss of every step, in nats per response token."""
    return warm_start(
        model,
        prompts=[encode_prompt(tokenizer, user_message) for user_message, _ in rows],
        responses=[_encode_response(tokenizer, response) for _, response in rows],
        steps=steps,
        learning_rate=learning_rate,
        seed=SEED,
    )


def _encode_response(tokenizer: PreTrainedTokenizerBase, response: str) -> np.ndarray:
    """Token ids, int32[R], end-of-sequence token included."""
    return np.asarray([*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id], np.int32)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]))
