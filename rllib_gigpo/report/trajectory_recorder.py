"""Trajectories of an iteration as text, with the credit of every step: what `rllib report` shows."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_gigpo.columns import (
    ANCHOR_STATE,
    ENDING,
    GROUP_ID,
    INVALID_REASON,
    MEMBER,
    RESPONSE_IDS,
    TASK,
    TASK_ID,
    WON,
)
from rllib_gigpo.images import observation_image, observation_text
from rllib_gigpo.report.record_files import record_file
from rllib_gigpo.report.recorded_images import IMAGES_FOLDER, RecordedImages
from rllib_gigpo.rl_modules.model_directory import load_tokenizer
from rllib_gigpo.rows import StepRows, TokenRows

logger = logging.getLogger(__name__)


class TrajectoryRecorder:
    """Writes some rollout groups of each iteration to `<folder>/iteration_<number>.jsonl.gz`, a trajectory a line.

    A line is an object with group_id, member, task, task_id, agent, module, ending, won, return, and `steps`: a list of
    objects with observation, image (the name of a file in `<folder>/images` without its ending, where the observation
    has one that was kept, see `RecordedImages`), anchor_state (where the environment has one), response, action,
    invalid_reason (null for a valid action), reward, in_loss, advantage, and what else the algorithm says about its
    credit. Of an algorithm that compares steps also anchor (equal where a group has seen equal anchor states) and
    anchor_size (steps of the group that saw it). The groups are those with the lowest ids: which ones are written
    depends on nothing that happened in them.

    Args:
        folder: Made when the first iteration is written.
        num_groups: Groups written of each iteration.
        model_path: Model directory of a module id, whose tokenizer decodes the responses.
        has_anchors: Whether anchor states were grouped.
    """

    def __init__(
        self, folder: Path, *, num_groups: int, model_path: Callable[[str | None], str | Path], has_anchors: bool
    ):
        self.folder = folder
        self._num_groups = num_groups
        self._tokenizer = cache(lambda module_id: load_tokenizer(model_path(module_id)))
        self._has_anchors = has_anchors

    def record(
        self,
        iteration: int,
        episodes: Sequence[SingleAgentEpisode],
        step_rows: StepRows,
        token_rows: TokenRows,
        credit: Mapping[str, np.ndarray],
    ) -> None:
        """Writes an iteration; a file of an earlier try of the same iteration is replaced.

        Where it cannot be written, a warning says so: training goes on.

        Args:
            iteration: Its number.
            episodes: All of them, in the order of the rows.
            step_rows: T rows.
            token_rows: The same T rows, with their advantages.
            credit: Further columns by name, float32[T] each.
        """
        groups = sorted({episode.get_infos(0)[GROUP_ID] for episode in episodes})[: self._num_groups]
        columns = {"advantage": row_advantages(token_rows), **credit}
        path = record_file(self.folder, iteration)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # A process that is killed meanwhile leaves no half file under the final name.
            unfinished = path.with_name(f".{path.name}.unfinished")
            with gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=4) as file:
                for record in self._records(episodes, frozenset(groups), step_rows, token_rows, columns):
                    file.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
            unfinished.replace(path)
        except OSError as error:
            logger.warning("the trajectories of iteration %d could not be written to %s: %s", iteration, path, error)

    def _records(
        self,
        episodes: Sequence[SingleAgentEpisode],
        groups: frozenset[Any],
        step_rows: StepRows,
        token_rows: TokenRows,
        columns: Mapping[str, np.ndarray],
    ) -> Iterator[dict[str, Any]]:
        images = RecordedImages(self.folder / IMAGES_FOLDER)
        _, anchors, sizes = np.unique(step_rows.anchor_ids, return_inverse=True, return_counts=True)
        first = 0
        for episode in episodes:
            rows = range(first, first + len(episode))
            first += len(episode)
            if episode.get_infos(0)[GROUP_ID] not in groups:
                continue
            yield _about(episode) | {
                "steps": [
                    self._step(episode, t, images)
                    | (
                        {"anchor": int(anchors[row]), "anchor_size": int(sizes[anchors[row]])}
                        if self._has_anchors
                        else {}
                    )
                    | {"in_loss": bool(token_rows.in_loss[row])}
                    | {name: round(float(column[row]), 6) for name, column in columns.items()}
                    for t, row in enumerate(rows)
                ]
            }

    def _step(self, episode: SingleAgentEpisode, t: int, images: RecordedImages) -> dict[str, Any]:
        response = episode.get_extra_model_outputs(RESPONSE_IDS, t)
        image = observation_image(episode.get_observations(t))
        anchor_state = episode.get_infos(t).get(ANCHOR_STATE)
        return {
            "observation": _shown(episode.get_observations(t)),
            **({"image": image.key} if image is not None and images.keep(image) else {}),
            **({} if anchor_state is None else {"anchor_state": _shown(anchor_state)}),
            "response": self._tokenizer(episode.module_id).decode(response),
            "action": _shown(episode.get_actions(t)),
            "invalid_reason": episode.get_infos(t + 1).get(INVALID_REASON),
            "reward": float(episode.get_rewards(t)),
        }


def row_advantages(token_rows: TokenRows) -> np.ndarray:
    """float32[T], the advantage of each row; where every token has its own, their mean."""
    if token_rows.token_advantages is None:
        return token_rows.advantages
    first = np.cumsum(token_rows.response_lengths) - token_rows.response_lengths
    sums: np.ndarray = np.add.reduceat(token_rows.token_advantages, first)
    return sums / token_rows.response_lengths


def _about(episode: SingleAgentEpisode) -> dict[str, Any]:
    start, end = episode.get_infos(0), episode.get_infos(-1)
    return {
        "group_id": start[GROUP_ID],
        "member": start[MEMBER],
        "task": start[TASK],
        "task_id": start.get(TASK_ID),
        "agent": episode.agent_id,
        "module": episode.module_id,
        "ending": end.get(ENDING),
        "won": bool(end.get(WON, False)),
        "return": float(episode.get_return()),
    }


def _shown(value: Any) -> Any:
    """Text as it is; of anything else, what it is."""
    if value is None or isinstance(value, str):
        return value
    if (image := observation_image(value)) is not None:
        return f"{observation_text(value)}\n[{image}]".lstrip()
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype}, shape {value.shape}"
    return str(value)
