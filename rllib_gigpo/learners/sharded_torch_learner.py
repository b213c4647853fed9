"""A torch learner that can share its models with other learners (FSDP2), whose state is numpy arrays, and that can be
watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.utils.annotations import override
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rllib_gigpo.inference.weights_probe import Probe
from rllib_gigpo.learners.learner_progress import count_pass, reported
from rllib_gigpo.learners.optimizers import map_buffers
from rllib_gigpo.rl_modules.causal_lm_rl_module import MODEL_PATH
from rllib_gigpo.rl_modules.sharded_tensors import like
from rllib_gigpo.rl_modules.weights import array_to_tensor, tensor_to_array

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FSDP = "fsdp"


class ShardedTorchLearner(TorchLearner):
    """With config.sharding "fsdp" a learner holds a part of each model and of its optimizer's state; with None it holds
    all of them, as RLlib's does (DDP where there are several).

    A sharded learner cannot be asked for its state alone: `ShardedLearnerGroup` asks all at once. Read from the config
    besides: mixed_precision (of sharded models: passes compute in bfloat16).
    """

    _mesh: DeviceMesh | None = None

    def policy_ids(self) -> list[str]:
        """The modules that act, sorted."""
        return sorted(self.module.keys())

    def learning_rate(self, module_id: str) -> Any:
        """A number, or a schedule [[timestep, value], …]."""
        raise NotImplementedError

    def probe(self, module_id: str) -> tuple[Probe, np.ndarray]:
        """What proves the weights of a module to an engine, and their log-probs of it."""
        raise NotImplementedError

    @override(TorchLearner)
    def build(self) -> None:
        super().build()
        self._gathered_optimizers: dict[str, Any] | None = None
        self._gathered_probes: dict[str, tuple[Probe, np.ndarray]] = {}

    @override(TorchLearner)
    def _make_module(self) -> MultiRLModule:
        if self.config.sharding != FSDP:
            return super()._make_module()
        # Nobody needs the whole model: each learner reads its part once it is clear which that is.
        with torch.device("meta"):
            module = Learner._make_module(self)
        self._mesh = init_device_mesh(self._device.type, (torch.distributed.get_world_size(),))
        # Here, since optimizers are made next, and of the parts.
        for module_id in sorted(module.keys()):
            self.shard(module[module_id].network, module[module_id].model_config[MODEL_PATH])
        return module

    @override(TorchLearner)
    def _make_modules_ddp_if_necessary(self) -> None:
        if self._mesh is None:
            super()._make_modules_ddp_if_necessary()

    def call_reported(self, method: str, key: str, interval_s: float, **arguments: Any) -> Any:
        """What a method returns; meanwhile the driver is told how far it has got, see `reported`."""
        with reported(key, interval_s):
            return getattr(self, method)(**arguments)

    def shard(self, network: PreTrainedModel, model_path: str, *, offload: bool = False) -> None:
        """Spreads a model, whose weights may be on the meta device and are those at `model_path` then, over the
        learners, in place; with `offload` its parts stay in host memory."""
        from rllib_gigpo.rl_modules.sharded_network import read_missing_weights, shard_network

        assert self._mesh is not None
        shard_network(network, self._mesh, mixed_precision=self.config.mixed_precision, offload=offload)
        read_missing_weights(network, model_path, "cpu" if offload else self._device)

    def gather(self, *, with_optimizers: bool) -> None:
        """Collects the whole state on the first learner, in host memory; all learners must be asked at once.

        Until `release` the first learner answers `get_state` and `probe`, and saves itself, as one that is not sharded.
        """
        keep = self._learner_index == 0
        for module_id in self.policy_ids():
            probe = self.probe(module_id)
            self.module[module_id].gather(keep=keep)
            count_pass()
            if keep:
                self._gathered_probes[module_id] = probe
        if with_optimizers:
            states = self._whole_optimizer_states()
            self._gathered_optimizers = states if keep else None

    def release(self) -> None:
        """Drops what `gather` has collected."""
        for module_id in self.policy_ids():
            self.module[module_id].release()
        self._gathered_probes = {}
        self._gathered_optimizers = None

    # RLlib's own conversion of optimizer state knows no bfloat16, and no parts.

    @override(TorchLearner)
    def _get_optimizer_state(self) -> dict[str, Any]:
        if self._mesh is None:
            return self._whole_optimizer_states()
        if self._gathered_optimizers is None:
            raise RuntimeError("the optimizers' state is spread over all learners; read it through ShardedLearnerGroup")
        return self._gathered_optimizers

    def _whole_optimizer_states(self) -> dict[str, Any]:
        return {
            name: {
                "module_id": self._optimizer_name_to_module[name],
                "state": map_buffers(_whole_buffer, optimizer.state_dict()),
            }
            for name, optimizer in self._named_optimizers.items()
        }

    @override(TorchLearner)
    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        super()._set_optimizer_state(
            {name: {**entry, "state": self._own_part(name, entry["state"])} for name, entry in state.items()}
        )
        for name, optimizer in self._named_optimizers.items():
            lr = self.learning_rate(self._optimizer_name_to_module[name])
            # A schedule goes on where the checkpoint left it. A fixed rate is the config's, which may have changed: a
            # trial of population-based training takes another's checkpoint and keeps its own rate.
            if isinstance(lr, int | float):
                self._set_optimizer_lr(optimizer, lr)

    def _own_part(self, name: str, state: dict[str, Any]) -> dict[str, Any]:
        """An optimizer's whole state, arrays, as tensors; of buffers that are spread like their parameter, the part."""
        optimizer = self._named_optimizers.get(name)
        params = [] if optimizer is None else [param for group in optimizer.param_groups for param in group["params"]]

        def part(index: int, array: np.ndarray) -> torch.Tensor:
            buffer = array_to_tensor(array)
            # A count of steps has no shape, and belongs to a parameter as a whole.
            is_spread = self._mesh is not None and buffer.shape == params[index].shape
            return like(params[index].detach(), buffer) if is_spread else buffer

        return map_buffers(part, state)


def _whole_buffer(_: int, buffer: torch.Tensor) -> np.ndarray:
    count_pass()  # of a large model, all buffers together take longer than learners may be silent
    return tensor_to_array(buffer)
