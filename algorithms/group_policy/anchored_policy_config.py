"""Configuration that the algorithms share which compare steps taken from the same anchor state."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy.group_policy_config import GroupPolicyConfig
from rllib_gigpo.connectors.anchor_states import Anchor, AnchorStateGrouping
from rllib_gigpo.connectors.image_grouping import check_image_tolerance
from rllib_gigpo.connectors.similarity_grouping import Similarity, check_similarity


class AnchoredPolicyConfig(GroupPolicyConfig):
    """Base of the configs of GiGPO and GAGPO; not an algorithm by itself."""

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.anchor: Anchor = "auto"
        self.similarity_threshold: float | None = None
        self.similarity: Similarity = "indel"
        self.image_tolerance: float | None = None

    @override(GroupPolicyConfig)
    def training(
        self,
        *,
        anchor: Anchor = NotProvided,
        similarity_threshold: float | None = NotProvided,
        similarity: Similarity = NotProvided,
        image_tolerance: float | None = NotProvided,
        **kwargs: Any,
    ) -> AnchoredPolicyConfig:
        """Sets the training parameters.

        Args:
            anchor: What makes two steps comparable: "observation", the environment's own "anchor_state", "auto" (the
                latter where the environment gives it, else the former), or a function (observation, info) -> key.
            similarity_threshold: Texts at least this similar, in (0, 1], count as the same anchor state. None: only
                equal ones.
            similarity: "indel" compares by the longest common subsequence, and the order of rows does not matter;
                "difflib" groups as the published GiGPO code does. See `connectors.similarity_grouping`.
            image_tolerance: Pictures count as the same anchor state where no block of 8 × 8 pixels differs by more
                levels (of 0 … 255) in its mean. None: only equal ones. See `connectors.image_grouping`.
            kwargs: As in `GroupPolicyConfig.training`.
        """
        super().training(**kwargs)
        self._set(anchor=anchor, similarity_threshold=similarity_threshold, similarity=similarity)
        return self._set(image_tolerance=image_tolerance)

    @override(GroupPolicyConfig)
    def validate(self) -> None:
        super().validate()
        if not callable(self.anchor) and self.anchor not in ("auto", "observation", "anchor_state"):
            self._value_error(
                f"anchor={self.anchor!r} is unknown; choose 'auto', 'observation', 'anchor_state' or a function."
            )
        try:
            check_similarity(self.similarity_threshold, self.similarity)
            check_image_tolerance(self.image_tolerance)
        except ValueError as problem:
            self._value_error(str(problem))

    @override(GroupPolicyConfig)
    def anchor_connectors(self) -> list[ConnectorV2]:
        return [
            AnchorStateGrouping(
                anchor=self.anchor,
                similarity_threshold=self.similarity_threshold,
                similarity=self.similarity,
                image_tolerance=self.image_tolerance,
            )
        ]
