"""Configuration that every group-relative algorithm shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import EnvToModulePipeline
from ray.rllib.connectors.learner import LearnerConnectorPipeline
from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.annotations import override

from rllib_gigpo.agent_formats import AgentFormat, ResponseParser, response_parser
from rllib_gigpo.algorithms.group_policy import config_checks
from rllib_gigpo.algorithms.group_policy.config_checks import check_keyword_arguments
from rllib_gigpo.algorithms.group_policy.model_path import absolute_model_path
from rllib_gigpo.connectors.actions import ActionParser, ResponseDecoder
from rllib_gigpo.connectors.prompts import HistoryMemory, PromptBuilder
from rllib_gigpo.connectors.token_rows import TokenRowPacking
from rllib_gigpo.env_runners.group_env_runner import GroupEnvRunner
from rllib_gigpo.environments import default_agent_format
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.rl_modules.lora import LoraSettings, Targets

if TYPE_CHECKING:
    from ray.rllib.core.learner.learner import Learner


class GroupPolicyConfig(AlgorithmConfig):
    """Base of the group-relative algorithms' configs; not an algorithm by itself.

    An iteration rolls out `groups_per_iteration` groups of `group_size` trajectories, turns each environment step into
    one training row, assigns advantages within the groups, and takes `num_epochs * num_minibatches` optimizer steps.
    RLlib's `train_batch_size*` and `minibatch_size` therefore do not apply, and setting them is an error.
    """

    # A group that keeps fewer members than this has nothing to compare with.
    min_group_size = 2

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        # language_model()
        self.model_path: str | None = None
        self.model_dtype: Literal["float32", "bfloat16"] = "float32"
        self.attn_implementation = "sdpa"
        self.lora_rank: int | None = None
        self.lora_alpha: float | None = None
        self.lora_targets: Targets = "all-linear"
        # agent_format()
        self.prompt_template: str | None = None
        self.history_length: int | None = None
        self.response_parser: str | ResponseParser | None = None
        self.stop: tuple[str, ...] | None = None
        # generation()
        self.engine = "hf"
        self.max_prompt_tokens = 2048
        self.max_response_tokens = 512
        self.temperature = 1.0
        self.top_p = 1.0
        self.top_k = 0
        # environment() and evaluation()
        self.tasks: Sequence[Any] | None = None
        self.evaluation_tasks: Sequence[Any] | None = None
        # training()
        self.group_size = 8
        self.groups_per_iteration = 16
        self.num_minibatches = 1
        self.advantage_norm: Literal["std", "mean"] = "std"
        self.advantage_std_floor = 0.0
        self.invalid_action_penalty = 0.1
        self.reference: Literal["paper", "verl-agent"] = "paper"
        self.train_on_zero_signal_groups: bool | None = None
        self.ratio: Literal["token", "sequence"] = "token"
        self.clip_low = 0.2
        self.clip_high = 0.2
        self.dual_clip: float | None = None
        self.loss_aggregation = "token-mean"
        self.importance_weight_cap: float | None = 2.0
        self.kl_coeff: float | list[list[float]] = 0.0
        self.kl_estimator: Literal["k1", "k2", "k3"] = "k3"
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
        self.env_runner_health_probe_timeout_s = 120  # a restarted runner starts a process and loads the model
        # Text does not go through RLlib's runner, its tensor connectors, or its sharder.
        self.env_runner_cls = GroupEnvRunner
        self.episodes_to_numpy = False
        self.create_local_env_runner = False
        self._dont_auto_sync_env_runner_states = True
        self.add_default_connectors_to_env_to_module_pipeline = False
        self.add_default_connectors_to_module_to_env_pipeline = False
        self.add_default_connectors_to_learner_pipeline = False
        self._group_connector: Callable[[], ConnectorV2 | list[ConnectorV2]] | None = None

    def language_model(
        self,
        *,
        model_path: str | None = NotProvided,
        model_dtype: str = NotProvided,
        attn_implementation: str = NotProvided,
        lora_rank: int | None = NotProvided,
        lora_alpha: float | None = NotProvided,
        lora_targets: Targets = NotProvided,
    ) -> GroupPolicyConfig:
        """Sets the model that is trained.

        Args:
            model_path: Hugging Face directory with config, safetensors weights, tokenizer and chat template. A relative
                one is made absolute.
            model_dtype: "float32" or "bfloat16", of the weights in learners and engines.
            attn_implementation: As in `AutoModelForCausalLM.from_pretrained`.
            lora_rank: Trains a float32 LoRA adapter of this rank and not the model itself. None: trains all weights.
            lora_alpha: The adapter is scaled by lora_alpha / lora_rank. None: a scale of 1.
            lora_targets: Layers with an adapter: "all-linear", or a list of names such as "q_proj".
        """
        self._set(model_path=absolute_model_path(model_path), model_dtype=model_dtype)
        self._set(attn_implementation=attn_implementation)
        return self._set(lora_rank=lora_rank, lora_alpha=lora_alpha, lora_targets=lora_targets)

    def agent_format(
        self,
        *,
        prompt_template: str | None = NotProvided,
        history_length: int | None = NotProvided,
        response_parser: str | ResponseParser | None = NotProvided,
        stop: Sequence[str] | None = NotProvided,
    ) -> GroupPolicyConfig:
        """Replaces parts of the environment's agent format; None keeps the environment's own.

        Args:
            prompt_template: Jinja source of the user message, see `rllib_gigpo.agent_formats.PromptTemplate`.
            history_length: How many earlier turns the prompt shows.
            response_parser: Name of a parser, or a function from the response text to a `ParsedResponse`.
            stop: Strings that end a response.
        """
        stop = tuple(stop) if isinstance(stop, list) else stop
        return self._set(
            prompt_template=prompt_template, history_length=history_length, response_parser=response_parser, stop=stop
        )

    def generation(
        self,
        *,
        engine: str = NotProvided,
        max_prompt_tokens: int = NotProvided,
        max_response_tokens: int = NotProvided,
        temperature: float = NotProvided,
        top_p: float = NotProvided,
        top_k: int = NotProvided,
    ) -> GroupPolicyConfig:
        """Sets how responses are sampled. `evaluation(evaluation_config=…)` may override the sampling parameters.

        Args:
            engine: "hf", which generates with the transformers model itself.
            max_prompt_tokens: A longer prompt loses its oldest history; one that does not fit even then ends the
                trajectory as truncated.
            max_response_tokens: A longer response is cut there.
            temperature: 0 is greedy, for evaluation only. The loss uses the training temperature too.
            top_p, top_k: Nucleus sampling, 1 is off; only the k most likely tokens, 0 is off.
        """
        self._set(engine=engine, max_prompt_tokens=max_prompt_tokens, max_response_tokens=max_response_tokens)
        return self._set(temperature=temperature, top_p=top_p, top_k=top_k)

    @override(AlgorithmConfig)
    def environment(
        self, env: Any = NotProvided, *, tasks: Sequence[Any] | None = NotProvided, **kwargs: Any
    ) -> GroupPolicyConfig:
        """Sets the environment.

        Args:
            env: A registered name such as "EZPoints", a Gymnasium id, or a class that takes an EnvContext.
            tasks: Training tasks, each given to `reset(options={"task": …})`. None: integers, from which the
                environment generates an instance.
            kwargs: RLlib's own, `env_config` among them.
        """
        check_keyword_arguments("environment", super().environment, kwargs, GroupPolicyConfig.environment)
        super().environment(env, **kwargs)
        return self._set(tasks=tasks)

    @override(AlgorithmConfig)
    def evaluation(self, *, evaluation_tasks: Sequence[Any] | None = NotProvided, **kwargs: Any) -> GroupPolicyConfig:
        """Sets the evaluation.

        Args:
            evaluation_tasks: Tasks of the panel, each given to `reset(options={"task": …})`. None: integers that no
                training task shares.
            kwargs: RLlib's own: `evaluation_interval`, `evaluation_duration` (tasks on the panel), and
                `evaluation_config` with other sampling parameters.
        """
        check_keyword_arguments("evaluation", super().evaluation, kwargs, GroupPolicyConfig.evaluation)
        super().evaluation(**kwargs)
        return self._set(evaluation_tasks=evaluation_tasks)

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
        ratio: str = NotProvided,
        clip_low: float = NotProvided,
        clip_high: float = NotProvided,
        dual_clip: float | None = NotProvided,
        loss_aggregation: str = NotProvided,
        importance_weight_cap: float | None = NotProvided,
        kl_coeff: float | list[list[float]] = NotProvided,
        kl_estimator: str = NotProvided,
        entropy_coeff: float = NotProvided,
        micro_batch_tokens: int = NotProvided,
        optimizer: str = NotProvided,
        adam_betas: tuple[float, float] = NotProvided,
        weight_decay: float = NotProvided,
        **kwargs: Any,
    ) -> GroupPolicyConfig:
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
            ratio: Importance ratio per "token", or one per response ("sequence", GSPO).
            clip_low: The ratio is clipped below 1 - clip_low. 0.2 suits token ratios, 0.02 sequence ratios.
            clip_high: The ratio is clipped above 1 + clip_high.
            dual_clip: Bounds the loss of negative advantages at this many times the advantage; None is off.
            loss_aggregation: "token-mean", "sequence-mean-token-mean", "sequence-mean-token-sum" or
                "sequence-mean-token-sum-norm".
            importance_weight_cap: Truncates the importance weight old policy / rollout policy of each token; None
                leaves the difference between sampler and learner uncorrected.
            kl_coeff: Of the KL to the model at model_path: a number, or a schedule [[timestep, value], …]. 0 is off.
            kl_estimator: "k1", "k2" or "k3", see `rllib_gigpo.learners.losses.kl_penalty`.
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
            ratio=ratio,
            clip_low=clip_low,
            clip_high=clip_high,
            dual_clip=dual_clip,
            loss_aggregation=loss_aggregation,
            importance_weight_cap=importance_weight_cap,
            kl_coeff=kl_coeff,
            kl_estimator=kl_estimator,
            entropy_coeff=entropy_coeff,
            micro_batch_tokens=micro_batch_tokens,
            optimizer=optimizer,
            adam_betas=adam_betas,
            weight_decay=weight_decay,
        )

    def group_connector(
        self, connector: Callable[[], ConnectorV2 | list[ConnectorV2]] = NotProvided
    ) -> GroupPolicyConfig:
        """Sets a function that makes connector pieces to run on whole rollout groups, before the built-in ones."""
        return self._set(_group_connector=connector)

    @override(AlgorithmConfig)
    def update_from_dict(self, config_dict: dict[str, Any] | AlgorithmConfig) -> GroupPolicyConfig:
        """As RLlib's, but an unknown key is a ValueError that names the nearest known one."""
        config_checks.check_known_keys(self, config_dict.keys())
        super().update_from_dict(config_dict)
        return self.language_model(model_path=self.model_path)

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if not self._validate_config:
            return
        for problem in config_checks.check_types(self):
            self._value_error(problem)
        super().validate()
        for problem in config_checks.check_values(self):
            self._value_error(problem)

    @override(AlgorithmConfig)
    def _value_error(self, errmsg: str) -> None:
        if self._validate_config:  # RLlib's own would advise to switch the checks off
            raise ValueError(errmsg)

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        from rllib_gigpo.rl_modules.causal_lm_rl_module import CausalLMRLModule

        lora = LoraSettings(self.lora_rank or 0, self.lora_alpha, self.lora_targets, seed=self.seed or 0)
        model_config = {
            "model_path": self.model_path,
            "dtype": self.model_dtype,
            "attn_implementation": self.attn_implementation,
            "lora": lora._asdict() if lora.rank else None,
        }
        return RLModuleSpec(module_class=CausalLMRLModule, model_config=model_config)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type[Learner]:
        from rllib_gigpo.learners.group_policy_torch_learner import GroupPolicyTorchLearner

        return GroupPolicyTorchLearner

    @override(AlgorithmConfig)
    def build_env_to_module_connector(self, env: Any = None, spaces: Any = None, device: Any = None) -> ConnectorV2:
        agent_format = self.resolved_agent_format()
        pipeline = super().build_env_to_module_connector(env=env, spaces=spaces, device=device)
        assert isinstance(pipeline, EnvToModulePipeline)
        pipeline.append(HistoryMemory(history_length=agent_format.history_length))
        pipeline.append(
            PromptBuilder(prompt_template=agent_format.prompt_template, max_prompt_tokens=self.max_prompt_tokens)
        )
        return pipeline

    @override(AlgorithmConfig)
    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        pipeline = super().build_module_to_env_connector(env=env, spaces=spaces)
        assert isinstance(pipeline, ModuleToEnvPipeline)
        pipeline.append(ResponseDecoder())
        pipeline.append(ActionParser(parser=response_parser(self.resolved_agent_format().response_parser)))
        return pipeline

    def build_group_connector(self) -> ConnectorV2:
        """Connectors from whole rollout groups to step and token rows: the user's pieces, then the built-in ones."""
        pieces = [] if self._group_connector is None else self._group_connector()
        pieces = list(pieces) if isinstance(pieces, list | tuple) else [pieces]
        return LearnerConnectorPipeline(connectors=[*pieces, *self.anchor_connectors(), TokenRowPacking()])

    def anchor_connectors(self) -> list[ConnectorV2]:
        """Pieces that group steps by anchor state; none, unless the algorithm compares steps."""
        return []

    def resolved_agent_format(self) -> AgentFormat:
        """The environment's agent format with the parts that this config replaces."""
        base = default_agent_format(self.env)
        return AgentFormat(
            prompt_template=base.prompt_template if self.prompt_template is None else self.prompt_template,
            history_length=base.history_length if self.history_length is None else self.history_length,
            response_parser=base.response_parser if self.response_parser is None else self.response_parser,
            stop=base.stop if self.stop is None else tuple(self.stop) if isinstance(self.stop, list) else self.stop,
        )

    def sampling_params(self) -> SamplingParams:
        """How responses are sampled under this config."""
        return SamplingParams(
            max_response_tokens=self.max_response_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            stop=self.resolved_agent_format().stop,
        )

    def trains_on_zero_signal_groups(self) -> bool:
        """`train_on_zero_signal_groups` with its default resolved."""
        if self.train_on_zero_signal_groups is None:
            return self.reference == "verl-agent"
        return self.train_on_zero_signal_groups

    def _set(self, **values: Any) -> GroupPolicyConfig:
        for key, value in values.items():
            if value is not NotProvided:
                setattr(self, key, value)
        return self
