"""Engines by name: the built-in table, and options as they stand on a command line."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from tircli import registry
from tircli.engines import Engine
from tircli.records import InputError, Json

ENGINES = {
    "hf": "tircli.engines.hf:HFEngine",
    "openai": "tircli.engines.openai:OpenAIEngine",
    "scripted": "tircli.engines.scripted:ScriptedEngine",
    "vllm": "tircli.engines.vllm:VLLMEngine",
}
_FLAGS = {"base_urls": "--base-url", "api_key_env": "--api-key-env", "concurrency": "--concurrency"}
"""Parameters of engines that have a command-line option of their own."""


class Builder:
    """An engine's class with its options, checked before anything heavy is loaded."""

    def __init__(
        self,
        name: str,
        model: str,
        options: Iterable[str] = (),
        *,
        base_urls: Iterable[str] = (),
        api_key_env: str | None = None,
        concurrency: int | None = None,
    ) -> None:
        self._cls, self._model = registry.load("engine", name, ENGINES), model
        if not model:
            raise InputError("--model: missing; name a model folder, or replies for scripted")
        known = inspect.signature(self._cls).parameters
        self._options = _options(self._cls, name, options)
        flags = {
            "base_urls": list(base_urls),
            "api_key_env": api_key_env,
            "concurrency": concurrency,
        }
        for key, value in flags.items():
            if key in known and value:
                self._options[key] = value
            elif value and key != "concurrency":
                raise InputError(f"{_FLAGS[key]}: engine {name} takes none; it is for openai")

    @property
    def made(self) -> Json:
        """The options that change what is sampled, and not only how fast."""
        neutral = {*_FLAGS, *getattr(self._cls, "neutral", ())}
        return {key: value for key, value in self._options.items() if key not in neutral}

    def build(self) -> Engine:
        """The engine, loaded. Raises InputError or EngineError."""
        engine: Engine = self._cls(self._model, **self._options)
        return engine


def _options(cls: Any, name: str, texts: Iterable[str]) -> dict[str, Any]:
    """`key=value` texts as the keyword arguments of `cls`, by its annotations."""
    known = {
        key: parameter
        for key, parameter in inspect.signature(cls).parameters.items()
        if key != "model" and key not in _FLAGS
    }
    free = [p for p in known.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    hints = typing.get_type_hints(cls.__init__)
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f'--engine-option: "{text}"; write key=value')
        if key in known and known[key] not in free:
            options[key] = _value(key, value, hints.get(key, str))
        elif free and key not in _FLAGS:
            options[key] = _guess(value)
        else:
            choices = ", ".join(known) or "none"
            raise InputError(f"--engine-option: engine {name} has no {key}; it has {choices}")
    return options


def _value(key: str, value: str, hint: Any) -> Any:
    """`value` as `hint` wants it (a plain type, or one that may be None)."""
    kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    if str in kinds:
        return value
    try:
        return msgspec.convert(value.lower(), kinds[0], strict=False)
    except msgspec.ValidationError:
        want = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        name = getattr(kinds[0], "__name__", "")
        raise InputError(f"--engine-option: {key}={value}; write {want.get(name, name)}") from None


def _guess(value: str) -> Any:
    """A JSON value where `value` is one, else the text."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
