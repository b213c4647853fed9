"""vLLM's weight transfer from a file in shared memory; runs in the workers of an engine, which import it by name."""

from __future__ import annotations

from dataclasses import dataclass

from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload.layerwise import finalize_layerwise_reload, initialize_layerwise_reload

from rllib_gigpo.inference.vllm_weights import end_with, repack_tied_output_layers
from rllib_gigpo.inference.weight_files import check_version


@dataclass
class InitInfo(WeightTransferInitInfo):
    """The process that sends weights: the engine ends with it."""

    sender_pid: int


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    """A safetensors file with all weights, by their names in the Hugging Face model, and their version."""

    path: str
    version: int


class FileWeightTransferEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    """Replaces all weights of the model by those of a file."""

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        end_with(init_info.sender_pid)

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: UpdateInfo) -> None:
        try:
            with safe_open(update_info.path, framework="pt") as file:
                check_version(file.metadata(), update_info.version, update_info.path)
                self.model.load_weights((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        except BaseException:
            # vLLM ends the update and leaves layers half empty: the next update would add to what is in them.
            self.finish_weight_update()
            raise

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        repack_tied_output_layers(self.model)

    def shutdown(self) -> None:
        """Nothing to release."""
