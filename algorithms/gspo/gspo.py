"""GSPO: GRPO's advantage with one importance ratio per response."""

from __future__ import annotations

from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.grpo.grpo import GRPO, GRPOConfig


class GSPOConfig(GRPOConfig):
    """Configures GSPO (Zheng et al. 2025, arXiv 2507.18071) for multi-turn agents.

    Example:
        >>> from rllib_gigpo.algorithms.gspo import GSPOConfig
        >>> config = GSPOConfig().environment("EZPoints").training(group_size=8, groups_per_iteration=16, lr=1e-6)
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or GSPO)
        self.ratio = "sequence"
        # The paper's 3e-4 and 4e-4 are for responses of thousands of tokens: the mean over a response moves the less
        # the longer it is.
        self.clip_low = 0.02
        self.clip_high = 0.02
        self.loss_aggregation = "sequence-mean-token-mean"


class GSPO(GRPO):
    """Group sequence policy optimization: a response is clipped as a whole."""

    config: GSPOConfig

    @classmethod
    @override(GRPO)
    def get_default_config(cls) -> GSPOConfig:
        return GSPOConfig()
