"""Where a model lies; without loading anything."""

from __future__ import annotations

from pathlib import Path

from tircli.records import InputError


def source(model: str) -> str:
    """`model` as a folder or a hub name. Raises InputError."""
    folder = Path(model).expanduser()
    here = folder.is_dir()
    if not here and (model.count("/") != 1 or model[0] in "/.~"):
        raise InputError(f"model {model}: no such folder; give a model folder or a hub name")
    if here and not (folder / "config.json").is_file():
        raise InputError(f"model {model}: no config.json in it; give a Hugging Face model folder")
    return str(folder) if here else model


def first_line(error: BaseException) -> str:
    """What `error` says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
