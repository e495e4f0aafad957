"""The `vllm` engine: vLLM in this process through its asynchronous engine, ids in and out.

Options (`--engine-option key=value`) are the fields of vLLM's AsyncEngineArgs by their names,
for example dtype, tensor_parallel_size, gpu_memory_utilization, max_model_len, enforce_eager;
and `lora`, the folder of an adapter.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from tircli.engines import Completion, Sampling
from tircli.engines.folder import first_line, source
from tircli.records import EngineError, InputError, MissingExtra, TurnError

os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for records
try:
    from vllm import SamplingParams
    from vllm import exceptions as vllm_exceptions
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.lora.request import LoRARequest
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError
except ImportError as _error:
    raise MissingExtra(f"engine vllm needs {_error.name}; pip install 'tircli[vllm]'") from _error
from tircli.engines.tokens import Tokens

_REFUSALS = (ValueError, getattr(vllm_exceptions, "VLLMClientError", ValueError))
"""What vLLM raises, by its version, for a request that it does not accept."""


class VLLMEngine:
    """A local folder or hub name, continued by vLLM; see `Engine`."""

    name = "vllm"
    neutral = frozenset(
        {
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "gpu_memory_utilization",
            "kv_cache_memory_bytes",
            "enforce_eager",
            "enable_prefix_caching",
            "max_num_seqs",
            "max_num_batched_tokens",
            "swap_space",
            "cpu_offload_gb",
            "disable_log_stats",
            "enable_log_requests",
        }
    )

    def __init__(self, model: str, *, lora: str = "", **options: Any) -> None:
        known = {field.name for field in fields(AsyncEngineArgs)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise InputError(
                f"--engine-option: vLLM has no {', '.join(unknown)}; see its engine arguments"
            )
        self.model, self._numbers = model, itertools.count()
        folder = source(model)
        tokens = self._tokens = Tokens(model)
        self.render, self.render_turn = tokens.render, tokens.render_turn
        self.encode, self.decode = tokens.encode, tokens.decode
        self._lora = _adapter(lora)
        if self._lora is not None:
            options = {"enable_lora": True, "max_lora_rank": _rank(lora)} | options
        # Log-probabilities before temperature and top-p, whatever vLLM's default becomes.
        options = {"logprobs_mode": "raw_logprobs", "disable_log_stats": True} | options
        try:
            arguments = AsyncEngineArgs(model=folder, **options)
            self._engine: AsyncLLM | None = AsyncLLM.from_engine_args(arguments)
        except (ValueError, TypeError, OSError, RuntimeError, AssertionError) as error:
            raise InputError(f"model {model}: vLLM does not start: {first_line(error)}") from error
        self.context: int | None = self._engine.model_config.max_model_len

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The continuation of `ids`. Raises TurnError for this turn, EngineError for all."""
        parameters = self._parameters(sampling)
        if self._engine is None:
            raise EngineError(f"model {self.model}: the engine is closed")
        name = f"{sampling.key}/{sampling.turn}/{next(self._numbers)}"
        prompt: Any = {"prompt_token_ids": ids}
        final = None
        try:
            turns = self._engine.generate(prompt, parameters, name, lora_request=self._lora)
            async for output in turns:
                final = output
        except EngineDeadError as error:
            raise EngineError(f"model {self.model}: vLLM died: {first_line(error)}") from error
        except (*_REFUSALS, EngineGenerateError) as error:
            raise TurnError(f"model {self.model}: {first_line(error)}") from error
        if final is None or not final.outputs:
            raise TurnError(f"model {self.model}: vLLM gave no output")
        return self._completion(final.outputs[0], sampling)

    def _parameters(self, sampling: Sampling) -> SamplingParams:
        """What vLLM calls `sampling`. Raises InputError for what it does not allow."""
        try:
            return SamplingParams(
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=max(sampling.top_p, 1e-6),  # 0, the most likely token alone, is refused
                stop=list(sampling.stop),
                include_stop_str_in_output=True,
                seed=sampling.seed,
                logprobs=sampling.top_logprobs,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
        except _REFUSALS as error:
            raise InputError(f"engine vllm: {first_line(error)}; change that option") from error

    async def aclose(self) -> None:
        """Stop vLLM and its worker processes."""
        if self._engine is not None:
            self._engine.shutdown()
        self._engine = None  # It would shut down once more when the interpreter is half gone.

    def _completion(self, output: Any, sampling: Sampling) -> Completion:
        ids = list(output.token_ids)
        text, stop = self.decode(ids), None
        if output.finish_reason == "stop" and isinstance(output.stop_reason, str):
            finish, stop = "stop", output.stop_reason
        elif output.finish_reason in ("stop", "length"):
            finish = {"stop": "eos"}.get(output.finish_reason, "length")
        else:
            raise TurnError(f"model {self.model}: vLLM ended a turn by {output.finish_reason}")
        sampled, tops = [], []
        for token, ranked in zip(ids, output.logprobs or (), strict=True):
            sampled.append(ranked[token].logprob)
            best = sorted((entry.logprob for entry in ranked.values()), reverse=True)
            tops.append(best[: sampling.top_logprobs])
        return Completion(ids, text, finish, stop, sampled, tops)


def _adapter(folder: str) -> LoRARequest | None:
    """The adapter in `folder`, which must exist; None without one."""
    if not folder:
        return None
    path = Path(folder).expanduser()
    if not (path / "adapter_config.json").is_file():
        raise InputError(
            f"--engine-option lora={folder}: no adapter_config.json; give a PEFT folder"
        )
    return LoRARequest(path.name, 1, str(path.resolve()))


def _rank(folder: str) -> int:
    """The rank that vLLM must make room for: one of the steps that it knows."""
    config = json.loads((Path(folder).expanduser() / "adapter_config.json").read_text("utf-8"))
    rank = int(config.get("r", 16))
    return next((step for step in (8, 16, 32, 64, 128, 256, 320, 512) if step >= rank), rank)
