"""Weights of a model directory, read one by one and in part, by the names that they have in the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from rllib_gigpo.rl_modules.model_directory import causal_lm_skeleton

_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"


class WeightFiles:
    """The safetensors of a model directory, opened.

    Args:
        path: The directory.
        sources: By the name of each parameter and persistent buffer of the model: its file, opened, and its name in it.
        unexpected: Names of weights in the files that the model has not.
    """

    def __init__(self, path: Path, sources: dict[str, tuple[Any, str]], unexpected: list[str]):
        self._path = path
        self._sources = sources
        self._unexpected = sorted(unexpected)

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Rows `start` to `stop` of a weight's first dimension, in the type of the file: a copy of these alone."""
        file, key = self._sources[name]
        found: torch.Tensor = file.get_slice(key)[start:stop]
        return found

    def whole(self, name: str) -> torch.Tensor:
        """All of a weight, in the type of the file."""
        file, key = self._sources[name]
        found: torch.Tensor = file.get_tensor(key)
        return found

    def tie(self, first: str, second: str) -> bool:
        """Gives two names of a weight the same source. False where each has its own, and their values differ."""
        if first in self and second in self:
            return torch.equal(self.whole(first), self.whole(second))
        if (source := self._sources.get(first) or self._sources.get(second)) is not None:
            self._sources[first] = self._sources[second] = source
        return True

    def check(self, shapes: Mapping[str, tuple[int, ...]], *, allow_unexpected: bool) -> None:
        """Checks that the files have weights of these names and shapes, and, unless that is allowed, no others.

        Raises:
            ValueError: They have not.
        """
        if missing := sorted(name for name in shapes if name not in self):
            raise ValueError(f"the weights in {self._path} lack {missing[:5]} (first five) of the model")
        for name, shape in shapes.items():
            file, key = self._sources[name]
            if (of_file := tuple(file.get_slice(key).get_shape())) != shape:
                raise ValueError(
                    f"the weights in {self._path} do not fit the model: {name} has shape {of_file} instead of {shape}"
                )
        if self._unexpected and not allow_unexpected:
            raise ValueError(
                f"the weights in {self._path} have {self._unexpected[:5]} (first five), which the model has not"
            )


def open_weight_files(path: str | Path) -> WeightFiles | None:
    """The weights of a model directory; None where only transformers can read them, which makes weights of some models
    out of several of the files', or keeps some in another type than is asked for."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    path = Path(path)
    skeleton = causal_lm_skeleton(path)
    files = [safe_open(file, framework="pt", device="cpu") for file in _safetensors(path)]
    if not files or skeleton._keep_in_fp32_modules_strict:
        return None
    own = skeleton.state_dict()
    conversions = get_model_conversion_mapping(skeleton)
    renamings = [conversion for conversion in conversions if isinstance(conversion, WeightRenaming)]
    mergers = [conversion for conversion in conversions if not isinstance(conversion, WeightRenaming)]
    sources: dict[str, tuple[Any, str]] = {}
    unexpected = []
    for file in files:
        for key in list(file.keys()):
            name, merged_by = rename_source_key(key, renamings, mergers, skeleton.base_model_prefix, own)
            if merged_by is not None:
                return None
            # As transformers does: a name may fit as it is.
            name = key if name not in own and key in own else name
            if name in own:
                sources[name] = (file, key)
            else:
                unexpected.append(name)
    found = WeightFiles(path, sources, unexpected)
    # Transformers does not tie what differs.
    return found if all(found.tie(*names) for names in skeleton.all_tied_weights_keys.items()) else None


def _safetensors(path: Path) -> list[Path]:
    """The files that transformers reads, in whose place others may lie too."""
    if (path / _FILE).is_file():
        return [path / _FILE]
    if not (path / _INDEX).is_file():
        return []
    index = json.loads((path / _INDEX).read_text(encoding="utf-8"))
    return [path / name for name in sorted(set(index["weight_map"].values()))]
