"""ALFWorld as in the papers: 50 steps, two earlier turns in the prompt, the benchmark's games."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.tuned_examples.papers.text_agents import Config, text_agent

STOP = {"training_iteration": 150}


def alfworld(config: Config, *, model: str, num_gpus: int, **lora: Any) -> Config:
    """`config` for ALFWorld, with the games that ALFWORLD_DATA names; see `text_agent`."""
    # About 2,500 rows of an iteration in the middle of training, in mini-batches of 256.
    return text_agent(
        config, "ALFWorld", model=model, num_gpus=num_gpus, num_minibatches=10, max_prompt_tokens=2048, **lora
    )
