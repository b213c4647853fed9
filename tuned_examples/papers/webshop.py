"""WebShop as in the papers: 15 steps, two earlier turns in the prompt, and, as in their scripts, 1000 products."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.tuned_examples.papers.text_agents import Config, text_agent

STOP = {"training_iteration": 150}


def webshop(config: Config, *, model: str, num_gpus: int, **lora: Any) -> Config:
    """`config` for WebShop; see `text_agent`."""
    # About 1,000 rows of an iteration, in mini-batches of 64.
    return text_agent(
        config, "WebShop", model=model, num_gpus=num_gpus, num_minibatches=16, max_prompt_tokens=4096, **lora
    ).environment(env_config={"num_products": 1000, "goals": "synthetic", "max_steps": 15})
