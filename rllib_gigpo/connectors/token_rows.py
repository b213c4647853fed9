"""Group connector piece: whole rollout groups become step rows for credit assignment and token rows for the learner."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import (
    IS_ACTION_VALID,
    PROMPT_IDS,
    PROMPT_IMAGES,
    RESPONSE_IDS,
    ROLLOUT_LOGP,
    WEIGHTS_VERSION,
)
from rllib_gigpo.connectors.anchor_states import ANCHOR_IDS
from rllib_gigpo.connectors.credit_groups import credit_group_id
from rllib_gigpo.images import StoredImage
from rllib_gigpo.rows import StepRows, TokenRows

STEP_ROWS = "step_rows"  # batch: StepRows
TOKEN_ROWS = "token_rows"  # batch: TokenRows


class TokenRowPacking(ConnectorV2):
    """Packs T steps of all episodes, in order, into batch[STEP_ROWS] and batch[TOKEN_ROWS] (advantages still zero).

    Reads batch[ANCHOR_IDS]; without it every step is its own anchor state.
    """

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
        lengths = np.array([len(episode) for episode in episodes], np.int64)
        total = int(lengths.sum())
        invalid = [not e.get_infos(t + 1)[IS_ACTION_VALID] for e in episodes for t in range(len(e))]
        terminated = np.zeros(total, bool)
        terminated[np.cumsum(lengths) - 1] = [episode.is_terminated for episode in episodes]
        responses = _column(episodes, RESPONSE_IDS)
        step_rows = StepRows(
            rewards=np.array([r for e in episodes for r in e.get_rewards()], np.float32),
            invalid=np.array(invalid, bool),
            trajectory_ids=np.repeat(np.arange(len(episodes)), lengths),
            group_ids=np.repeat(np.array([credit_group_id(e) for e in episodes], np.int64), lengths),
            anchor_ids=batch.get(ANCHOR_IDS, np.arange(total)),
            terminated=terminated,
            response_lengths=np.array([len(response) for response in responses], np.int64),
        )
        token_rows = TokenRows.from_lists(
            _column(episodes, PROMPT_IDS),
            responses,
            _column(episodes, ROLLOUT_LOGP),
            weights_version=np.array(_column(episodes, WEIGHTS_VERSION), np.int64),
            module_ids=_module_ids(episodes, lengths),
            images=_images(episodes),
        )
        return batch | {STEP_ROWS: step_rows, TOKEN_ROWS: token_rows}


def _module_ids(episodes: list[SingleAgentEpisode], lengths: np.ndarray) -> np.ndarray | None:
    """The module of each row, str[T]; None in single-agent environments, which have one."""
    if not episodes or episodes[0].module_id is None:
        return None
    return np.repeat(np.array([str(episode.module_id) for episode in episodes]), lengths)


def _images(episodes: list[SingleAgentEpisode]) -> list[tuple[StoredImage, ...]] | None:
    """Of each step; None where the env runner gave none."""
    if any(PROMPT_IMAGES not in episode.extra_model_outputs for episode in episodes):
        return None
    return _column(episodes, PROMPT_IMAGES)


def _column(episodes: list[SingleAgentEpisode], key: str) -> list[Any]:
    """Values of an extra model output over all steps of all episodes, in order."""
    return [value for episode in episodes for value in episode.get_extra_model_outputs(key)]
