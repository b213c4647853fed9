"""What the papers' runs of text agents have in common (Feng et al. 2025, arXiv 2505.10978, appendix and scripts)."""

from __future__ import annotations

from typing import Any, TypeVar

from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.algorithms.ppo import PPOConfig

Config = TypeVar("Config", bound=GroupPolicyConfig)


def text_agent(
    config: Config, env: str, *, model: str, num_gpus: int, num_minibatches: int, max_prompt_tokens: int, **lora: Any
) -> Config:
    """`config` for `env`, on one machine: learners on some of its GPUs, vLLM engines on the others.

    Not as published: the papers cut an iteration into mini-batches of a number of rows, which grow fewer as episodes
    shorten; here it is a fixed number of mini-batches. Weights are float32 where all are trained, as the papers'
    optimizers have them: a bfloat16 weight does not move at a learning rate of 1e-6.

    Args:
        config: Of an algorithm.
        env: The environment's name.
        model: A folder in `models/`, below the folder in which the command runs.
        num_gpus: GPUs of the machine: 2, halved; or 4, halved for an adapter, else three for learners over which the
            model is spread. A critic is not spread, and so takes GPUs that hold all of it.
        num_minibatches: Optimizer steps per iteration.
        max_prompt_tokens: Of a prompt.
        lora: `lora_rank`, `lora_alpha`: then an adapter is trained, on the model in bfloat16.
    """
    is_spread = num_gpus > 2 and not lora and not isinstance(config, PPOConfig)
    num_learners = num_gpus - 1 if is_spread else num_gpus // 2
    spread = {"sharding": "fsdp", "mixed_precision": True} if is_spread else {}
    groups = {"group_size": 1, "groups_per_iteration": 128} if isinstance(config, PPOConfig) else {}
    return (
        config.environment(env)
        .language_model(model_path=f"models/{model}", model_dtype="bfloat16" if lora else "float32", **lora)
        .language_model(gradient_checkpointing=True)
        .generation(engine="vllm", max_prompt_tokens=max_prompt_tokens, max_response_tokens=512, temperature=1.0)
        .training(
            **{"group_size": 8, "groups_per_iteration": 16, **groups},
            num_minibatches=num_minibatches,
            lr=1e-6,
            kl_coeff=0.01,
            invalid_action_penalty=0.1,
            # Several full prompts with their responses; `rllib plan` counts the memory.
            micro_batch_tokens=4 * (max_prompt_tokens + 512),
        )
        .evaluation(evaluation_interval=5, evaluation_duration=128, evaluation_config={"temperature": 0.4})
        .env_runners(num_env_runners=num_gpus - num_learners, num_gpus_per_env_runner=1, env_workers=8)
        .learners(num_learners=num_learners, num_gpus_per_learner=1, **spread)
        .debugging(seed=0)
    )
