"""How embedded models are warmed up for games that a tiny model learns to read, but not to play, by imitation alone.

Twice: first a model imitates an expert, on states that a half random player gets into: that teaches it to read state
and task. Then it imitates a weak mixture, each action an expert's with some probability, else uniform over the possible
ones: that takes most of the skill away again, leaves the reading, and the game to reinforcement learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rllib_gigpo.agent_formats import AgentFormat
from rllib_gigpo.env_adapters.demonstrations import Game, Response, demonstrations, think_action_response
from rllib_gigpo.rl_modules.embedded import build_causal_lm, build_tokenizer, imitate, save_model, transplant


@dataclass(frozen=True)
class WarmUp:
    """Settings of a warm-up.

    Attributes:
        reading_steps, reading_learning_rate: Of the first part, on the expert's actions.
        weak_expert_probability: With which an action of the second part's player is an expert's.
        weak_steps, weak_learning_rate: Of the second part.
        episodes, weak_episodes: Games played for each part.
        rows_per_situation: How many turns of the first part's games may be in one situation.
        response: How a response is written.
        tags: Strings of that grammar, each a token of its own.
        donor: Directory of the embedded model whose weights it begins with; None for random ones.
        vocab_size: Most tokens that the tokenizer may have.
        seed: Of games, initial weights and batches.
    """

    reading_steps: int
    reading_learning_rate: float
    weak_expert_probability: float
    weak_steps: int
    weak_learning_rate: float
    episodes: int = 3000
    weak_episodes: int = 3000
    rows_per_situation: int = 4000
    response: Response = think_action_response
    tags: tuple[str, ...] = ("<think>", "</think>", "<action>", "</action>")
    donor: Path | None = None
    vocab_size: int = 640
    seed: int = 0


def build(directory: Path, game: Game, agent_format: AgentFormat, warm_up: WarmUp) -> None:
    """Builds tokenizer and model, warms the model up, and writes both to `directory`."""
    reading = list(
        demonstrations(
            game,
            agent_format,
            episodes=warm_up.episodes,
            played_by_expert=0.5,
            shown_by_expert=1.0,
            most_per_situation=warm_up.rows_per_situation,
            response=warm_up.response,
            seed=warm_up.seed,
        )
    )
    weak = list(
        demonstrations(
            game,
            agent_format,
            episodes=warm_up.weak_episodes,
            played_by_expert=warm_up.weak_expert_probability,
            response=warm_up.response,
            seed=warm_up.seed + 1,
        )
    )
    tokenizer = build_tokenizer(
        [text for row in weak for text in row], vocab_size=warm_up.vocab_size, tags=warm_up.tags
    )
    if warm_up.donor is None:
        model = build_causal_lm(tokenizer, seed=warm_up.seed)
    else:
        model = transplant(warm_up.donor, tokenizer, seed=warm_up.seed)
    for rows, steps, learning_rate in (
        (reading, warm_up.reading_steps, warm_up.reading_learning_rate),
        (weak, warm_up.weak_steps, warm_up.weak_learning_rate),
    ):
        losses = imitate(model, tokenizer, rows, steps=steps, learning_rate=learning_rate, seed=warm_up.seed)
        print(f"{steps} steps on {len(rows)} rows: loss {losses[0]:.3f} to {losses[-1]:.3f} nats per token")
    save_model(directory, model, tokenizer)
    print(f"{directory}: {model.num_parameters():,} parameters, {len(tokenizer)} tokens")
