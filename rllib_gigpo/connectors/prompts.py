"""Environment-to-module connectors: what the episode shows becomes prompt token ids.

They are called for one episode at a time and hold no state: what a piece remembers lives in the episode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.agent_formats.agent_format import HistoryLength
from rllib_gigpo.agent_formats.chat import Examples, encode_prompt, encode_prompt_with_images
from rllib_gigpo.agent_formats.image_marks import image_mark
from rllib_gigpo.agent_formats.prompt_template import PromptTemplate, Turn
from rllib_gigpo.columns import ADMISSIBLE_ACTIONS, PROMPT_IDS, PROMPT_IMAGES
from rllib_gigpo.images import StoredImage, observation_image, observation_text

HISTORY = "history"  # shared_data: list[EarlierStep], oldest first
DROPPED_TURNS = "dropped_turns"  # batch: int, turns of the history that did not fit into the prompt
PROMPT_OVERFLOW = "prompt_overflow"  # batch: bool, the prompt does not fit even without history


class EarlierStep(NamedTuple):
    """What the agent was shown before, as the environment gave it, and the parsed action that it took there."""

    observation: Any
    action: str


class HistoryMemory(ConnectorV2):
    """Puts the last `history_length` turns before the current observation into the shared data; all, for "full"."""

    def __init__(self, *, history_length: HistoryLength, **kwargs: Any):
        super().__init__(**kwargs)
        self.history_length = history_length

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[SingleAgentEpisode],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        episode = episodes[0]
        length = len(episode) if self.history_length == "full" else self.history_length
        steps = range(max(0, len(episode) - length), len(episode))
        if shared_data is not None:
            shared_data[HISTORY] = [EarlierStep(episode.get_observations(t), episode.get_actions(t)) for t in steps]
        return batch


class PromptBuilder(ConnectorV2):
    """Renders the prompt and encodes it with the module's tokenizer and chat template.

    A prompt over `max_prompt_tokens` loses its oldest turns of history first, as few as possible; the task and the
    current observation always stay. Where they alone do not fit, the batch says so instead of holding a cut prompt.

    Images take as many ids of the prompt as they are tokens to the model, and count as many towards the limit.

    Output: batch[PROMPT_IDS] int32[P] and batch[PROMPT_IMAGES] (both absent on overflow), batch[DROPPED_TURNS],
    batch[PROMPT_OVERFLOW].
    """

    def __init__(self, *, prompt_template: str, max_prompt_tokens: int, examples: Examples = (), **kwargs: Any):
        super().__init__(**kwargs)
        self.template = PromptTemplate(prompt_template)
        self.examples = examples
        self.max_prompt_tokens = max_prompt_tokens

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[SingleAgentEpisode],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        history: list[EarlierStep] = (shared_data or {}).get(HISTORY, [])
        for dropped in range(len(history) + 1):
            prompt_ids, images = self._encode(rl_module, episodes[0], history[dropped:])
            if len(prompt_ids) <= self.max_prompt_tokens:
                prompt = {PROMPT_IDS: prompt_ids, PROMPT_IMAGES: images}
                return batch | prompt | {DROPPED_TURNS: dropped, PROMPT_OVERFLOW: False}
        return batch | {DROPPED_TURNS: len(history), PROMPT_OVERFLOW: True}

    def _encode(
        self, rl_module: Any, episode: SingleAgentEpisode, history: list[EarlierStep]
    ) -> tuple[np.ndarray, tuple[StoredImage, ...]]:
        """The prompt's ids, int32[P], and the images that it shows."""
        observation, info = episode.get_observations(-1), episode.get_infos(-1)
        images: list[StoredImage] = []
        turns = [
            Turn(observation_text(earlier.observation), earlier.action, _mark(earlier.observation, images))
            for earlier in history
        ]
        try:
            message = self.template.render(
                observation=observation_text(observation),
                image=_mark(observation, images),
                history=turns,
                step=len(episode),
                task=info.get("task_description"),
                admissible_actions=info.get(ADMISSIBLE_ACTIONS),
            )
        except Exception as error:  # a template computes: it may divide by zero, or ask for a file
            raise ValueError(f"prompt_template cannot be rendered at step {len(episode)}: {error}") from error
        if not images:
            return encode_prompt(rl_module.tokenizer, message, self.examples), ()
        prompt_ids, order = encode_prompt_with_images(rl_module.tokenizer, message, len(images), self.examples)
        shown = tuple(images[index] for index in order)
        return rl_module.with_image_tokens(prompt_ids, shown), shown


def _mark(observation: Any, images: list[StoredImage]) -> str | None:
    """The mark of an observation's image, which is added to `images`; None where it has none."""
    image = observation_image(observation)
    if image is None:
        return None
    images.append(image)
    return image_mark(len(images) - 1)
