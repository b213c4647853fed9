"""Where learners and engines of a config go on a machine's GPUs, and whether they fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rllib_gigpo.inference import vllm_options
from rllib_gigpo.learners.reference_policy import is_reference_needed
from rllib_gigpo.planning.memory import (
    GIB,
    EngineMemory,
    LearnerMemory,
    TrainingSettings,
    engine_memory,
    learner_memory,
    offloaded_bytes,
)
from rllib_gigpo.planning.model_dimensions import ModelDimensions, model_dimensions

Placement = Literal["auto", "config", "split", "colocated"]
PLACEMENTS: tuple[Placement, ...] = ("auto", "config", "split", "colocated")
# vLLM's own default.
_UTILIZATION = 0.9
# One learner and one engine on each GPU. With halves Ray puts two learners on one GPU, which NCCL refuses: more than a
# half for one of them, less for the other, leaves it no choice.
_ENGINE_PART, _LEARNER_PART = 0.51, 0.49


class PlanRefusedError(ValueError):
    """A config does not fit the machine, in any placement that was asked for."""


@dataclass(frozen=True)
class Processes:
    """Learners and env runners, and the GPUs that each of them has."""

    num_learners: int
    gpus_per_learner: float
    num_env_runners: int
    gpus_per_env_runner: float

    @property
    def num_gpus(self) -> float:
        return self.num_learners * self.gpus_per_learner + self.num_env_runners * self.gpus_per_env_runner

    @property
    def is_colocated(self) -> bool:
        """Whether a learner and an engine share each GPU."""
        return self.gpus_per_learner + self.gpus_per_env_runner <= 1


@dataclass(frozen=True)
class Plan:
    """What goes where, and what it takes; bytes are estimates that were not measured on a GPU.

    Attributes:
        model: Its name.
        num_parameters: Of the model.
        placement: "split" or "colocated".
        processes: Learners and env runners.
        learner: On the GPU of each learner.
        engine: On each GPU of each engine.
        gpu_memory: Bytes of a GPU.
        delivery_bytes: That a weight delivery moves to each env runner.
        shared_memory_bytes: That a delivery takes in /dev/shm for a moment.
        offloaded_bytes: Of host memory that each learner takes for an offloaded reference policy.
        settings: Keys of the config that make this placement.
    """

    model: str
    num_parameters: int
    placement: str
    processes: Processes
    learner: LearnerMemory
    engine: EngineMemory
    gpu_memory: int
    delivery_bytes: int
    shared_memory_bytes: int
    offloaded_bytes: int
    settings: dict[str, Any]

    @property
    def is_colocated(self) -> bool:
        return self.processes.is_colocated

    @property
    def fullest_gpu(self) -> int:
        """Bytes on the GPU that has the most."""
        if self.is_colocated:
            return self.learner.total + self.engine.total
        return max(self.learner.total, self.engine.total)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **asdict(self),
            "learner": {**asdict(self.learner), "total": self.learner.total},
            "engine": {
                **asdict(self.engine),
                "total": self.engine.total,
                "requests_in_cache": self.engine.requests_in_cache,
            },
            "fullest_gpu": self.fullest_gpu,
            "is_measured_on_gpus": False,
        }


def plan(config: Any, *, num_gpus: int, gpu_memory_gib: float, placement: Placement = "auto") -> Plan:
    """A placement of a GroupPolicyConfig on one machine that fits it.

    Args:
        config: Need not be validated; its model may be a public one that is not there.
        num_gpus: Of the machine.
        gpu_memory_gib: Of each of them.
        placement: "config" as the config has it; "split": GPUs for learners, others for engines; "colocated": one of
            each on every GPU; "auto": the first of these that fits, the config's only where it has any on GPUs.

    Raises:
        PlanRefusedError: Nothing fits; the message says what is too large, by how much, and what would help.
        ValueError: The model is unknown, there are several, or a value of the config cannot be right.
    """
    _check_config(config)
    planner = _Planner(config, num_gpus, int(gpu_memory_gib * GIB))
    refused: dict[str, list[str]] = {}
    for name, processes in _candidates(config, num_gpus, placement):
        try:
            return planner.plan(processes)
        except PlanRefusedError as error:
            refused.setdefault(str(error), []).append(name)
    reasons = "; ".join(f"{' or '.join(names)}, {reason}" for reason, names in refused.items())
    raise PlanRefusedError(
        f"{planner.model.name} does not fit {num_gpus} GPU{'s' if num_gpus > 1 else ''} of {gpu_memory_gib:g} GiB. "
        f"{reasons or _no_candidate(config)}."
    )


def _check_config(config: Any) -> None:
    """Raises ValueError where no placement could be right; the model's directory need not be there."""
    if getattr(config, "model_path", None) is None:
        raise ValueError(f"{type(config).__name__} has no model_path: set language_model(model_path=…)")
    for problem in config.problems_of_values():
        raise ValueError(problem)
    if len(config.policies) > 1:
        raise ValueError(
            f"policies={sorted(config.policies)}: the memory of several models is not estimated; plan one of them alone"
        )
    if config.engine == "vllm":
        for problem in vllm_options.check_options(config.engine_options):
            raise ValueError(problem)


