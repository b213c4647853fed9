"""From a config and the modules of an env runner to `vllm` engines, and the one that routes between them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from rllib_gigpo.inference.free_clients import FreeClient, FreeClients
from rllib_gigpo.inference.protocol import Generation, GenerationRequest
from rllib_gigpo.inference.vllm_engine import VLLMEngine
from rllib_gigpo.inference.vllm_options import VLLMSettings
from rllib_gigpo.inference.vllm_server import VLLMServer


class VLLMRouter:
    """Several modules, each behind an engine of its own: requests name the module that samples.

    Args:
        engines: By module id.
    """

    in_lock_step = False

    def __init__(self, engines: Mapping[str, VLLMEngine]):
        self._engines = engines
        self._clients = FreeClients(self._sample)

    def client(self) -> FreeClient:
        """A new client, open from now on, for requests to any module."""
        return self._clients.client()

    def abort(self) -> None:
        """Closes every client."""
        self._clients.close_all()

    def close(self) -> None:
        """Ends the processes of all engines."""
        for engine in self._engines.values():
            engine.close()

    async def _sample(self, request: GenerationRequest) -> Generation:
        if request.module_id is None or request.module_id not in self._engines:
            raise ValueError(f"module {request.module_id!r} is unknown; there are {sorted(self._engines)}")
        return await self._engines[request.module_id].sample(request)


def build_vllm_engines(config: Any, modules: Mapping[str, Any]) -> dict[str, VLLMEngine]:
    """An engine for each module; adapters over the same model share a server.

    Args:
        config: The algorithm's.
        modules: `CausalLMFacade`s by id.
    """
    of_server: dict[Hashable, list[str]] = {}
    for module_id, module in modules.items():
        of_server.setdefault(_shared_with(module_id, module), []).append(module_id)
    engines: dict[str, VLLMEngine] = {}
    try:
        for module_ids in of_server.values():
            server = VLLMServer(_settings(config, [modules[module_id] for module_id in module_ids]))
            for module_id in module_ids:
                module = modules[module_id]
                engines[module_id] = VLLMEngine(server, module, name=module_id)
    except BaseException:
        for engine in engines.values():
            engine.close()
        raise
    return {module_id: engines[module_id] for module_id in modules}


def _shared_with(module_id: str, module: Any) -> Hashable:
    """What modules have in common that one server serves."""
    own = module.model_config
    return (own["model_path"], own["dtype"]) if own["lora"] else module_id


def _settings(config: Any, modules: list[Any]) -> VLLMSettings:
    own = modules[0].model_config
    return VLLMSettings(
        model_path=own["model_path"],
        dtype=own["dtype"],
        max_tokens=config.max_sequence_tokens(),
        max_requests=config.num_envs_per_env_runner,
        lora_rank=max(module.model_config["lora"]["rank"] for module in modules) if own["lora"] else None,
        num_adapters=len(modules),
        architecture=modules[0].vllm_architecture(),
        adapts_vision_tower=not own["freeze_vision_tower"],
        sleeps=config.engine_sleep_level is not None,
        options=config.engine_options,
    )
