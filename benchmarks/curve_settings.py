"""What the learning curves compare: suites × algorithms × settings × seeds, and the order in which they run.

A new algorithm is a line in ALGORITHMS, a new environment one in SUITES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

SEEDS = (0, 1, 2, 3, 4)
PANEL_SIZE = 128

CLIP_OF_RATIO = {"token": 0.2, "sequence": 0.02}

# (ratios, advantage_std_floor), in the order in which a suite runs them.
STAGES = (
    (("token", "sequence"), 1.0),
    (("token",), 0.0),
    (("sequence",), 0.0),
)


@dataclass(frozen=True)
class Choice:
    """An algorithm, and which of the settings make sense for it.

    Attributes:
        ratios: Those it is run with.
        floors: The values of advantage_std_floor it is run with.
        settings: Further arguments of `training()`; each is a series of runs of its own.
    """

    ratios: tuple[str, ...] = ("token", "sequence")
    floors: tuple[float, ...] = (0.0, 1.0)
    settings: tuple[Mapping[str, Any], ...] = field(default=({},))


@dataclass(frozen=True)
class Suite:
    """An environment, and what all runs in it share.

    Attributes:
        environment: Registered name; the embedded model of that name is trained.
        iterations: Training iterations of a run.
        training: Arguments of `training()`, the same for every algorithm.
        env_config: Options of the environment.
        algorithms: By name; None: all of ALGORITHMS.
    """

    environment: str
    iterations: int
    training: Mapping[str, Any]
    env_config: Mapping[str, Any] = field(default_factory=dict)
    algorithms: Mapping[str, Choice] | None = None


ALGORITHMS = {
    "GRPO": Choice(),
    "GiGPO": Choice(),
}

# For models of 0.4 million parameters; the sizes and rates of tuned_examples/gigpo/*_text_tiny.py.
_SHARED = {"group_size": 8, "num_minibatches": 4, "adam_betas": (0.9, 0.95), "weight_decay": 0.0}

SUITES = {
    "ezpoints": Suite("EZPoints", iterations=40, training={**_SHARED, "groups_per_iteration": 8, "lr": 3e-4}),
    "household": Suite("Household", iterations=30, training={**_SHARED, "groups_per_iteration": 16, "lr": 5e-4}),
    # So few steps that hardly anybody wins at first: what groups differ in is their number of invalid actions.
    "household_six_steps": Suite(
        "Household",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 5e-4},
        env_config={"max_steps": 6},
        algorithms={"GRPO": Choice(ratios=("token",)), "GiGPO": Choice(ratios=("token",))},
    ),
    # On ALFWorld's own engine, which the extra `alfworld` installs.
    "alfworld": Suite(
        "ALFWorldTiny",
        iterations=20,
        training={**_SHARED, "groups_per_iteration": 8, "num_minibatches": 2, "lr": 5e-4},
        algorithms={
            "GiGPO": Choice(ratios=("token",), floors=(1.0,)),
            "GRPO": Choice(ratios=("token",), floors=(1.0,)),
        },
    ),
}


@dataclass(frozen=True)
class Run:
    """One training run. Equal fields, equal run.

    Attributes:
        setting: Further arguments of `training()` as text, "lambda_=0.5, gamma=0.9"; empty for none.
    """

    suite: str
    algorithm: str
    ratio: str
    advantage_std_floor: float
    seed: int
    setting: str = ""

    @property
    def id(self) -> str:
        """Names the run on a command line and in the output."""
        parts = (self.suite, self.algorithm, self.ratio, f"floor={self.advantage_std_floor}", f"seed={self.seed}")
        return "/".join((*parts, self.setting) if self.setting else parts)

    def config(self) -> AlgorithmConfig:
        """The configuration of the run: in one process, as small models learn fastest.

        Runs of a suite with equal seeds get the same tasks, whatever the algorithm.
        """
        from rllib_gigpo.env_adapters import embedded_model_path
        from rllib_gigpo.registry import algorithm_class

        suite, clip = SUITES[self.suite], CLIP_OF_RATIO[self.ratio]
        return (
            algorithm_class(self.algorithm)
            .get_default_config()
            .environment(suite.environment, env_config=dict(suite.env_config))
            .language_model(model_path=str(embedded_model_path(suite.environment)))
            .generation(max_prompt_tokens=160, max_response_tokens=32)
            .training(**suite.training)
            .training(ratio=self.ratio, clip_low=clip, clip_high=clip, advantage_std_floor=self.advantage_std_floor)
            .training(**self._further_arguments())
            .evaluation(evaluation_duration=PANEL_SIZE)
            .env_runners(num_env_runners=0)
            .learners(num_learners=0)
            .debugging(seed=self.seed)
        )

    def _further_arguments(self) -> Mapping[str, Any]:
        settings = _algorithms(self.suite)[self.algorithm].settings
        return {setting_text(setting): setting for setting in settings}[self.setting]


def _algorithms(suite: str) -> Mapping[str, Choice]:
    own = SUITES[suite].algorithms
    return ALGORITHMS if own is None else own


def setting_text(setting: Mapping[str, Any]) -> str:
    """{"lambda_": 0.5, "gamma": 0.9} as "lambda_=0.5, gamma=0.9"."""
    return ", ".join(f"{key}={value}" for key, value in setting.items())


def planned_runs(suite: str) -> Iterator[Run]:
    """All runs of a suite; within a stage seed by seed, so that runs to compare finish together."""
    for ratios, floor in STAGES:
        for seed in SEEDS:
            for ratio in ratios:
                for algorithm, choice in _algorithms(suite).items():
                    if ratio in choice.ratios and floor in choice.floors:
                        for setting in choice.settings:
                            yield Run(suite, algorithm, ratio, floor, seed, setting_text(setting))


def planned_run(run_id: str) -> Run:
    """The planned run with that id. Raises ValueError if there is none."""
    runs = {run.id: run for suite in SUITES for run in planned_runs(suite)}
    if run_id not in runs:
        raise ValueError(f"no planned run is called {run_id!r}; one is {next(iter(runs))!r}")
    return runs[run_id]
