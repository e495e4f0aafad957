"""Folders that hold an index: they appear whole or not at all, and say what is in them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tircli.records import InputError

FORMAT = 1
Show = Callable[[int], None]
"""Told how many passages are done."""


class Stale(InputError):
    """An unfinished index that was begun with another corpus."""


def read_meta(folder: Path) -> dict[str, Any]:
    """What `meta.json` in `folder` says. Raises InputError where there is no index of ours."""
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text("utf-8"))
        version, _ = meta["format"], meta["backend"]
    except FileNotFoundError:
        raise InputError(f"{folder}: no index; make one with tir index") from None
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{folder}/meta.json: damaged; make the index again") from None
    if version != FORMAT:
        raise InputError(
            f"{folder}: an index of format {version}, this tir reads {FORMAT}; make it again"
        )
    return meta


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Write `meta.json`: at once, so that no reader sees half of it."""
    fresh = folder / "meta.json.new"
    fresh.write_text(json.dumps({"format": FORMAT, **meta}, indent=1) + "\n", "utf-8")
    os.replace(fresh, folder / "meta.json")


def part_of(target: Path) -> Path:
    """Where `target` stands while it is being made."""
    return target.with_name(target.name + ".part")


@contextlib.contextmanager
def building(target: Path, *, resume: bool) -> Iterator[Path | None]:
    """The folder to build `target` in; renamed to it at the end, kept for `resume` on a failure.

    One process at a time: a second waits. None if another has made `target` meanwhile.
    """
    part = part_of(target)
    before = _identity(target)
    while True:
        part.mkdir(parents=True, exist_ok=True)
        lock = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _identity(part) == os.fstat(lock).st_ino:
            break
        os.close(lock)
        if _identity(target) != before:
            yield None
            return
    try:
        if not resume:
            for path in part.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield part
        for path in part.iterdir():
            if path.is_file():
                _sync(path)
        old = target.with_name(target.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            os.replace(target, old)
        os.replace(part, target)
        _sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(target / "segments", ignore_errors=True)
    except BaseException:
        if not (part / "state.json").exists():
            shutil.rmtree(part, ignore_errors=True)  # Nothing in it that could be gone on with.
        raise
    finally:
        os.close(lock)


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def state_of(path: str) -> dict[str, int]:
    """What tells at a glance whether a file may have changed. Raises InputError."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the path") from None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def cached(corpus: str, backend: str) -> Path:
    """Where the index of a corpus file is kept: beside it, else in the user's cache."""
    path = Path(corpus).resolve()
    name = f"{path.name}.tir-{backend}"
    if (path.parent / name).is_dir() or os.access(path.parent, os.W_OK):
        return path.parent / name
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "tircli" / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}-{name}"
