"""The fixed messages between the client and a slot; none carries code or output."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import astuple, dataclass
from typing import ClassVar

KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
DONE, WALL, CPU, ASKED = 0, 1, 2, 3
"""Why a program ended: by itself, at a limit, or because the client asked."""
N_FILES = 4
"""Descriptors of a request: job, stdout, stderr, report."""
HELLO_BYTES = 1 << 16


class Garbage(Exception):
    """A message that is none of these."""


@dataclass(frozen=True)
class Request:
    """Run the program in the job file under these limits."""

    call: int
    seconds: float
    cpu_seconds: float
    memory: int
    """Bytes beyond what the template itself takes."""
    file: int
    """Bytes a file may have, the output included."""
    open_files: int
    processes: int
    form: ClassVar[struct.Struct] = struct.Struct("<4sQddQQII12x")
    magic: ClassVar[bytes] = b"tirR"


@dataclass(frozen=True)
class Kill:
    """End the program of this call now."""

    call: int
    form: ClassVar[struct.Struct] = struct.Struct("<4sQ52x")
    magic: ClassVar[bytes] = b"tirK"


@dataclass(frozen=True)
class Result:
    """What the kernel and the clocks say about a call."""

    call: int
    status: int
    """The wait status."""
    reason: int
    """DONE, WALL, CPU or ASKED."""
    ready: int
    """1 where the program's code was reached."""
    orphans: int
    """Processes that were still there and were killed."""
    last: int
    """1 where the slot ends now, as it could not clean up."""
    seconds: float
    cpu_seconds: float
    rss_kb: int
    form: ClassVar[struct.Struct] = struct.Struct("<4sQiIIIIddQ8x")
    magic: ClassVar[bytes] = b"tirD"


Message = Request | Kill | Result
SIZE = Request.form.size
READ = SIZE + (KIND != socket.SOCK_STREAM)
"""Read so much: a packet that is too long shows itself."""
assert SIZE == Kill.form.size == Result.form.size


def pack(message: Message) -> bytes:
    """The bytes of a message."""
    return message.form.pack(message.magic, *astuple(message))


def unpack(data: bytes, *kinds: type[Request] | type[Kill] | type[Result]) -> Message:
    """The message in `data`. Raises Garbage."""
    for kind in kinds:
        if len(data) == SIZE and data[:4] == kind.magic:
            return kind(*kind.form.unpack(data)[1:])
    raise Garbage(f"{len(data)} bytes that are no message: {data[:16]!r}")
