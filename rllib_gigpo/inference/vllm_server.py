"""A vLLM engine in a process of its own, and the thread with the event loop that talks to it."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import threading
import weakref
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rllib_gigpo.inference.protocol import EngineDied
from rllib_gigpo.inference.vllm_options import VLLMSettings, engine_arguments

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams, TokensPrompt
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.async_llm import AsyncLLM

T = TypeVar("T")

_POLL_S = 1.0
_CLOSED = "the vllm engine has been closed"
_DIED = "the process of the vllm engine is gone; what it printed is in the env runner's log"

_ENVIRONMENT = {
    # As warnings it reports every layer of a tied output, and what a CPU lacks.
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Engines of several env runners on a machine would all bind their threads to the same cores.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


class VLLMServer:
    """Serves the weights of one model, with adapters where it was started for them.

    Its methods may be called from any thread; `generate` is awaited in any event loop. A slow environment in the
    caller's loop does not keep the engine waiting, nor the other way round.

    Args:
        settings: What to serve.

    Raises:
        ValueError: vLLM cannot serve that.
        RuntimeError: The engine did not start.
    """

    def __init__(self, settings: VLLMSettings):
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.settings = settings
        self._loop = asyncio.new_event_loop()
        self._request_ids = itertools.count()
        self._adapter_ids = itertools.count(1)
        self._broken: str | None = None
        self._is_asleep = False
        self._waking = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        self._llm: AsyncLLM | None = None
        try:
            self._call(_import_vllm())
            self._llm = self._call(_start(settings))
        except BaseException:
            _stop(self._loop, self._thread, None)
            raise
        # Also where nobody calls `close`, and where the interpreter ends.
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread, self._llm)

    @property
    def max_tokens(self) -> int:
        """Of a prompt with its response."""
        return self._engine().model_config.max_model_len

    def close(self) -> None:
        """Ends the engine's process."""
        self._finalizer()
        self._llm = None

    async def generate(
        self, prompt: TokensPrompt, params: SamplingParams, adapter: LoRARequest | None = None
    ) -> RequestOutput:
        """Samples one response; cancelling the call ends the request.

        Args:
            prompt: At least one token; of each image one placeholder, its pixels and its key.
            params: How to sample; one output, delivered whole.
            adapter: None for the model without one.

        Raises:
            ValueError: vLLM cannot serve the request.
            EngineDied: The engine's process is gone.
            RuntimeError: A delivery of weights has failed before.
        """
        return await asyncio.wrap_future(self._submit(self._generate(prompt, params, adapter)))

    def generate_now(
        self, prompt: TokensPrompt, params: SamplingParams, adapter: LoRARequest | None = None
    ) -> RequestOutput:
        """`generate`, waited for."""
        return self._call(self._generate(prompt, params, adapter))

    def load_weights(self, path: Path, version: int) -> None:
        """Replaces all weights by those of a file (see `weight_files`), and forgets what was computed with the old.

        Raises:
            EngineDied: The engine's process is gone.
            Exception: What vLLM raised; the server serves nothing until it gets weights.
        """
        self._call(self._load_weights(path, version))

    def load_adapter(self, path: Path, name: str) -> LoRARequest:
        """Takes in an adapter from its PEFT directory, which is not read again: there is room for all that are served.

        Every adapter gets an id and a name that no other had: vLLM takes one with a known id for the one that it has,
        and keys what it remembers of prompts by the name.

        Raises:
            EngineDied: The engine's process is gone.
            Exception: What vLLM raised; the adapters that there were are still served.
        """
        return self._call(self._load_adapter(path, name))

    def drop_adapter(self, adapter: LoRARequest) -> None:
        """Forgets an adapter."""
        self._call(self._drop_adapter(adapter))

    def sleep(self, level: int) -> None:
        """Gives the GPU's memory back until the next request or delivery: 1 keeps the weights in host memory, 2 loses
        them, so that nothing is served until they are delivered. What runs is ended."""
        self._call(self._sleep(level))

    # --- On the event loop of the engine.

    async def _generate(
        self, prompt: TokensPrompt, params: SamplingParams, adapter: LoRARequest | None
    ) -> RequestOutput:
        if self._broken is not None:
            raise RuntimeError(self._broken)
        with _engine_errors():
            await self._wake()
            outputs = self._engine().generate(
                prompt,
                params,
                request_id=str(next(self._request_ids)),
                lora_request=adapter,
            )
            output = None
            async for one in outputs:
                output = one
        if output is None:
            raise RuntimeError("the vllm engine ended a request without any output")
        return output

    async def _load_weights(self, path: Path, version: int) -> None:
        with _engine_errors():
            llm = self._engine()
            # Nothing runs between rollouts, but for what one that failed has left.
            await llm.pause_generation(mode="abort", clear_cache=True)
            try:
                await self._wake("weights")
                await self._replace_weights(path, version)
                await self._wake()
            except Exception as error:
                self._broken = (
                    f"the vllm engine serves nothing until it gets weights: version {version} did not arrive whole "
                    f"({type(error).__name__}: {error})"
                )
                raise
            self._broken = None
            await llm.resume_generation()

    async def _replace_weights(self, path: Path, version: int) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        llm = self._engine()
        await llm.start_weight_update()
        await llm.update_weights(WeightTransferUpdateRequest(update_info={"path": str(path), "version": version}))
        await llm.finish_weight_update(weight_version=str(version))
        # Weights do not take the caches with them: the next prompt would start with stale keys, and stale images.
        await self._forget_prompts()
        await llm.reset_mm_cache()
        await llm.reset_encoder_cache()

    async def _load_adapter(self, path: Path, name: str) -> LoRARequest:
        from vllm.lora.request import LoRARequest

        adapter_id = next(self._adapter_ids)
        adapter = LoRARequest(f"{name}-{adapter_id}", adapter_id, str(path))
        with _engine_errors():
            # An adapter is copied into memory that sleep gives back.
            await self._wake()
            if not await self._engine().add_lora(adapter):
                raise RuntimeError(f"the vllm engine did not take the adapter {name!r} from {path}")
        return adapter

    async def _drop_adapter(self, adapter: LoRARequest) -> None:
        with _engine_errors():
            await self._engine().remove_lora(adapter.lora_int_id)

    async def _sleep(self, level: int) -> None:
        with _engine_errors():
            await self._engine().sleep(level)
        self._is_asleep = True
        if level > 1:
            self._broken = (
                f"the vllm engine serves nothing until it gets weights: it lost them in sleep of level {level}"
            )

    async def _wake(self, *parts: str) -> None:
        """Takes memory for what is named, or for everything."""
        async with self._waking:
            if self._is_asleep:
                await self._engine().wake_up(list(parts) or None)
                self._is_asleep = bool(parts)

    async def _forget_prompts(self) -> None:
        if not await self._engine().reset_prefix_cache():
            raise RuntimeError("the vllm engine could not forget its prompts: requests are still running")

    def _engine(self) -> AsyncLLM:
        if self._llm is None:
            raise RuntimeError(_CLOSED)
        return self._llm

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed():
            coroutine.close()
            raise RuntimeError(_CLOSED)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the engine's loop, and waits for it."""
        future = self._submit(coroutine)
        while True:
            try:
                return future.result(timeout=_POLL_S)
            except TimeoutError:
                if future.done():
                    raise
                # vLLM answers requests of an engine that dies, but not calls of its methods.
                if self._llm is not None and self._llm.errored:
                    future.cancel()
                    raise EngineDied(_DIED) from None


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Raises EngineDied for vLLM's own exception, which a process without vLLM could not read."""
    from vllm.v1.engine.exceptions import EngineDeadError

    died = False
    try:
        yield
    except EngineDeadError:
        died = True
    if died:
        raise EngineDied(_DIED)


async def _import_vllm() -> None:
    """Before `_start`, whose variables would live on: vLLM keeps errors of its imports, and they their frames."""
    import vllm.v1.engine.async_llm  # noqa: F401


async def _start(settings: VLLMSettings) -> AsyncLLM:
    from vllm.distributed.weight_transfer.base import WeightTransferInitRequest
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    if settings.sleeps and not current_platform.is_sleep_mode_available():
        raise ValueError(f"engine_sleep_level needs vLLM's sleep mode, which {current_platform.device_name} has not")
    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    on_cpu = current_platform.is_cpu()
    if on_cpu:
        # The engine's process is the only worker: no third one, which would be there to bind threads to cores.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    arguments = AsyncEngineArgs(**engine_arguments(settings, on_cpu=on_cpu, known=known))
    llm = AsyncLLM.from_engine_args(arguments)
    try:
        await llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info={"sender_pid": os.getpid()}))
    except BaseException:
        llm.shutdown()
        raise
    return llm


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, llm: AsyncLLM | None) -> None:
    async def end_tasks() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # First: vLLM's task that reads the engine's answers would report its end as a death.
    asyncio.run_coroutine_threadsafe(end_tasks(), loop).result()
    if llm is not None:
        llm.shutdown()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
