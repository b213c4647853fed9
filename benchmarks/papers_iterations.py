"""The law of iteration_law.py with what GPUs cost: an estimate of the papers' iterations. Nothing here was measured.

    python benchmarks/papers_iterations.py

A pass over n tokens takes 2·N·n floating-point operations, N the model's weights, and three times as many with its
backward pass; tokens that are decoded one after another take what it takes to read the weights, as long as few rows
share a pass. A delivery moves the weights from a GPU into host memory, to the runners, and into a GPU. Every token of
every prompt is computed anew, as without a prefix cache and shared prefixes; what an environment takes is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import typer

from rllib_gigpo.planning.model_dimensions import PUBLIC_MODELS

# H100 SXM: dense bfloat16, memory, and what a host's memory copies; the shares of these that programs reach.
FLOPS, MEMORY_BYTES_S, HOST_BYTES_S = 989e12, 3.35e12, 20e9
PREFILL_SHARE, TRAINING_SHARE, DECODING_SHARE = 0.4, 0.35, 0.6
BYTES = 2  # of a weight in bfloat16
PASSES = 5  # of a row: the update's three, the log-probabilities before it, and those of the reference
COPIES = 3
COLUMNS = "| setting | GPUs | prompt tokens | response tokens | sample, s | update, s | deliver, s | iteration, s |"


@dataclass(frozen=True)
class Setting:
    """What an iteration of a paper takes; steps and tokens a step are assumed, means over a training run.

    Attributes:
        name: Of the row.
        model: A key of `PUBLIC_MODELS`.
        gpus: Colocated: all of them sample, then all of them learn.
        trajectories: Of an iteration.
        steps: Of a trajectory, mean; and of the longest, which decides how many rounds there are.
        longest: See `steps`.
        prompt, response: Tokens of a step.
    """

    name: str
    model: str
    gpus: int
    trajectories: int
    steps: int
    longest: int
    prompt: int
    response: int


SETTINGS = (
    Setting("ALFWorld, 1.5B", "Qwen2.5-1.5B-Instruct", 2, 128, 30, 50, 800, 120),
    Setting("ALFWorld, 7B", "Qwen2.5-7B-Instruct", 4, 128, 25, 50, 800, 120),
    Setting("WebShop, 1.5B", "Qwen2.5-1.5B-Instruct", 2, 128, 8, 15, 2000, 120),
    Setting("WebShop, 7B", "Qwen2.5-7B-Instruct", 4, 128, 8, 15, 2000, 120),
)


def seconds(setting: Setting) -> tuple[float, float, float]:
    """To sample, to update, to deliver."""
    weights = PUBLIC_MODELS[setting.model].num_parameters()
    prompt_tokens, response_tokens = (
        setting.trajectories * setting.steps * tokens for tokens in (setting.prompt, setting.response)
    )
    flops = FLOPS * setting.gpus
    prefill = 2 * weights * prompt_tokens / (flops * PREFILL_SHARE)
    one_pass = max(
        BYTES * weights / (MEMORY_BYTES_S * DECODING_SHARE),
        2 * weights * setting.trajectories / (flops * PREFILL_SHARE),
    )
    decode = setting.longest * setting.response * one_pass
    update = PASSES * 2 * weights * (prompt_tokens + response_tokens) / (flops * TRAINING_SHARE)
    return prefill + decode, update, COPIES * BYTES * weights / HOST_BYTES_S


def main() -> None:
    """Prints a Markdown table."""
    typer.echo(f"{COLUMNS}\n{'|---' * 8}|")
    for setting in SETTINGS:
        sample, update, deliver = seconds(setting)
        rows = setting.trajectories * setting.steps
        typer.echo(
            f"| {setting.name} | {setting.gpus} | {rows * setting.prompt / 1e6:.1f} M | "
            f"{rows * setting.response / 1e6:.2f} M | {sample:.0f} | {update:.0f} | {deliver:.1f} | "
            f"{sample + update + deliver:.0f} |"
        )


if __name__ == "__main__":
    typer.run(main)
