"""Configuration that every group-relative algorithm shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import LearnerConnectorPipeline
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.annotations import override

from rllib_gigpo.algorithms.group_policy import config_checks, multi_agent_checks
from rllib_gigpo.algorithms.group_policy.config_checks import check_keyword_arguments
from rllib_gigpo.algorithms.group_policy.guards_config import GuardedConfig
from rllib_gigpo.algorithms.group_policy.module_specs import with_absolute_paths, with_module_configs
from rllib_gigpo.algorithms.group_policy.scoring import OLD_LOGP, REFERENCE_LOGP
from rllib_gigpo.algorithms.group_policy.self_play import LEARNER, OpponentMapping, self_play_modules
from rllib_gigpo.connectors.token_rows import TokenRowPacking
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.env_runners.multi_agent_group_env_runner import MultiAgentGroupEnvRunner
from rllib_gigpo.environments import is_multi_agent
from rllib_gigpo.learners.reference_policy import is_reference_needed
from rllib_gigpo.rl_modules.lora import LoraSettings

if TYPE_CHECKING:
    from ray.rllib.core.learner.learner import Learner
    from ray.rllib.core.learner.learner_group import LearnerGroup


class GroupPolicyConfig(GuardedConfig):
    """Base of the group-relative algorithms' configs; not an algorithm by itself.

    An iteration rolls out `groups_per_iteration` groups of `group_size` trajectories, turns each environment step into
    one training row, assigns advantages within the groups, and takes `num_epochs * num_minibatches` optimizer steps.
    RLlib's `train_batch_size*` and `minibatch_size` therefore do not apply, and setting them is an error.
    """

    # A group that keeps fewer members than this has nothing to compare with.
    min_group_size = 2
    algorithm_config_overrides_per_module: dict[str, Any]  # RLlib's

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        # training()
        self.group_size = 8
        self.groups_per_iteration = 16
        self.num_minibatches = 1
        self.advantage_norm: Literal["std", "mean"] = "std"
        self.advantage_std_floor = 0.0
        self.invalid_action_penalty = 0.1
        self.reference: Literal["paper", "verl-agent"] = "paper"
        self.train_on_zero_signal_groups: bool | None = None
        self.dynamic_sampling = False
        self.max_sampling_rounds = 10
        self.ratio: Literal["token", "sequence"] = "token"
        self.clip_low = 0.2
        self.clip_high = 0.2
        self.dual_clip: float | None = None
        self.loss_aggregation = "token-mean"
        self.importance_weight_cap: float | None = 2.0
        self.sampler_gap_warning: float | None = 0.1
        self.sampler_gap_limit: float | None = 1.0
        self.kl_coeff: float | list[list[float]] = 0.0
        self.kl_estimator: Literal["k1", "k2", "k3"] = "k3"
        self.kl_in: Literal["loss", "reward"] = "loss"
        self.entropy_coeff = 0.0
        self.micro_batch_tokens = 16_384
        self.optimizer: Literal["adamw", "sgd"] = "adamw"
        self.adam_betas = (0.9, 0.999)
        self.weight_decay = 0.01
        # RLlib's own keys, with defaults that suit language models.
        self.gamma = 0.95
        self.lr = 1e-6
        self.num_epochs = 1
        self.grad_clip = 1.0
        self.grad_clip_by = "global_norm"
        self.evaluation_duration = 128
        self.num_envs_per_env_runner = 128
        self.batch_mode = "complete_episodes"
        self.delay_between_env_runner_restarts_s = 0
        self.env_runner_health_probe_timeout_s = (
            600  # a restarted runner starts a process, an engine, and loads the model
        )
        # Text does not go through RLlib's runner, its tensor connectors, or its sharder.
        self.env_runner_cls = GroupEnvRunner
        self.episodes_to_numpy = False
        self.create_local_env_runner = False
        self._dont_auto_sync_env_runner_states = True
        self.add_default_connectors_to_env_to_module_pipeline = False
        self.add_default_connectors_to_module_to_env_pipeline = False
        self.add_default_connectors_to_learner_pipeline = False
        self._group_connector: Callable[[], ConnectorV2 | list[ConnectorV2]] | None = None
        # self_play()
        self.self_play_agent: str | None = None
        self.past_versions = 3
        self.snapshot_interval = 5

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        group_size: int = NotProvided,
        groups_per_iteration: int = NotProvided,
        num_minibatches: int = NotProvided,
        advantage_norm: str = NotProvided,
        advantage_std_floor: float = NotProvided,
        invalid_action_penalty: float = NotProvided,
        reference: str = NotProvided,
        train_on_zero_signal_groups: bool | None = NotProvided,
        dynamic_sampling: bool = NotProvided,
        max_sampling_rounds: int = NotProvided,
        ratio: str = NotProvided,
        clip_low: float = NotProvided,
        clip_high: float = NotProvided,
        dual_clip: float | None = NotProvided,
        loss_aggregation: str = NotProvided,
        importance_weight_cap: float | None = NotProvided,
        sampler_gap_warning: float | None = NotProvided,
        sampler_gap_limit: float | None = NotProvided,
        kl_coeff: float | list[list[float]] = NotProvided,
        kl_estimator: str = NotProvided,
        kl_in: str = NotProvided,
        entropy_coeff: float = NotProvided,
        micro_batch_tokens: int = NotProvided,
        optimizer: str = NotProvided,
        adam_betas: tuple[float, float] = NotProvided,
        weight_decay: float = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets the training parameters.

        Args:
            group_size: Trajectories per rollout group, N in the papers.
            groups_per_iteration: Rollout groups per training iteration.
            num_minibatches: Optimizer steps per epoch; the rows are split into this many parts, on every learner alike.
            advantage_norm: "std" divides by the standard deviation within the group, "mean" only subtracts the mean.
            advantage_std_floor: Smallest standard deviation to divide by, in units of the reward. Keeps groups that
                differ in nothing but the invalid-action penalty from getting advantages of unit size.
            invalid_action_penalty: Subtracted for each invalid action; episode rewards never hold it.
            reference: "paper" follows the papers, "verl-agent" reproduces the published GiGPO code.
            train_on_zero_signal_groups: Whether groups without any advantage take part in the KL term. None: no with
                the paper reference, yes with "verl-agent".
            dynamic_sampling: Whether an iteration goes on sampling until `groups_per_iteration` groups have advantages,
                and leaves those without any out of the update.
            max_sampling_rounds: How often dynamic sampling samples in an iteration; then it trains on what there is.
            ratio: Importance ratio per "token", or one per response ("sequence", GSPO).
            clip_low: The ratio is clipped below 1 - clip_low. 0.2 suits token ratios, 0.02 sequence ratios.
            clip_high: The ratio is clipped above 1 + clip_high.
            dual_clip: Bounds the loss of negative advantages at this many times the advantage; None is off.
            loss_aggregation: "token-mean", "sequence-mean-token-mean", "sequence-mean-token-sum" or
                "sequence-mean-token-sum-norm".
            importance_weight_cap: Truncates the importance weight old policy / rollout policy of each token; None
                leaves the difference between sampler and learner uncorrected.
            sampler_gap_warning, sampler_gap_limit: Mean difference, in nats per token, between the sampler's and the
                learner's log-probabilities that is logged as a warning, and that ends the run. None is off.
            kl_coeff: Of the KL to the model at model_path: a number, or a schedule [[timestep, value], …]. 0 is off.
            kl_estimator: "k1", "k2" or "k3", see `rllib_gigpo.learners.losses.kl_penalty`.
            kl_in: "loss" adds the KL to the loss, per token. "reward" subtracts the sum over each response from the
                reward of its step, before advantages; the episode returns that are reported never hold it.
            entropy_coeff: Of the entropy bonus per token.
            micro_batch_tokens: Tokens, padding included, of one forward and backward pass.
            optimizer: "adamw" or "sgd".
            adam_betas, weight_decay: Of AdamW; of the optimizer.
            kwargs: RLlib's own: gamma, lr, grad_clip, num_epochs and others.
        """
        check_keyword_arguments("training", super().training, kwargs, GroupPolicyConfig.training)
        super().training(**kwargs)
        return self._set(
            group_size=group_size,
            groups_per_iteration=groups_per_iteration,
            num_minibatches=num_minibatches,
            advantage_norm=advantage_norm,
            advantage_std_floor=advantage_std_floor,
            invalid_action_penalty=invalid_action_penalty,
            reference=reference,
            train_on_zero_signal_groups=train_on_zero_signal_groups,
            dynamic_sampling=dynamic_sampling,
            max_sampling_rounds=max_sampling_rounds,
            ratio=ratio,
            clip_low=clip_low,
            clip_high=clip_high,
            dual_clip=dual_clip,
            loss_aggregation=loss_aggregation,
            importance_weight_cap=importance_weight_cap,
            sampler_gap_warning=sampler_gap_warning,
            sampler_gap_limit=sampler_gap_limit,
            kl_coeff=kl_coeff,
            kl_estimator=kl_estimator,
            kl_in=kl_in,
            entropy_coeff=entropy_coeff,
            micro_batch_tokens=micro_batch_tokens,
            optimizer=optimizer,
            adam_betas=adam_betas,
            weight_decay=weight_decay,
        )

    def group_connector(self, connector: Callable[[], ConnectorV2 | list[ConnectorV2]] = NotProvided) -> Self:
        """Sets a function that makes connector pieces to run on whole rollout groups, before the built-in ones."""
        return self._set(_group_connector=connector)

    def self_play(
        self,
        *,
        self_play_agent: str | None = NotProvided,
        past_versions: int = NotProvided,
        snapshot_interval: int = NotProvided,
    ) -> Self:
        """Has one agent of a game learn against frozen copies of its own policy, which act for all others; sets
        `multi_agent(…)` accordingly. Evaluation plays against the weights that training began with.

        Args:
            self_play_agent: The one that learns; None for no self-play.
            past_versions: How many copies are kept, beside the first version; the oldest goes when a new one comes.
            snapshot_interval: Iterations from one copy to the next.
        """
        self._set(self_play_agent=self_play_agent, past_versions=past_versions, snapshot_interval=snapshot_interval)
        if self.self_play_agent is None:
            return self
        return self.multi_agent(
            policies=set(self_play_modules(self.past_versions)),
            policy_mapping_fn=OpponentMapping(self.self_play_agent, self.past_versions),
            policies_to_train=[LEARNER],
        )

    @override(AlgorithmConfig)
    def update_from_dict(self, config_dict: dict[str, Any] | AlgorithmConfig) -> Self:
        """As RLlib's, but an unknown key is a ValueError that names the nearest known one."""
        config_checks.check_known_keys(self, config_dict.keys())
        super().update_from_dict(config_dict)
        self.multi_agent(policies=multi_agent_checks.policies_of_file(self.policies))
        if "self_play_agent" in config_dict:
            self.self_play()
        return self.language_model(model_path=self.model_path).agent_format(prompt_template=self.prompt_template)

    @override(AlgorithmConfig)
    def validate(self) -> None:
        self._choose_env_runner()
        self._per_module_overrides.clear()  # RLlib's cache, which may be of what a copied config said before
        if not self._validate_config:
            return
        for problem in config_checks.check_types(self):
            self._value_error(problem)
        super().validate()
        # Lazily: a check relies on what earlier ones have found to be right.
        for problem in chain(config_checks.check_values(self), multi_agent_checks.check_multi_agent(self)):
            self._value_error(problem)
        overrides = with_absolute_paths(self.algorithm_config_overrides_per_module)
        if overrides != self.algorithm_config_overrides_per_module:
            self.algorithm_config_overrides_per_module = overrides

    def problems_of_values(self) -> Iterator[str]:
        """What is wrong on every machine, whatever model, engine and environment are there."""
        return config_checks.check_single_values(self)

    def problems_of_placement(self) -> Iterator[str]:
        """What is wrong with the numbers of env runners and learners; the values themselves must be right."""
        return config_checks.check_numbers_of_processes(self)

    def _choose_env_runner(self) -> None:
        """Takes the env runner for several agents where the environment, or else `multi_agent(…)`, says that there
        are; a user's own class stays."""
        several = is_multi_agent(self.env)
        runner = MultiAgentGroupEnvRunner if (self.is_multi_agent if several is None else several) else GroupEnvRunner
        if self.env_runner_cls in (GroupEnvRunner, MultiAgentGroupEnvRunner) and self.env_runner_cls is not runner:
            self.env_runner_cls = runner

    @override(AlgorithmConfig)
    def _value_error(self, errmsg: str) -> None:
        if self._validate_config:  # RLlib's own would advise to switch the checks off
            raise ValueError(errmsg)

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        from rllib_gigpo.rl_modules.module_choice import language_module_class

        lora = LoraSettings(self.lora_rank or 0, self.lora_alpha, self.lora_targets, seed=self.seed or 0)
        model_config = {
            "model_path": self.model_path,
            "dtype": self.model_dtype,
            "attn_implementation": self.attn_implementation,
            "lora": lora._asdict() if lora.rank else None,
            "freeze_vision_tower": self.freeze_vision_tower,
            "gradient_checkpointing": self.gradient_checkpointing,
            "share_prefixes": self.share_prefixes,
        }
        return RLModuleSpec(module_class=language_module_class(self.model_path), model_config=model_config)

    @override(AlgorithmConfig)
    def get_config_for_module(self, module_id: str) -> Self:
        """This config with the module's own values, which RLlib could not set where the config is frozen already."""
        if module_id in self.algorithm_config_overrides_per_module and module_id not in self._per_module_overrides:
            own = self.copy(copy_frozen=False)
            own.update_from_dict(self.algorithm_config_overrides_per_module[module_id])
            self._per_module_overrides[module_id] = own
        return super().get_config_for_module(module_id)

    @override(AlgorithmConfig)
    def get_multi_rl_module_spec(self, **kwargs: Any) -> MultiRLModuleSpec:
        return with_module_configs(self, super().get_multi_rl_module_spec(**kwargs))

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type[Learner]:
        from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner

        return GroupPolicyTorchLearner

    @override(AlgorithmConfig)
    def build_learner_group(
        self, *, env: Any = None, spaces: Any = None, rl_module_spec: Any = None, placement_group: Any = None
    ) -> LearnerGroup:
        if self.sharding is None:
            return super().build_learner_group(
                env=env, spaces=spaces, rl_module_spec=rl_module_spec, placement_group=placement_group
            )
        from rllib_gigpo.learners.sharded_learner_group import ShardedLearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        return ShardedLearnerGroup(config=self.copy(), module_spec=spec, placement_group=placement_group)

    def build_group_connector(self) -> ConnectorV2:
        """Connectors from whole rollout groups to step and token rows: the user's pieces, then the built-in ones."""
        pieces = [] if self._group_connector is None else self._group_connector()
        pieces = list(pieces) if isinstance(pieces, list | tuple) else [pieces]
        return LearnerConnectorPipeline(connectors=[*pieces, *self.anchor_connectors(), TokenRowPacking()])

    def anchor_connectors(self) -> list[ConnectorV2]:
        """Pieces that group steps by anchor state; none, unless the algorithm compares steps."""
        return []

    def scores(self) -> tuple[str, ...]:
        """Columns of the token rows that learners compute before credit is assigned, see `scoring`."""
        has_penalty = self.kl_in == "reward" and is_reference_needed(self.kl_coeff)
        return (OLD_LOGP, REFERENCE_LOGP) if has_penalty else ()

    def may_learn(self, module_id: str | None) -> bool:
        """Whether `policies_to_train` lets a module learn, None being that of a single agent; a function that decides
        by the batch may let every module."""
        chosen = self.policies_to_train
        return module_id is None or chosen is None or callable(chosen) or module_id in chosen

    def trains_on_zero_signal_groups(self) -> bool:
        """`train_on_zero_signal_groups` with its default resolved."""
        if self.train_on_zero_signal_groups is None:
            return self.reference == "verl-agent"
        return self.train_on_zero_signal_groups
