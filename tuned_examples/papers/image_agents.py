"""What the papers' runs of agents that see pictures have in common (Feng et al. 2025, arXiv 2505.10978)."""

from __future__ import annotations

from typing import Any

from rllib_gigpo.tuned_examples.papers.text_agents import Config, text_agent


def image_agent(config: Config, env: str, env_config: dict[str, Any], *, groups: int, num_minibatches: int) -> Config:
    """`config` for `env` in pictures, with Qwen2.5-VL-3B-Instruct on two GPUs; see `text_agent`."""
    return (
        text_agent(
            config,
            env,
            model="Qwen2.5-VL-3B-Instruct",
            num_gpus=2,
            num_minibatches=num_minibatches,
            max_prompt_tokens=1024,
        )
        .environment(env_config={"observation": "image", **env_config})
        # Three billion weights in float32 leave room for no more.
        .training(groups_per_iteration=groups, advantage_norm="mean", micro_batch_tokens=3072)
    )
