"""What the RLModules of policy and critic share: a transformers network, and checkpoints that need no pickle."""

from __future__ import annotations

import pathlib
import tempfile
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow.fs
from ray.rllib.core.rl_module.torch.torch_compile_config import TorchCompileConfig
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.annotations import override
from ray.rllib.utils.checkpoints import Checkpointable

from rllib_gigpo.rl_modules.sharded_tensors import is_sharded
from rllib_gigpo.rl_modules.weights import get_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class WeightsFolderRLModule(TorchRLModule):
    """Base of modules that keep their weights in a folder of their checkpoint, on any filesystem."""

    # The folder's name within a checkpoint.
    weights_folder: ClassVar[str]

    @property
    def network(self) -> PreTrainedModel:
        """The transformers model that the forward pass goes through."""
        raise NotImplementedError

    # All weights of a sharded network, on one of its learners, between `gather` and `release`.
    _gathered: dict[str, np.ndarray] | None = None

    def network_weights(self, *, copy: bool = True) -> dict[str, np.ndarray]:
        """The network's weights by name, copied or not, see `rllib_gigpo.rl_modules.weights.get_weights`.

        Raises:
            RuntimeError: They are spread over several learners, and have not been gathered.
        """
        if self._gathered is not None:
            return self._gathered
        if is_sharded(self.network):
            raise RuntimeError(
                "the weights are spread over all learners; read them through ShardedLearnerGroup: get_state, "
                "save_to_path, or within `gathered`"
            )
        return get_weights(self.network, copy=copy)

    def gather(self, *, keep: bool) -> None:
        """Collects the weights of a sharded network, an exchange in which all its learners take part.

        Args:
            keep: Whether this is the learner that is going to read them; the others do not hold them.
        """
        weights = get_weights(self.network)
        self._gathered = weights if keep else None

    def release(self) -> None:
        """Drops what `gather` has collected."""
        self._gathered = None

    def checkpoint_gradients(self) -> None:
        """Has the layers compute their activations again in the backward pass, where they would be kept for it."""
        # The reentrant kind gives no gradients to an adapter over a frozen embedding.
        self.network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    @override(TorchRLModule)
    def compile(self, compile_config: TorchCompileConfig) -> None:
        """Compiles the network at its next forward pass; names of weights stay."""
        # Micro-batches have a shape each: without symbolic shapes each would be compiled on its own.
        self.network.compile(
            backend=compile_config.torch_dynamo_backend,
            mode=compile_config.torch_dynamo_mode,
            dynamic=True,
            **compile_config.kwargs,
        )

    def write_weights(self, directory: str, state: dict[str, np.ndarray] | None) -> None:
        """Writes the weights, those of `state` where given, into a local directory, which may not exist yet."""
        raise NotImplementedError

    def read_weights(self, directory: str) -> None:
        """Takes the weights of a local directory. Raises ValueError where it holds none, or those of another model."""
        raise NotImplementedError

    @override(Checkpointable)
    def save_to_path(
        self,
        path: str | pathlib.Path | None = None,
        *,
        state: dict[str, np.ndarray] | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        use_msgpack: bool = False,
    ) -> str:
        """Writes a checkpoint with the weights in `weights_folder`; returns its path."""
        filesystem, path = _resolve(path, filesystem)
        # The base class writes what RLlib needs to build the module again, and a state file: kept free of weights.
        saved = super().save_to_path(
            path, state={"weights": self.weights_folder}, filesystem=filesystem, use_msgpack=use_msgpack
        )
        folder = f"{saved}/{self.weights_folder}"
        if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
            self.write_weights(folder, state)
        else:
            with tempfile.TemporaryDirectory() as local:
                self.write_weights(local, state)
                filesystem.create_dir(folder)
                pyarrow.fs.copy_files(
                    local,
                    folder,
                    source_filesystem=pyarrow.fs.LocalFileSystem(),
                    destination_filesystem=filesystem,
                )
        return saved

    @override(Checkpointable)
    def restore_from_path(
        self,
        path: str | pathlib.Path,
        *,
        component: str | None = None,
        filesystem: pyarrow.fs.FileSystem | None = None,
        **kwargs: object,
    ) -> None:
        """Reads the weights of a checkpoint.

        Raises:
            ValueError: `path` holds no complete `weights_folder`, or one of another model.
        """
        filesystem, root = _resolve(path, filesystem)
        self.load_weights(f"{root}/{self.weights_folder}", filesystem)

    def load_weights(self, folder: str, filesystem: pyarrow.fs.FileSystem) -> None:
        """`read_weights` of a folder that need not be local. Loads no pickle."""
        if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
            self.read_weights(folder)
        else:
            with tempfile.TemporaryDirectory() as local:
                pyarrow.fs.copy_files(
                    folder,
                    local,
                    source_filesystem=filesystem,
                    destination_filesystem=pyarrow.fs.LocalFileSystem(),
                )
                self.read_weights(local)


def _resolve(
    path: str | pathlib.Path | None, filesystem: pyarrow.fs.FileSystem | None
) -> tuple[pyarrow.fs.FileSystem, str | pathlib.Path | None]:
    """Splits a URI such as s3://bucket/folder into its filesystem and the path on it; a plain path is local."""
    if filesystem is None and path is not None and "://" in str(path):
        return pyarrow.fs.FileSystem.from_uri(str(path))
    return filesystem or pyarrow.fs.LocalFileSystem(), path
