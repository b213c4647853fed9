"""Configuration of the model, how it is prompted and sampled, and where it acts: what every algorithm needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Self

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import EnvToModulePipeline
from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline
from ray.rllib.utils.annotations import override

from rllib_gigpo.agent_formats import (
    AgentFormat,
    HistoryLength,
    PromptTemplate,
    ResponseParser,
    response_parser,
    template_source,
)
from rllib_gigpo.algorithms.group_policy.config_checks import check_keyword_arguments
from rllib_gigpo.algorithms.group_policy.grid_values import each_value
from rllib_gigpo.algorithms.group_policy.model_path import absolute_model_path
from rllib_gigpo.connectors.actions import ActionParser, ResponseDecoder
from rllib_gigpo.connectors.prompts import HistoryMemory, PromptBuilder
from rllib_gigpo.env_runners.rollout_plan import TrajectoryBudget
from rllib_gigpo.environments import check_observation_space, default_agent_format
from rllib_gigpo.inference.protocol import SamplingParams
from rllib_gigpo.rl_modules.lora import Targets


class LanguageAgentConfig(AlgorithmConfig):
    """Base of the algorithms' configs: a language model that answers an environment's observations."""

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        # language_model()
        self.model_path: str | None = None
        self.model_dtype: Literal["float32", "bfloat16"] = "float32"
        self.attn_implementation = "sdpa"
        self.lora_rank: int | None = None
        self.lora_alpha: float | None = None
        self.lora_targets: Targets = "all-linear"
        self.freeze_vision_tower = False
        self.gradient_checkpointing = False
        self.share_prefixes = True
        # agent_format()
        self.prompt_template: str | None = None
        self.history_length: HistoryLength | None = None
        self.response_parser: str | ResponseParser | None = None
        self.stop: tuple[str, ...] | None = None
        self.examples: Sequence[Sequence[str]] | None = None
        # generation()
        self.engine: Literal["hf", "vllm"] = "hf"
        self.engine_options: dict[str, Any] = {}
        self.engine_sleep_level: Literal[1, 2] | None = None
        self.max_prompt_tokens = 2048
        self.max_response_tokens = 512
        self.temperature = 1.0
        self.top_p = 1.0
        self.top_k = 0
        # env_runners()
        self.env_workers = 0
        self.env_step_timeout_s: float | None = 300.0
        self.rollout_stall_timeout_s: float | None = 600.0
        self.env_worker_memory_limit_mb: float | None = None
        self.env_worker_max_episodes: int | None = None
        self.max_trajectory_steps: int | None = None
        self.max_trajectory_tokens: int | None = None
        self.max_weight_lag = 0
        # learners()
        self.sharding: Literal["fsdp"] | None = None
        self.mixed_precision = False
        self.offload_reference = False
        self.learner_stall_timeout_s: float | None = 600.0
        # reporting()
        self.recorded_groups = 2
        # environment() and evaluation()
        self.tasks: Sequence[Any] | None = None
        self.evaluation_tasks: Sequence[Any] | None = None

    def __repr__(self) -> str:
        """The class, and what differs from its defaults."""
        defaults, own = ({name: _shown(value) for name, value in vars(c).items()} for c in (type(self)(), self))
        values = ((name, value) for name, value in own.items() if not name.startswith("_"))
        changed = [f"{name}={value:.80}" for name, value in values if value != defaults.get(name)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def language_model(
        self,
        *,
        model_path: str | None = NotProvided,
        model_dtype: str = NotProvided,
        attn_implementation: str = NotProvided,
        lora_rank: int | None = NotProvided,
        lora_alpha: float | None = NotProvided,
        lora_targets: Targets = NotProvided,
        freeze_vision_tower: bool = NotProvided,
        gradient_checkpointing: bool = NotProvided,
        share_prefixes: bool = NotProvided,
    ) -> Self:
        """Sets the model that is trained.

        Args:
            model_path: Hugging Face directory with config, safetensors weights, tokenizer and chat template, and the
                image processor where the model reads images. A relative one is made absolute.
            model_dtype: "float32" or "bfloat16", of the weights in learners and engines.
            attn_implementation: As in `AutoModelForCausalLM.from_pretrained`.
            lora_rank: Trains a float32 LoRA adapter of this rank and not the model itself. None: trains all weights.
            lora_alpha: The adapter is scaled by lora_alpha / lora_rank. None: a scale of 1.
            lora_targets: Layers with an adapter: "all-linear", or a list of names such as "q_proj".
            freeze_vision_tower: Keeps the vision tower of a vision-language model as it is. False: it is trained too.
            gradient_checkpointing: Learners compute activations again in the backward pass instead of keeping them:
                less memory, about a third more time.
            share_prefixes: Learners compute a prefix once that rows of a micro-batch share, and on a CPU pack the other
                rows instead of padding them, where the model's attention is such that this changes nothing (Llama,
                Mistral, Qwen2, Qwen3; `sdpa`; no sliding window).
        """
        self._set(model_path=absolute_model_path(model_path), model_dtype=model_dtype)
        self._set(attn_implementation=attn_implementation, gradient_checkpointing=gradient_checkpointing)
        self._set(freeze_vision_tower=freeze_vision_tower, share_prefixes=share_prefixes)
        return self._set(lora_rank=lora_rank, lora_alpha=lora_alpha, lora_targets=lora_targets)

    def agent_format(
        self,
        *,
        prompt_template: str | None = NotProvided,
        history_length: HistoryLength | None = NotProvided,
        response_parser: str | ResponseParser | None = NotProvided,
        stop: Sequence[str] | None = NotProvided,
        examples: Sequence[Sequence[str]] | None = NotProvided,
    ) -> Self:
        """Replaces parts of the environment's agent format; None keeps the environment's own.

        Args:
            prompt_template: Jinja source of the user message, see `rllib_gigpo.agent_formats.PromptTemplate`; or the
                path of a file with it, which is read now; or "package.module:NAME".
            history_length: How many earlier turns the prompt shows: 0 for none, "full" for all.
            response_parser: Name of a parser, "package.module:function", or a function, from the response text to a
                `ParsedResponse`.
            stop: Strings that end a response.
            examples: Worked examples that a prompt begins with, as turns of the conversation: pairs of a user message,
                which is what `prompt_template` would render, and a response.

        Raises:
            ValueError: `prompt_template` names something that is not there.
        """
        # Trials of Tune and workers run in other directories, or on other machines.
        prompt_template = each_value(template_source, prompt_template)
        stop = tuple(stop) if isinstance(stop, list) else stop
        self._set(prompt_template=prompt_template, history_length=history_length)
        return self._set(response_parser=response_parser, stop=stop, examples=examples)

    def generation(
        self,
        *,
        engine: str = NotProvided,
        engine_options: dict[str, Any] = NotProvided,
        engine_sleep_level: int | None = NotProvided,
        max_prompt_tokens: int = NotProvided,
        max_response_tokens: int = NotProvided,
        temperature: float = NotProvided,
        top_p: float = NotProvided,
        top_k: int = NotProvided,
    ) -> Self:
        """Sets how responses are sampled. `evaluation(evaluation_config=…)` may override the sampling parameters.

        Args:
            engine: "hf", which generates with the transformers model itself, or "vllm"; see docs/inference.md.
            engine_options: vLLM's engine arguments, such as {"gpu_memory_utilization": 0.8}, by name.
            engine_sleep_level: Has vLLM give its GPU's memory to a learner on the same GPU while that updates: 1 keeps
                the weights in host memory, 2 drops them, as an update of all weights replaces them. None: never.
            max_prompt_tokens: A longer prompt loses its oldest history; one that does not fit even then ends the
                trajectory as truncated.
            max_response_tokens: A longer response is cut there.
            temperature: 0 is greedy, for evaluation only. The loss uses the training temperature too.
            top_p, top_k: Nucleus sampling, 1 is off; only the k most likely tokens, 0 is off.
        """
        self._set(engine=engine, engine_options=engine_options, engine_sleep_level=engine_sleep_level)
        self._set(max_prompt_tokens=max_prompt_tokens, max_response_tokens=max_response_tokens)
        return self._set(temperature=temperature, top_p=top_p, top_k=top_k)

    @override(AlgorithmConfig)
    def environment(self, env: Any = NotProvided, *, tasks: Sequence[Any] | None = NotProvided, **kwargs: Any) -> Self:
        """Sets the environment.

        Args:
            env: A registered name such as "EZPoints", a Gymnasium id, or a class that takes an EnvContext.
            tasks: Training tasks, each given to `reset(options={"task": …})`. None: integers, from which the
                environment generates an instance.
            kwargs: RLlib's own, `env_config` among them.
        """
        check_keyword_arguments("environment", super().environment, kwargs, LanguageAgentConfig.environment)
        super().environment(env, **kwargs)
        return self._set(tasks=tasks)

    @override(AlgorithmConfig)
    def env_runners(
        self,
        *,
        env_workers: int = NotProvided,
        env_step_timeout_s: float | None = NotProvided,
        rollout_stall_timeout_s: float | None = NotProvided,
        env_worker_memory_limit_mb: float | None = NotProvided,
        env_worker_max_episodes: int | None = NotProvided,
        max_trajectory_steps: int | None = NotProvided,
        max_trajectory_tokens: int | None = NotProvided,
        max_weight_lag: int = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets how, and by how many processes, trajectories are rolled out.

        Args:
            env_workers: Processes per env runner that its environments are spread over. 0: they run in the env runner
                itself, one after the other, and the limits below do not apply.
            env_step_timeout_s: A reset or step that takes longer, in seconds, fails, and its worker is replaced. None:
                no limit.
            rollout_stall_timeout_s: A rollout in which no environment and no engine has answered for so long, in
                seconds, is given up, and its env runner replaced. None: never.
            env_worker_memory_limit_mb: A worker whose resident memory is above this, in MB, is replaced between
                trajectories. None: no limit.
            env_worker_max_episodes: A worker is replaced after so many trajectories. None: never.
            max_trajectory_steps: A training trajectory is cut after so many steps, as truncated. None: no limit but
                the environment's own.
            max_trajectory_tokens: The same, after the step with which it has sampled so many tokens.
            max_weight_lag: 1 samples the groups of the next iteration while the learners update on those of this one,
                so that an update learns from groups of the weights before the last update. 0: of the very weights that
                it starts from.
            kwargs: RLlib's own: `num_env_runners`, `num_envs_per_env_runner` and others.
        """
        check_keyword_arguments("env_runners", super().env_runners, kwargs, LanguageAgentConfig.env_runners)
        super().env_runners(**kwargs)
        self._set(env_workers=env_workers, env_step_timeout_s=env_step_timeout_s)
        self._set(rollout_stall_timeout_s=rollout_stall_timeout_s)
        self._set(
            env_worker_memory_limit_mb=env_worker_memory_limit_mb, env_worker_max_episodes=env_worker_max_episodes
        )
        self._set(max_trajectory_steps=max_trajectory_steps, max_trajectory_tokens=max_trajectory_tokens)
        return self._set(max_weight_lag=max_weight_lag)

    @override(AlgorithmConfig)
    def evaluation(self, *, evaluation_tasks: Sequence[Any] | None = NotProvided, **kwargs: Any) -> Self:
        """Sets the evaluation.

        Args:
            evaluation_tasks: Tasks of the panel, each given to `reset(options={"task": …})`. None: integers that no
                training task shares.
            kwargs: RLlib's own: `evaluation_interval`, `evaluation_duration` (tasks on the panel), and
                `evaluation_config` with other sampling parameters.
        """
        check_keyword_arguments("evaluation", super().evaluation, kwargs, LanguageAgentConfig.evaluation)
        super().evaluation(**kwargs)
        return self._set(evaluation_tasks=evaluation_tasks)

    @override(AlgorithmConfig)
    def learners(
        self,
        *,
        sharding: str | None = NotProvided,
        mixed_precision: bool = NotProvided,
        offload_reference: bool = NotProvided,
        learner_stall_timeout_s: float | None = NotProvided,
        **kwargs: Any,
    ) -> Self:
        """Sets who updates the model.

        Args:
            sharding: "fsdp" spreads weights, gradients and optimizer state over the learners (FSDP2). None: every
                learner has all of them (DDP).
            mixed_precision: Sharded models compute in bfloat16; weights and optimizer stay as `model_dtype` says.
            offload_reference: Keeps the reference policy of a KL term in host memory, and has it on the learner's
                device only while it scores.
            learner_stall_timeout_s: An update, a scoring, or a gathering of what is sharded, in which no learner has
                got any further for so long, in seconds, is an error that says where they stand. None: it is waited for
                without end.
            kwargs: RLlib's own: `num_learners`, `num_gpus_per_learner` and others.
        """
        check_keyword_arguments("learners", super().learners, kwargs, LanguageAgentConfig.learners)
        super().learners(**kwargs)
        self._set(sharding=sharding, mixed_precision=mixed_precision, offload_reference=offload_reference)
        return self._set(learner_stall_timeout_s=learner_stall_timeout_s)

    @override(AlgorithmConfig)
    def reporting(self, *, recorded_groups: int = NotProvided, **kwargs: Any) -> Self:
        """Sets what is reported.

        Args:
            recorded_groups: Rollout groups of each iteration whose trajectories are written, with the credit of every
                step, to `trajectories/` in the run's folder; `rllib report` shows them. 0 for none.
            kwargs: RLlib's own.
        """
        check_keyword_arguments("reporting", super().reporting, kwargs, LanguageAgentConfig.reporting)
        super().reporting(**kwargs)
        return self._set(recorded_groups=recorded_groups)

    @override(AlgorithmConfig)
    def build_env_to_module_connector(self, env: Any = None, spaces: Any = None, device: Any = None) -> ConnectorV2:
        check_observation_space(getattr(env, "single_observation_space", None), model_path=self.model_path)
        agent_format = self.resolved_agent_format()
        pipeline = super().build_env_to_module_connector(env=env, spaces=spaces, device=device)
        assert isinstance(pipeline, EnvToModulePipeline)
        pipeline.append(HistoryMemory(history_length=agent_format.history_length))
        pipeline.append(
            PromptBuilder(
                prompt_template=agent_format.prompt_template,
                max_prompt_tokens=self.max_prompt_tokens,
                examples=agent_format.examples,
            )
        )
        return pipeline

    @override(AlgorithmConfig)
    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        pipeline = super().build_module_to_env_connector(env=env, spaces=spaces)
        assert isinstance(pipeline, ModuleToEnvPipeline)
        pipeline.append(ResponseDecoder())
        pipeline.append(ActionParser(parser=response_parser(self.resolved_agent_format().response_parser)))
        return pipeline

    def resolved_agent_format(self) -> AgentFormat:
        """The environment's agent format with the parts that this config replaces."""
        base = default_agent_format(self.env, self.env_config)
        template = base.prompt_template if self.prompt_template is None else self.prompt_template
        # The environment's own length of history was meant for a template that shows some.
        default_length = base.history_length if PromptTemplate(template).shows_history else 0
        return AgentFormat(
            prompt_template=template,
            history_length=default_length if self.history_length is None else self.history_length,
            response_parser=base.response_parser if self.response_parser is None else self.response_parser,
            stop=base.stop if self.stop is None else tuple(self.stop) if isinstance(self.stop, list) else self.stop,
            examples=base.examples if self.examples is None else _pairs(self.examples),
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

    def max_sequence_tokens(self) -> int:
        """The longest prompt with its response that training or evaluation may ask for."""
        evaluation = self.evaluation_config or {}
        overridden = evaluation.get("max_response_tokens", 0)
        return self.max_prompt_tokens + max(self.max_response_tokens, overridden)

    def trajectory_budget(self) -> TrajectoryBudget:
        """What a training trajectory may take before it is cut."""
        return TrajectoryBudget(max_steps=self.max_trajectory_steps, max_tokens=self.max_trajectory_tokens)

    def _set(self, **values: Any) -> Self:
        for key, value in values.items():
            if value is not NotProvided:
                setattr(self, key, value)
        return self


def _pairs(examples: Any) -> Any:
    """Lists, as YAML has them, as tuples; anything else as it is."""
    if not isinstance(examples, (list, tuple)):
        return examples
    return tuple(tuple(pair) if isinstance(pair, list) else pair for pair in examples)


def _shown(value: Any) -> str:
    """As `repr` has it, without addresses of memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
