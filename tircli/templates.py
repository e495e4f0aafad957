"""Text and TOML files that ship with tir, and the user's own in their place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from tircli.records import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def root() -> Path:
    """The folder of the shipped templates, in a wheel or in a checkout."""
    packaged = Path(__file__).parent / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[1] / "templates"


def names(kind: str) -> list[str]:
    """The shipped templates of one kind, sorted."""
    return sorted(path.stem for path in (root() / kind).glob("*.toml"))


def load(kind: str, name: str) -> dict[str, Any]:
    """The TOML file of a shipped `name`, or of a path. Raises InputError."""
    path = Path(name) if name.endswith(".toml") else root() / kind / f"{name}.toml"
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return data
    except FileNotFoundError:
        option = kind.removesuffix("s")
        known = ", ".join(names(kind))
        raise InputError(
            f'--{option}: no {option} "{name}"; choose one of {known}, or name a .toml file'
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not TOML ({error}); see templates/{kind}/et.toml") from None


def fill(text: str, /, **values: str) -> str:
    """`text` with every `{{name}}` replaced, in one pass: values are never filled again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values.get(found[1], found[0]), text)
