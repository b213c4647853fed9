"""Configuration of the guards."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self

from ray.rllib.algorithms.algorithm_config import NotProvided

from rllib_gigpo.algorithms.group_policy.guards import GuardLimits
from rllib_gigpo.algorithms.group_policy.language_agent_config import LanguageAgentConfig


class GuardedConfig(LanguageAgentConfig):
    """A config whose training is watched by `Guards`."""

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        # guards()
        limits = GuardLimits()
        self.max_non_finite_steps: int | None = limits.max_non_finite_steps
        self.min_entropy: float | None = limits.min_entropy
        self.max_length_growth: float | None = limits.max_length_growth
        self.min_valid_action_ratio: float | None = limits.min_valid_action_ratio
        self.max_kl: float | None = limits.max_kl
        self.stop_on_guards: Collection[str] = limits.stop_on_guards

    def guards(
        self,
        *,
        max_non_finite_steps: int | None = NotProvided,
        min_entropy: float | None = NotProvided,
        max_length_growth: float | None = NotProvided,
        min_valid_action_ratio: float | None = NotProvided,
        max_kl: float | None = NotProvided,
        stop_on_guards: Collection[str] = NotProvided,
    ) -> Self:
        """Sets what is worth a warning, with what to try, and what ends the run; None switches a guard off.

        An optimizer step whose loss or gradient is not finite is never taken, whatever is set here. All guards but that
        one look at means over three iterations.

        Args:
            max_non_finite_steps: So many such steps in a row end the run.
            min_entropy: Of the sampling distribution, nats per response token, as long as tasks are lost.
            max_length_growth: Mean length of a response, as a multiple of that of the first three iterations.
            min_valid_action_ratio: Share of valid actions, as a fraction of the best so far.
            max_kl: KL to the policy before the update, and to the reference policy, nats per response token.
            stop_on_guards: Names of guards that end the run: "entropy_collapse", "length_blowup",
                "valid_action_collapse", "kl_runaway".
        """
        names = stop_on_guards
        return self._set(
            max_non_finite_steps=max_non_finite_steps,
            min_entropy=min_entropy,
            max_length_growth=max_length_growth,
            min_valid_action_ratio=min_valid_action_ratio,
            max_kl=max_kl,
            stop_on_guards=tuple(sorted(names, key=str)) if isinstance(names, set | frozenset | list) else names,
        )

    def guard_limits(self) -> GuardLimits:
        """What `Guards` take."""
        return GuardLimits(
            max_non_finite_steps=self.max_non_finite_steps,
            min_entropy=self.min_entropy,
            max_length_growth=self.max_length_growth,
            min_valid_action_ratio=self.min_valid_action_ratio,
            max_kl=self.max_kl,
            stop_on_guards=tuple(self.stop_on_guards),
        )
