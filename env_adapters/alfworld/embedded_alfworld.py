"""Builds the embedded model of ALFWorldTiny from nothing.

    python -m rllib_gigpo.env_adapters.alfworld.embedded_alfworld OUT

As with Household it is warmed up twice. First it imitates an expert, on states that a half random player gets into:
that teaches it to read state and task. Then it imitates a weak mixture, each step an expert's with some probability,
else uniform over the admissible commands: that takes most of the skill away again, leaves the reading, and the game to
reinforcement learning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from rllib_gigpo.agent_formats import PromptTemplate, Turn, encode_prompt
from rllib_gigpo.env_adapters.alfworld import ALFWORLD_TINY
from rllib_gigpo.env_adapters.alfworld.expert import Expert
from rllib_gigpo.env_adapters.alfworld.tiny import ALFWorldTiny
from rllib_gigpo.rl_modules.embedded import build_causal_lm, build_tokenizer, save_model, warm_start

SEED = 0
PLAYS_OF_A_GAME = 4  # to load a game takes as long as to play it twice
READING_GAMES = 200
READING_STEPS = 600
READING_LEARNING_RATE = 3e-3
WEAK_GAMES = 100
WEAK_EXPERT_PROBABILITY = 0.35
WEAK_STEPS = 150
WEAK_LEARNING_RATE = 1.5e-3


def demonstrations(
    *, games: int, played_by_expert: float, shown_by_expert: float | None = None, seed: int
) -> Iterator[tuple[str, str]]:
    """User message and response of every step of `games` games, each played `PLAYS_OF_A_GAME` times.

    A step is an expert's with probability `played_by_expert`, else uniform over the admissible commands. The response
    shows that same command, or, if `shown_by_expert` is given, one drawn anew with that probability.

    The thought tells how the task stands: a correct reading of the state and the task, never the command.
    """
    rng = np.random.default_rng(seed)
    agent_format = ALFWORLD_TINY.agent_format
    prompt = PromptTemplate(agent_format.prompt_template)
    env = ALFWorldTiny()

    def choose(expert_probability: float) -> str:
        commands = expert.actions() if rng.random() < expert_probability else info["admissible_actions"]
        return str(commands[rng.integers(len(commands))])

    tasks = rng.integers(2**31, size=games).repeat(PLAYS_OF_A_GAME)
    for task in tasks:
        observation, info = env.reset(options={"task": task})
        expert = Expert(info["task_description"], info["admissible_actions"])
        turns: list[Turn] = []
        ended = False
        while not ended:
            user_message = prompt.render(
                observation=observation,
                history=turns[-agent_format.history_length :],
                step=len(turns),
                task=info["task_description"],
                admissible_actions=info["admissible_actions"],
            )
            played = choose(played_by_expert)
            shown = played if shown_by_expert is None else choose(shown_by_expert)
            yield user_message, f"<think>{expert.thought()}</think><action>{shown}</action>"
            turns.append(Turn(observation, played))
            observation, _, terminated, truncated, info = env.step(played)
            expert.follow(played, info["admissible_actions"])
            ended = terminated or truncated
    env.close()


def build(directory: Path) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    reading = list(demonstrations(games=READING_GAMES, played_by_expert=0.5, shown_by_expert=1.0, seed=SEED))
    weak = list(demonstrations(games=WEAK_GAMES, played_by_expert=WEAK_EXPERT_PROBABILITY, seed=SEED + 1))
    print(f"{len(reading)} and {len(weak)} rows", flush=True)
    tokenizer = build_tokenizer([text for row in weak for text in row])
    model = build_causal_lm(tokenizer, seed=SEED)
    for rows, steps, learning_rate in (
        (reading, READING_STEPS, READING_LEARNING_RATE),
        (weak, WEAK_STEPS, WEAK_LEARNING_RATE),
    ):
        losses = _imitate(model, tokenizer, rows, steps=steps, learning_rate=learning_rate)
        print(f"{steps} steps on {len(rows)} rows: loss {losses[0]:.3f} to {losses[-1]:.3f} nats per token", flush=True)
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
        responses=[
            np.asarray([*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id], np.int32)
            for _, response in rows
        ],
        steps=steps,
        learning_rate=learning_rate,
        seed=SEED,
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m {__spec__.name} OUT")
    build(Path(sys.argv[1]))
