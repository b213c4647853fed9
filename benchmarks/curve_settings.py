"""What the learning curves compare: suites × variants of algorithms × seeds, and the order in which they run.

A new algorithm is a line in a stage, a new environment one in SUITES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

SEEDS = (0, 1, 2, 3, 4)
PANEL_SIZE = 128

CLIP_OF_RATIO = {"token": (0.2, 0.2), "sequence": (0.02, 0.02)}

# Arguments of `multi_agent()`, by what a variant's `modules` calls them.
MODULES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "shared": {},
    "own": {"policies": {"finder", "placer"}, "policy_mapping_fn": lambda agent_id, episode, **kwargs: agent_id},
}


@dataclass(frozen=True)
class Variant:
    """An algorithm with its settings: a series of runs that differ in the seed.

    Attributes:
        algorithm: Registered name.
        ratio: "token" or "sequence".
        advantage_std_floor: Of `training()`.
        setting: Further arguments of `training()`, those that tell variants of the algorithm apart.
        needs: Further arguments of `training()` without which the algorithm would not work on this scale.
        clip: (clip_low, clip_high) where they are not those of the ratio.
        modules: Of several agents: "shared", one for all, or "own", one each. Empty for a single agent.
    """

    algorithm: str
    ratio: str
    advantage_std_floor: float
    setting: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    clip: tuple[float, float] | None = None
    modules: str = ""

    @property
    def text(self) -> str:
        """What tells the variant from the others of its algorithm, ratio and floor: "lambda_=0.5, gamma=0.9"."""
        return setting_text({**self.setting, "modules": self.modules} if self.modules else self.setting)

    @property
    def clips(self) -> tuple[float, float]:
        """(clip_low, clip_high)"""
        return CLIP_OF_RATIO[self.ratio] if self.clip is None else self.clip


def _crossed(ratios: tuple[str, ...], floor: float) -> tuple[Variant, ...]:
    """The algorithms whose ratio and floor the curves vary."""
    return tuple(Variant(name, ratio, floor) for ratio, name in product(ratios, ("GRPO", "GiGPO")))


# Dynamic sampling ends a late iteration, in which few groups have a signal, after so many rounds.
_ROUNDS = {"max_sampling_rounds": 5}
# A critic that starts from nothing, and returns of up to 10.
_CRITIC = {"gamma": 0.95, "lambda_": 0.95, "critic_lr": 3e-3, "value_clip": None}

# With the ratio and clip that are part of what they are, once each. Where returns within a group are divided by their
# standard deviation, it has the floor of the first stage; RLOO divides by nothing.
OTHER_ALGORITHMS = (
    Variant("GAGPO", "sequence", 1.0),
    Variant("RLOO", "token", 0.0),
    Variant("GSPO", "sequence", 1.0),
    Variant("REINFORCEPlusPlus", "token", 1.0),
    Variant("PPO", "token", 1.0, needs=_CRITIC),
    Variant("DAPO", "token", 1.0, needs=_ROUNDS, clip=(0.2, 0.28)),
    Variant("GiGPO", "token", 1.0, {"dynamic_sampling": True}, needs=_ROUNDS, clip=(0.2, 0.28)),
)
LAMBDAS = tuple(Variant("GAGPO", "sequence", 1.0, {"lambda_": lambda_}) for lambda_ in (0.0, 0.5, 1.0))

# A stage is finished for all seeds before the next one begins.
STAGES = (_crossed(("token", "sequence"), 1.0), OTHER_ALGORITHMS)


# With a constant learning rate runs on Household keep falling back late, whatever the algorithm. By environment steps:
# 30 iterations take about as many as this needs to reach its end.
_DECAY = {"lr": [[0, 5e-4], [40_000, 5e-5]]}
HOUSEHOLD_STAGES = (
    STAGES[0],
    (Variant("GiGPO", "sequence", 1.0, _DECAY), Variant("GRPO", "sequence", 1.0, _DECAY)),
)


@dataclass(frozen=True)
class Suite:
    """An environment, and what all runs in it share.

    Attributes:
        environment: Registered name; the embedded model for it and its options is trained.
        iterations: Training iterations of a run.
        training: Arguments of `training()`, the same for every algorithm.
        env_config: Options of the environment.
        stages: The variants, in the order in which they run.
        seeds: Of the runs.
        max_prompt_tokens: A longer prompt loses its oldest turns.
        max_response_tokens: A longer response is cut there.
    """

    environment: str
    iterations: int
    training: Mapping[str, Any]
    env_config: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[tuple[Variant, ...], ...] = STAGES
    seeds: tuple[int, ...] = SEEDS
    max_prompt_tokens: int = 160
    max_response_tokens: int = 32


# For models of 0.4 million parameters; the sizes and rates of tuned_examples/gigpo/*_text_tiny.py.
_SHARED = {"group_size": 8, "num_minibatches": 4, "adam_betas": (0.9, 0.95), "weight_decay": 0.0}

SUITES = {
    "ezpoints": Suite(
        "EZPoints",
        iterations=40,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 3e-4},
        stages=(*STAGES, LAMBDAS, _crossed(("token",), 0.0)),
    ),
    "household": Suite(
        "Household",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 16, "lr": 5e-4},
        stages=HOUSEHOLD_STAGES,
    ),
    # All algorithms, with half the groups and two thirds of the iterations: nine runs a seed.
    "household_short": Suite(
        "Household",
        iterations=20,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 5e-4},
        stages=((*_crossed(("token",), 1.0), *OTHER_ALGORITHMS),),
    ),
    # So few steps that hardly anybody wins at first: what groups differ in is their number of invalid actions.
    "household_six_steps": Suite(
        "Household",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 5e-4},
        env_config={"max_steps": 6},
        stages=(
            (
                Variant("GRPO", "token", 1.0),
                Variant("GRPO", "token", 0.0),
                Variant("GRPO", "token", 0.0, {"invalid_action_penalty": 0.0}),
            ),
            (Variant("GiGPO", "token", 1.0),),
        ),
    ),
    # Long, rewarded at the end only, and full of loops: three in five steps are from a state that the trajectory has
    # been in. All have GAGPO's ratio and aggregation, so that they differ in the advantage alone.
    "step_credit": Suite(
        "Household",
        iterations=25,
        training={
            **_SHARED,
            "groups_per_iteration": 8,
            "lr": 5e-4,
            "loss_aggregation": "sequence-mean-token-mean",
        },
        env_config={"in_a_row": True, "max_steps": 25},
        stages=((*_crossed(("sequence",), 1.0), Variant("GAGPO", "sequence", 1.0)),),
    ),
    "relay_household": Suite(
        "RelayHousehold",
        iterations=10,
        training={**_SHARED, "groups_per_iteration": 16, "lr": 5e-4},
        stages=(tuple(Variant("GiGPO", "sequence", 1.0, modules=modules) for modules in ("shared", "own")),),
    ),
    # The model cannot see walls, and wins some levels of many: a curve here rises slowly, and not far.
    "sokoban": Suite(
        "Sokoban",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 16, "lr": 5e-4},
        # EASY_LEVELS of the adapter, which its model was warmed up on.
        env_config={"min_solution_length": 4, "max_solution_length": 6, "max_steps": 8},
        stages=(_crossed(("token",), 1.0),),
    ),
    # From pictures, with a vision-language model.
    "ezpoints_image": Suite(
        "EZPoints",
        iterations=70,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 3e-4},
        env_config={"observation": "image", "image_size": 56},  # SMALL_PICTURES of the adapter
        stages=(_crossed(("token",), 1.0),),
        seeds=SEEDS[:3],
    ),
    "sokoban_image": Suite(
        "Sokoban",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 16, "lr": 3e-4},
        # EASY_PICTURES of the adapter, without the published -0.1 a step.
        env_config={
            "observation": "image",
            "min_solution_length": 2,
            "max_solution_length": 4,
            "max_steps": 6,
            "step_reward": 0.0,
        },
        stages=(_crossed(("sequence",), 1.0),),
        seeds=SEEDS[:3],
        max_response_tokens=48,
    ),
    # On ALFWorld's own engine, which the extra `alfworld` installs.
    "alfworld": Suite(
        "ALFWorldTiny",
        iterations=30,
        training={**_SHARED, "groups_per_iteration": 8, "num_minibatches": 2, "lr": 5e-4},
        stages=((Variant("GiGPO", "token", 1.0),), (Variant("GRPO", "token", 1.0),)),
    ),
    # A win is worth 1 here, and an invalid action costs a hundredth of that, as in the paper: hence the lower floor.
    "search_qa": Suite(
        "SearchQA",
        iterations=20,
        training={**_SHARED, "groups_per_iteration": 8, "lr": 5e-4, "invalid_action_penalty": 0.01},
        # TINY_OPTIONS of the adapter, which its model was warmed up on.
        env_config={"topk": 1, "hops": 2},
        stages=(_crossed(("token",), 0.1),),
        seeds=SEEDS[:3],
        max_prompt_tokens=512,
    ),
}


@dataclass(frozen=True)
class Run:
    """One training run. Equal fields, equal run.

    Attributes:
        setting: That of the variant as text, "lambda_=0.5, gamma=0.9"; empty for none.
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

        Runs of a suite with equal seeds get the same tasks, whatever the algorithm; dynamic sampling gets further ones.
        """
        from rllib_gigpo.env_adapters import embedded_model_path
        from rllib_gigpo.registry import algorithm_class

        suite = SUITES[self.suite]
        variant = variant_of(self.suite, self.algorithm, self.ratio, self.advantage_std_floor, self.setting)
        clip_low, clip_high = variant.clips
        return (
            algorithm_class(self.algorithm)
            .get_default_config()
            .environment(suite.environment, env_config=dict(suite.env_config))
            .language_model(model_path=str(embedded_model_path(suite.environment, **suite.env_config)))
            .generation(max_prompt_tokens=suite.max_prompt_tokens, max_response_tokens=suite.max_response_tokens)
            .training(**suite.training)
            .training(ratio=self.ratio, clip_low=clip_low, clip_high=clip_high)
            .training(advantage_std_floor=self.advantage_std_floor)
            .training(**variant.needs, **variant.setting)
            .multi_agent(**MODULES[variant.modules])
            .evaluation(evaluation_duration=PANEL_SIZE)
            .env_runners(num_env_runners=0)
            .learners(num_learners=0)
            .debugging(seed=self.seed)
        )


def setting_text(setting: Mapping[str, Any]) -> str:
    """{"lambda_": 0.5, "gamma": 0.9} as "lambda_=0.5, gamma=0.9"."""
    return ", ".join(f"{key}={value}" for key, value in setting.items())


def variant_of(suite: str, algorithm: str, ratio: str, floor: float, setting: str) -> Variant:
    """The variant with these factors. Raises ValueError if the suite has none."""
    for stage in SUITES[suite].stages:
        for variant in stage:
            found = (variant.algorithm, variant.ratio, variant.advantage_std_floor, variant.text)
            if found == (algorithm, ratio, floor, setting):
                return variant
    raise ValueError(f"suite {suite!r} has no variant {algorithm!r}, {ratio!r}, floor {floor}, setting {setting!r}")


def planned_runs(suite: str) -> Iterator[Run]:
    """All runs of a suite; within a stage seed by seed, so that runs to compare finish together."""
    for stage in SUITES[suite].stages:
        for seed, variant in product(SUITES[suite].seeds, stage):
            yield Run(suite, variant.algorithm, variant.ratio, variant.advantage_std_floor, seed, variant.text)


def planned_run(run_id: str) -> Run:
    """The planned run with that id. Raises ValueError if there is none."""
    runs = {run.id: run for suite in SUITES for run in planned_runs(suite)}
    if run_id not in runs:
        raise ValueError(f"no planned run is called {run_id!r}; one is {next(iter(runs))!r}")
    return runs[run_id]
