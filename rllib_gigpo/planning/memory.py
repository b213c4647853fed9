"""Memory that a learner and an engine take on a GPU, estimated.

The bytes that a backward pass keeps were counted on a CPU, as the tensors that autograd saves for small models (Qwen2,
Llama, Qwen3, with and without an adapter). Nothing in here was measured on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rllib_gigpo.planning.model_dimensions import ModelDimensions

GIB = 2**30
# The CUDA context, libraries, what the allocator cannot use.
_OVERHEAD = int(1.5 * GIB)
# What an engine takes beside weights and cache, for one pass over a batch of prompts.
_ENGINE_PASS = 2 * GIB
# Kept by a backward pass, bytes per token and layer for each unit of the width of MLP, model and queries.
_SAVED = {4: (16.0, 24.0, 17.2), 2: (8.0, 16.0, 8.6)}
_SAVED_WITH_ADAPTER = {4: (16.0, 16.0, 16.0), 2: (10.0, 28.0, 12.0)}
_SAVED_BY_HEAD_NORMS = {4: 8.0, 2: 6.0}


@dataclass(frozen=True)
class TrainingSettings:
    """What a learner's memory depends on.

    Attributes:
        model: That is trained.
        bytes_per_weight: 4 for float32, 2 for bfloat16.
        lora_rank: None where all weights are trained.
        has_adam: Whether the optimizer keeps two moments of each weight.
        has_reference: Whether there is a frozen second model; with an adapter it takes no memory.
        has_critic: Whether a critic, a model of the same size, is trained too.
        is_distributed: Whether several learners exchange gradients.
        micro_batch_tokens: Tokens of a pass.
        max_tokens: Of the longest prompt with its response, which is a pass by itself where it is longer.
        response_share: Most response tokens of a pass, as a share of its tokens.
        recomputes_layers: Whether of a layer only its input is kept until the backward pass.
        shards: Over how many learners weights, gradients, moments and reference are spread; 1 where each has all.
        computes_in_bfloat16: Whether passes do, whatever the weights are; of spread models only.
        freezes_vision_tower: Whether a tower is left as it is, without an adapter too.
        offloads_reference: Whether the second model is in host memory, but for the time in which it scores.
    """

    model: ModelDimensions
    bytes_per_weight: int
    lora_rank: int | None
    has_adam: bool
    has_reference: bool
    has_critic: bool
    is_distributed: bool
    micro_batch_tokens: int
    max_tokens: int
    response_share: float
    recomputes_layers: bool = False
    shards: int = 1
    computes_in_bfloat16: bool = False
    freezes_vision_tower: bool = False
    offloads_reference: bool = False


@dataclass(frozen=True)
class LearnerMemory:
    """Bytes on a learner's GPU.

    Attributes:
        reference: Of one that is offloaded, what it takes beyond the room of activations, which are not there while it
            scores.
        gathered: Of a model that is spread: what a pass has collected from the other learners at a time.
    """

    weights: int
    gradients: int
    optimizer: int
    reference: int
    activations: int
    logits: int
    gathered: int = 0
    overhead: int = _OVERHEAD

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def without_activations(self) -> int:
        """What no smaller micro-batch makes less."""
        return self.total - self.activations - self.logits


@dataclass(frozen=True)
class EngineMemory:
    """Bytes on one of an engine's GPUs: what it cannot do without, and its cache.

    Attributes:
        weights: Of the model.
        overhead: Of a pass, and of the context.
        cache_per_request: Of a prompt and response of full length.
        cache: That there is.
        num_requests: That are worked on at once.
    """

    weights: int
    overhead: int
    cache_per_request: int
    cache: int
    num_requests: int

    @property
    def total(self) -> int:
        return self.weights + self.overhead + self.cache

    @property
    def least(self) -> int:
        """With a cache for one request of full length."""
        return self.weights + self.overhead + self.cache_per_request

    @property
    def requests_in_cache(self) -> int:
        """How many requests of full length the cache holds; short ones share it, and others wait."""
        return self.cache // max(1, self.cache_per_request)


def learner_memory(settings: TrainingSettings) -> LearnerMemory:
    """Of one learner."""
    model, size = settings.model, settings.bytes_per_weight
    all_weights = model.num_parameters()
    adapter = None if settings.lora_rank is None else model.num_adapter_parameters(settings.lora_rank)
    # An adapter is float32 whatever the model is.
    tower = model.vision if settings.freezes_vision_tower else 0
    trained = (all_weights - tower) * size if adapter is None else adapter * 4
    copies = 2 if settings.has_critic else 1
    frozen = (tower if adapter is None else all_weights) * size
    # Learners exchange gradients from buckets, copies of them.
    gradients = trained * (2 if settings.is_distributed and settings.shards == 1 else 1)
    tokens = max(settings.micro_batch_tokens, settings.max_tokens)
    computed = 2 if settings.computes_in_bfloat16 else size
    per_token = saved_bytes_per_token(model, computed, with_adapter=adapter is not None)
    if settings.recomputes_layers:
        # The inputs of all layers, and all of the one that is computed again.
        per_token = model.layers * model.hidden * computed + per_token // model.layers
    activations = tokens * per_token
    reference = _reference(settings)
    if settings.offloads_reference:
        # Of a spread one a layer at a time is there, as of the model itself.
        reference = max(0, reference - activations) if settings.shards == 1 else 0
    return LearnerMemory(
        weights=_spread(copies * (trained + frozen), settings.shards),
        gradients=_spread(copies * gradients, settings.shards),
        optimizer=_spread(copies * 2 * trained if settings.has_adam else 0, settings.shards),
        reference=_spread(reference, settings.shards),
        activations=activations,
        # Logits, their copies in float32 and their gradients.
        logits=math.ceil(tokens * settings.response_share) * model.vocabulary * (4 * computed + 16),
        gathered=0 if settings.shards == 1 else _gathered(model, computed, with_gradients=adapter is None),
    )


def offloaded_bytes(settings: TrainingSettings) -> int:
    """Of host memory that one learner takes for what is not on its GPU all the time."""
    return _spread(_reference(settings), settings.shards) if settings.offloads_reference else 0


def _reference(settings: TrainingSettings) -> int:
    """Bytes of all of a second, frozen model."""
    is_there = settings.has_reference and settings.lora_rank is None
    return settings.model.num_parameters() * settings.bytes_per_weight if is_there else 0


def _gathered(model: ModelDimensions, bytes_per_value: int, *, with_gradients: bool) -> int:
    """Bytes of whole weights in a pass over a model that is spread layer by layer, the rest as one unit: the rest, a
    layer and the next; and of the first two the gradients, which are summed in float32."""
    layer = model.num_layer_parameters()
    rest = model.num_parameters() - model.layers * layer
    gradients = (rest + layer) * (bytes_per_value + 4) if with_gradients else 0
    return (rest + 2 * layer) * bytes_per_value + gradients


def saved_bytes_per_token(model: ModelDimensions, bytes_per_weight: int, *, with_adapter: bool) -> int:
    """What all layers keep of a token until the backward pass."""
    mlp, width, queries = (_SAVED_WITH_ADAPTER if with_adapter else _SAVED)[bytes_per_weight]
    layer = mlp * model.intermediate + width * model.hidden + queries * model.query_width
    if model.has_head_norms:
        layer += _SAVED_BY_HEAD_NORMS[bytes_per_weight] * (model.query_width + model.kv_width)
    return math.ceil(layer * model.layers)


def engine_memory(
    model: ModelDimensions, *, bytes_per_weight: int, num_gpus: int, max_tokens: int, num_requests: int, room: int
) -> EngineMemory:
    """Of an engine on each of its `num_gpus`, over which weights and cache are spread.

    Args:
        model: That is served.
        bytes_per_weight: 4 for float32, 2 for bfloat16.
        num_gpus: Of the engine.
        max_tokens: Of the longest prompt with its response.
        num_requests: Worked on at once.
        room: Bytes that it may take of a GPU; what weights and passes leave of them is its cache.
    """
    weights = _spread(model.num_parameters() * bytes_per_weight, num_gpus)
    overhead = _OVERHEAD + _ENGINE_PASS
    per_request = _spread(max_tokens * model.cache_bytes_per_token(bytes_per_weight), num_gpus)
    return EngineMemory(
        weights=weights,
        overhead=overhead,
        cache_per_request=per_request,
        cache=max(0, room - weights - overhead),
        num_requests=num_requests,
    )


def _spread(amount: int, parts: int) -> int:
    return -(-amount // parts)