def _engine_gpus(config: Any) -> int:
    """GPUs over which an engine spreads a model."""
    return vllm_options.gpus_of_engine(config.engine_options) if config.engine == "vllm" else 1


def _no_candidate(config: Any) -> str:
    width = _engine_gpus(config)
    if width == 1:
        return "Splitting takes at least 2 GPUs"
    return (
        f"With tensor_parallel_size x pipeline_parallel_size = {width} an engine shares no GPU with a learner, and "
        f"splitting takes at least {width + 1} GPUs"
    )


def _candidates(config: Any, num_gpus: int, placement: Placement) -> Iterator[tuple[str, Processes]]:
    own = Processes(
        config.num_learners, config.num_gpus_per_learner, config.num_env_runners, config.num_gpus_per_env_runner
    )
    if placement == "config" or (placement == "auto" and own.num_gpus > 0):
        yield "as configured", own
    width = _engine_gpus(config)
    if placement in ("auto", "split") and num_gpus > width:
        # Half of them for learners; where these need more room, all but those of one engine.
        engines = max(1, (num_gpus - num_gpus // 2) // width)
        yield "split", Processes(min(num_gpus // 2, num_gpus - width), 1, engines, width)
        if num_gpus > 2 * width + 1:
            yield f"split {num_gpus - width}:{width}", Processes(num_gpus - width, 1, 1, width)
    if placement in ("auto", "colocated") and width == 1:
        yield "colocated", Processes(num_gpus, _LEARNER_PART, num_gpus, _ENGINE_PART)


class _Planner:
    """One config on one machine, for any placement."""

    def __init__(self, config: Any, num_gpus: int, gpu_memory: int):
        self.model: ModelDimensions = model_dimensions(config.model_path)
        self._config = config
        self._num_gpus = num_gpus
        self._gpu_memory = gpu_memory
        self._size = 4 if config.model_dtype == "float32" else 2

    def plan(self, processes: Processes) -> Plan:
        """Raises PlanRefusedError where it does not fit."""
        self._check_gpus(processes)
        placed = self._config.copy(copy_frozen=False)
        for key, value in self._settings(processes).items():
            setattr(placed, key, value)
        for problem in placed.problems_of_placement():
            raise PlanRefusedError(problem.rstrip("."))
        settings = self._training_settings(processes)
        learner = learner_memory(settings)
        beside = self._needed(self._engine(processes, 0)) if processes.is_colocated else 0
        if learner.total + beside > self._gpu_memory:
            raise PlanRefusedError(self._too_large(settings, learner, beside))
        room, utilization = self._room(processes, learner)
        engine = self._engine(processes, room)
        needed = self._needed(engine)
        if needed > room:
            raise PlanRefusedError(
                f"an engine needs {_gib(needed)} ({_gib(engine.weights)} of weights, {_gib(engine.cache_per_request)} "
                f"of cache for a full prompt and response), and has {_gib(room)}: raise tensor_parallel_size or "
                "gpu_memory_utilization, or lower max_prompt_tokens"
            )
        delivered = self._delivered_bytes()
        copies = 1 + (processes.num_env_runners if self._config.engine == "vllm" else 0)
        return Plan(
            model=self.model.name,
            num_parameters=self.model.num_parameters(),
            placement="colocated" if processes.is_colocated else "split",
            processes=processes,
            learner=learner,
            engine=engine,
            gpu_memory=self._gpu_memory,
            delivery_bytes=delivered,
            shared_memory_bytes=copies * delivered,
            offloaded_bytes=offloaded_bytes(settings),
            settings=self._settings(processes) | self._engine_options(processes, utilization),
        )

    def _check_gpus(self, processes: Processes) -> None:
        if min(processes.num_learners, processes.num_env_runners) < 1 or processes.gpus_per_learner <= 0:
            raise PlanRefusedError(
                f"num_learners={processes.num_learners} with num_gpus_per_learner={processes.gpus_per_learner:g} and "
                f"num_env_runners={processes.num_env_runners} leave the GPUs to nobody"
            )
        if processes.gpus_per_env_runner <= 0:
            raise PlanRefusedError(
                "num_gpus_per_env_runner=0 has engines on CPUs, which are not estimated: set it to more than 0"
            )
        if self._config.engine == "vllm":
            for problem in vllm_options.check_placement(self._config.engine_options, processes.gpus_per_env_runner):
                raise PlanRefusedError(problem.rstrip("."))
        if round(processes.num_gpus, 4) > self._num_gpus:
            raise PlanRefusedError(f"it asks for {processes.num_gpus:g} GPUs, and there are {self._num_gpus}")
        halves = max(processes.gpus_per_learner, processes.gpus_per_env_runner) <= 0.5
        if processes.is_colocated and processes.num_learners > 1 and halves:
            raise PlanRefusedError(
                f"num_gpus_per_learner={processes.gpus_per_learner:g} and num_gpus_per_env_runner="
                f"{processes.gpus_per_env_runner:g} let Ray put two learners on one GPU, which NCCL refuses: set "
                f"{_LEARNER_PART} and {_ENGINE_PART}"
            )
        if processes.num_env_runners > 1 and processes.gpus_per_env_runner <= 0.5:
            raise PlanRefusedError(
                f"num_gpus_per_env_runner={processes.gpus_per_env_runner:g} lets Ray put two engines on one GPU, which "
                f"is not estimated: set {_ENGINE_PART}, or 1"
            )

    def _training_settings(self, processes: Processes) -> TrainingSettings:
        from rllib_gigpo.learners.actor_critic_torch_learner import ActorCriticTorchLearner

        config = self._config
        max_tokens = config.max_prompt_tokens + config.max_response_tokens
        return TrainingSettings(
            model=self.model,
            bytes_per_weight=self._size,
            lora_rank=config.lora_rank,
            has_adam=config.optimizer == "adamw",
            has_reference=is_reference_needed(config.kl_coeff),
            has_critic=issubclass(config.get_default_learner_class(), ActorCriticTorchLearner),
            is_distributed=processes.num_learners > 1,
            micro_batch_tokens=config.micro_batch_tokens,
            max_tokens=max_tokens,
            response_share=config.max_response_tokens / max_tokens,
            recomputes_layers=config.gradient_checkpointing,
            shards=processes.num_learners if config.sharding == "fsdp" else 1,
            computes_in_bfloat16=config.mixed_precision,
            freezes_vision_tower=config.freeze_vision_tower,
            offloads_reference=config.offload_reference,
        )

    def _room(self, processes: Processes, learner: LearnerMemory) -> tuple[int, float]:
        """Bytes that an engine may take of a GPU, and the same as a share of it."""
        share = self._config.engine_options.get("gpu_memory_utilization", _UTILIZATION)
        if processes.is_colocated:
            # PyTorch keeps what the learner's last pass has freed, so the engine never gets it.
            share = min(share, math.floor(100 * (1 - learner.total / self._gpu_memory)) / 100)
        return int(share * self._gpu_memory), share

    def _engine(self, processes: Processes, room: int) -> EngineMemory:
        config = self._config
        trajectories = -(-config.groups_per_iteration * config.group_size // processes.num_env_runners)
        num_requests = min(config.num_envs_per_env_runner, trajectories)
        return engine_memory(
            self.model,
            bytes_per_weight=self._size,
            num_gpus=_engine_gpus(config),
            max_tokens=config.max_sequence_tokens(),
            num_requests=config.engine_options.get("max_num_seqs", num_requests),
            room=room,
        )

    def _needed(self, engine: EngineMemory) -> int:
        # The `hf` engine works on all requests at once; with vLLM those wait that find no room.
        requests = engine.num_requests if self._config.engine == "hf" else 1
        return engine.least + (requests - 1) * engine.cache_per_request

    def _delivered_bytes(self) -> int:
        rank = self._config.lora_rank
        if rank is not None:
            return 4 * self.model.num_adapter_parameters(rank)
        return self._size * self.model.num_parameters()

    def _settings(self, processes: Processes) -> dict[str, Any]:
        sharding = {"sharding": self._config.sharding} if self._config.sharding is not None else {}
        return {
            "num_learners": processes.num_learners,
            "num_gpus_per_learner": processes.gpus_per_learner,
            **sharding,
            "num_env_runners": processes.num_env_runners,
            "num_gpus_per_env_runner": processes.gpus_per_env_runner,
        }

    def _engine_options(self, processes: Processes, utilization: float) -> dict[str, Any]:
        options = dict(self._config.engine_options)
        if processes.is_colocated and self._config.engine == "vllm":
            options["gpu_memory_utilization"] = utilization
        return {"engine_options": options}

    def _too_large(self, settings: TrainingSettings, learner: LearnerMemory, beside: int) -> str:
        """What of a learner is too large on a GPU with so many bytes of an engine beside it, and what would help."""
        parts = ", ".join(f"{name} {value / GIB:.1f}" for name, value in asdict(learner).items() if value > 0.05 * GIB)
        of_engine = f" beside an engine's {_gib(beside)}" if beside else ""
        needs = f"a learner needs {_gib(learner.total)} ({parts}){of_engine}"
        # The share of the engine is in hundredths.
        room = self._gpu_memory - beside - (self._gpu_memory // 100 if beside else 0)
        recomputing = learner_memory(replace(settings, recomputes_layers=True))
        if not settings.recomputes_layers and recomputing.total <= room:
            return f"{needs}: with language_model(gradient_checkpointing=True) it needs {_gib(recomputing.total)}"
        if learner.without_activations <= room:
            least = learner_memory(replace(settings, micro_batch_tokens=1))
            if least.total <= room:
                per_token = (least.activations + least.logits) / settings.max_tokens
                most = int((room - learner.without_activations) / per_token)
                return f"{needs}: set training(micro_batch_tokens={most // 256 * 256 or most})"
            return f"{needs}, {_gib(least.total)} of it with one row at a time: lower max_prompt_tokens"
        helps = []
        adapter = replace(settings, lora_rank=64, bytes_per_weight=2, micro_batch_tokens=1, recomputes_layers=True)
        if settings.lora_rank is None and (with_adapter := learner_memory(adapter)).total <= room:
            helps.append(
                "with language_model(lora_rank=64, model_dtype='bfloat16', gradient_checkpointing=True) it needs "
                f"{_gib(with_adapter.total)} at least"
            )
        without = learner_memory(
            replace(settings, offloads_reference=True, micro_batch_tokens=1, recomputes_layers=True)
        )
        if learner.reference and not settings.offloads_reference and without.total <= room:
            helps.append(
                "with learners(offload_reference=True) and gradient_checkpointing=True it needs "
                f"{_gib(without.total)} at least"
            )
        most = self._num_gpus - _engine_gpus(self._config)
        spread = learner_memory(replace(settings, shards=max(1, most), micro_batch_tokens=1, recomputes_layers=True))
        if settings.shards == 1 and not settings.has_critic and most > 1 and spread.total <= room:
            helps.append(
                f"with learners(num_learners={most}, sharding='fsdp') and gradient_checkpointing=True it needs "
                f"{_gib(spread.total)} at least"
            )
        return f"{needs}: {'; '.join(helps) or 'take a smaller model, or larger GPUs'}"


def _gib(amount: float) -> str:
    return f"{amount / GIB:.1f} GiB"
