"""Several modules behind one gate: an engine whose requests name the module that samples."""

from __future__ import annotations

from collections.abc import Mapping

from rllib_gigpo.inference.gate import BatchGate, HFClient
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import Generation, GenerationRequest


class MultiModuleEngine:
    """Samples with one `hf` engine per module, for rollouts whose coroutines ask now one and now another.

    The gate is common to all modules: with a gate each, a module would not know of the coroutines that wait for another
    one and ask it next, and would sample whatever happened to wait in batches of its own.

    Weights are delivered to, and probed on, the engines of the modules themselves.

    Args:
        engines: By module id.
    """

    in_lock_step = True

    def __init__(self, engines: Mapping[str, HFEngine]):
        self._engines = engines
        self._gate = BatchGate(self._sample, check=self._check)

    def client(self) -> HFClient:
        """A new client, live from now on, for requests to any module."""
        return self._gate.client()

    def abort(self) -> None:
        """Closes every client, also those that a rollout which failed left behind."""
        self._gate.abort()

    def close(self) -> None:
        """Nothing runs outside of this process."""

    def _check(self, request: GenerationRequest) -> None:
        if request.module_id is None or request.module_id not in self._engines:
            raise ValueError(f"module {request.module_id!r} is unknown; there are {sorted(self._engines)}")
        self._engines[request.module_id].check(request)

    def _sample(self, requests: list[GenerationRequest]) -> list[Generation]:
        generations: dict[int, Generation] = {}
        for module_id, engine in self._engines.items():
            rows = [row for row, request in enumerate(requests) if request.module_id == module_id]
            if rows:
                generations.update(zip(rows, engine.sample([requests[row] for row in rows]), strict=True))
        return [generations[row] for row in range(len(requests))]
