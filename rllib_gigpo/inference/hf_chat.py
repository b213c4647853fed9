"""The `hf` engine for whoever asks in text: a local model answers as a server with the same model would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rllib_gigpo.agent_formats.chat import answer_prefix, encode_prompt
from rllib_gigpo.inference.chat import ChatAnswer, ChatRequest, ChatUsage
from rllib_gigpo.inference.gate import HFClient
from rllib_gigpo.inference.hf_engine import HFEngine
from rllib_gigpo.inference.protocol import GenerationRequest, SamplingParams
from rllib_gigpo.rl_modules.model_directory import load_causal_lm, load_tokenizer, validate_model_directory

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_OPTIONS = ("dtype", "device", "max_batch_rows")


class HFChat:
    """A `ChatEngine` over an `HFEngine`.

    Args:
        model: Any causal language model.
        tokenizer: With a chat template.
        device: Where to move the model; None leaves it where it is.
        max_batch_rows: See `HFEngine`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        device: str | None = None,
        max_batch_rows: int | None = None,
    ):
        self.usage = ChatUsage()
        self._engine = HFEngine(model, tokenizer, device=device, max_batch_rows=max_batch_rows)
        self._tokenizer = tokenizer
        self._prefix = answer_prefix(tokenizer)
        self._context = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)

    @classmethod
    def of_directory(cls, path: str, options: Mapping[str, Any]) -> HFChat:
        """Loads the model of a directory.

        Args:
            path: See `validate_model_directory`.
            options: `dtype` ("float32"), `device` ("cpu"), `max_batch_rows` (None).

        Raises:
            ValueError: It cannot be loaded, or an option is unknown or wrong.
        """
        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise ValueError(f"the hf engine has no options {unknown}; there are {', '.join(_OPTIONS)}")
        validate_model_directory(path)
        model = load_causal_lm(path, dtype=options.get("dtype", "float32"))
        try:
            return cls(
                model,
                load_tokenizer(path),
                device=options.get("device"),
                max_batch_rows=options.get("max_batch_rows"),
            )
        except RuntimeError as error:  # torch's, of a device that is not there
            raise ValueError(f"the model cannot be put on device={options.get('device')!r}: {error}") from error

    async def __aenter__(self) -> HFChat:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._engine.abort()

    def client(self) -> HFChatClient:
        """A new client; the engine samples when each of its open clients waits."""
        return HFChatClient(self, self._engine.client())

    def fits(self, message: str, sampling: SamplingParams) -> bool:
        """Whether the prompt's tokens and the longest answer are within the model's positions."""
        if self._context is None:
            return True
        return len(encode_prompt(self._tokenizer, message)) + sampling.max_response_tokens <= self._context

    async def ask(self, client: HFClient, request: ChatRequest) -> ChatAnswer:
        """The answer to a request."""
        self.usage.asked(request)
        prompt_ids = encode_prompt(self._tokenizer, request.message)
        generation = await client.generate(
            GenerationRequest(prompt_ids, seed=request.seed, sampling=request.sampling, order=request.order)
        )
        self.usage.prompt_tokens += len(prompt_ids)
        self.usage.response_tokens += len(generation.response_ids)
        text = self._prefix + self._tokenizer.decode(generation.response_ids, skip_special_tokens=True)
        return ChatAnswer(text, generation.finish_reason)


class HFChatClient:
    """One coroutine's door to an `HFChat`; see `ChatClient`."""

    def __init__(self, engine: HFChat, client: HFClient):
        self._engine = engine
        self._client = client

    async def __aenter__(self) -> HFChatClient:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._client.__aexit__(*exc_info)

    async def ask(self, request: ChatRequest) -> ChatAnswer:
        return await self._engine.ask(self._client, request)
