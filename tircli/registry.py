"""Names to objects: a built-in name, or `package.module:attribute` of the user's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tircli.records import InputError, MissingExtra

_EXTRAS = {"torch": "local", "transformers": "local", "peft": "local", "vllm": "vllm"}


def load(kind: str, name: str, choices: Mapping[str, str]) -> Any:
    """The object called `name`; `choices` maps built-in names to `module:attribute`.

    Raises InputError (the choices are listed) or MissingExtra (what to install).
    """
    target = choices.get(name, name)
    module, colon, attribute = target.partition(":")
    if not colon:
        known = ", ".join(sorted(choices))
        raise InputError(
            f'--{kind}: no {kind} "{name}"; choose one of {known}, or name package.module:attribute'
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        if missing in _EXTRAS:
            raise MissingExtra(
                f"--{kind} {name}: needs {missing}; pip install 'tircli[{_EXTRAS[missing]}]'"
            ) from None
        raise InputError(f"--{kind} {name}: no module {error.name}; check the spelling") from None
    except AttributeError:
        raise InputError(f"--{kind} {name}: {module} has no {attribute}; check the name") from None
