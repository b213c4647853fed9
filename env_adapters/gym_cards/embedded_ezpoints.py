"""Builds the embedded model of EZPoints from nothing.

    python -m rllib_gigpo.env_adapters.gym_cards.embedded_ezpoints OUT

The model imitates a weak mixture: each step is an expert's with some probability, else uniform over the admissible
actions. So it learns the format well and the game poorly, which leaves the game to reinforcement learning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from rllib_gigpo.agent_formats import PromptTemplate, encode_prompt
from rllib_gigpo.env_adapters.gym_cards import EZPOINTS
from rllib_gigpo.env_adapters.gym_cards.ezpoints import EZPoints
from rllib_gigpo.env_adapters.gym_cards.ezpoints_expert import expert_actions, tasks_by_numbers, unused_numbers
from rllib_gigpo.rl_modules.embedded import build_causal_lm, build_tokenizer, save_model, warm_start

SEED = 0
EPISODES = 3000
EXPERT_PROBABILITY = 0.42
STEPS = 800
LEARNING_RATE = 3e-3


def demonstrations(*, episodes: int, expert_probability: float, seed: int) -> Iterator[tuple[str, str]]:
    """User message and response of every step of `episodes` games of the weak mixture.

    The thought tells which numbers are left, and the part written last: a correct reading of the state, never the
    action.
    """
    rng = np.random.default_rng(seed)
    prompt = PromptTemplate(EZPOINTS.agent_format.prompt_template)
    env = EZPoints()
    hands = tasks_by_numbers()
    for _ in range(episodes):
        observation, info = env.reset(options={"task": int(rng.choice(hands[rng.integers(len(hands))]))})
        for step in count():
            user_message = prompt.render(
                observation=observation, history=(), step=step, admissible_actions=info["admissible_actions"]
            )
            if rng.random() < expert_probability:
                candidates = expert_actions(tuple(info["Numbers"]), tuple(info["Formula"]))
            else:
                candidates = info["admissible_actions"]
            action = str(rng.choice(candidates))
            thought = _thought(tuple(info["Numbers"]), tuple(info["Formula"]))
            yield user_message, f"<think>{thought}</think><action>{action}</action>"
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break


def _thought(numbers: tuple[int, ...], formula: tuple[str, ...]) -> str:
    unused = " ".join(unused_numbers(numbers, formula)) or "nothing"
    last = formula[-1] if formula else "nothing"
    return f"I have {unused} after {last}."


def build(directory: Path) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    rows = list(demonstrations(episodes=EPISODES, expert_probability=EXPERT_PROBABILITY, seed=SEED))
    tokenizer = build_tokenizer([text for row in rows for text in row])
    model = build_causal_lm(tokenizer, seed=SEED)
    losses = warm_start(
        model,
        prompts=[encode_prompt(tokenizer, user_message) for user_message, _ in rows],
        responses=[_encode_response(tokenizer, response) for _, response in rows],
        steps=STEPS,
        learning_rate=LEARNING_RATE,
        seed=SEED,
    )
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
