"""The processes of the attack tests; run as a script: `confine`, `serve`, `control` or `pool`.

confine CONFIG COMMAND...  take away what CONFIG lacks, then become COMMAND
serve SECONDS CPU OPTIONS  answer programs on stdin through tircli's python tool
control SECONDS            run the program on stdin by plain `python -c`, say how it went
pool                       a naive warm worker: exec in this very process, report by a pipe
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import ctypes
import errno
import io
import json
import os
import platform
import resource
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

UID = 12345
FLOOD = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 4096, 16384, 1 << 18, 2
ANY_NEW_NAMESPACE = 0x7E020000

# What the default profile of a container engine refuses without CAP_SYS_ADMIN, by number.
REFUSED = {
    "x86_64": "134 135 136 139 153 154 155 156 163 165 166 167 168 169 172 173 174 175 176 177 178 "
    "179 180 205 211 212 227 237 238 246 248 249 250 256 272 279 298 300 303 304 305 308 312 313 "
    "320 321 323 425 426 427 428 429 430 431 432 433 442 443",
    "aarch64": "18 39 40 41 42 51 58 60 89 92 97 104 105 106 112 142 217 218 219 224 225 235 236 "
    "237 238 239 241 262 264 265 266 268 272 273 280 282 294 425 426 427 428 429 430 431 432 433 "
    "442 443",
}
CLONE = {"x86_64": 56, "aarch64": 220}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE3, LANDLOCK = 435, (444, 445, 446)
CONTAINER_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)


@dataclass(frozen=True)
class Config:
    """What a configuration takes away."""

    user: bool = False
    """Run as an ordinary user, not as root."""
    container: bool = False
    """No namespaces, no mounts, 14 capabilities, as in a container."""
    landlock: bool = True
    options: dict[str, object] = field(default_factory=dict)
    """What the tool is asked for."""


CONFIGS = {
    "own": Config(),
    "scratch": Config(options={"scratch_mb": 16}),
    "user": Config(user=True),
    "container-root": Config(container=True),
    "container-user": Config(user=True, container=True),
    "no-landlock": Config(landlock=False),
    "container-user-no-landlock": Config(
        user=True, container=True, landlock=False, options={"layers": "weak"}
    ),
}


def ok(result: int, what: str) -> None:
    """Raise OSError where a call of libc failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def filter_program(config: Config) -> list[tuple[int, int, int, int]]:
    """The seccomp filter that makes this machine look like `config`."""
    machine = platform.machine()
    refuse = [(int(n), errno.EPERM) for n in REFUSED[machine].split()] if config.container else []
    refuse += [(n, errno.ENOSYS) for n in LANDLOCK if not config.landlock]
    rules = [(0x20, 0, 0, 4), (0x15, 1, 0, AUDIT[machine]), (0x06, 0, 0, 0x7FFF0000)]
    rules.append((0x20, 0, 0, 0))
    if config.container:
        refuse.append((CLONE3, errno.ENOSYS))
        rules += [(0x15, 0, 4, CLONE[machine]), (0x20, 0, 0, 16), (0x45, 0, 1, ANY_NEW_NAMESPACE)]
        rules += [(0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
    for number, error in refuse:
        rules += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error)]
    return [*rules, (0x06, 0, 0, 0x7FFF0000)]


def install(rules: list[tuple[int, int, int, int]]) -> None:
    """Set the filter on this process and all that come of it."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code))
    )
    if os.getuid():
        ok(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    ok(libc.prctl(22, 2, program, 0, 0), "seccomp")


def private_mounts() -> None:
    """Own mounts: the interpreter where anybody may read it, no control groups."""
    ok(libc.unshare(CLONE_NEWNS), "unshare")
    ok(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private /")
    closed: dict[Path, dict[Path, int]] = {}
    for name in {sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), __file__}:
        path = Path(name).absolute()
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 0o001:
                closed.setdefault(folder, {})[path] = os.open(path, os.O_PATH)
                break
    for folder, paths in closed.items():
        ok(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"mode=755"), f"tmpfs {folder}")
        for path, fd in sorted(paths.items()):
            if path.exists():  # under one that is there by now
                continue
            path.mkdir(parents=True) if os.path.isdir(f"/proc/self/fd/{fd}") else path.touch()
            source = os.fsencode(f"/proc/self/fd/{fd}")
            ok(libc.mount(source, os.fsencode(path), None, MS_BIND, None), f"bind {path}")
            os.close(fd)
    libc.umount2(b"/sys/fs/cgroup", MNT_DETACH)


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """Drop every capability but `kept`, for good."""
    for number in range(64):
        if number not in kept:
            libc.prctl(24, number, 0, 0, 0)  # those above the last one do not exist
    word = sum(1 << number for number in kept)
    data = (ctypes.c_uint32 * 6)(word, word, 0, 0, 0, 0)
    ok(libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), data), "capset")


def confine(name: str) -> None:
    """Take away from this process what the configuration `name` lacks."""
    config = CONFIGS[name]
    root = os.getuid() == 0
    if root and (config.user or config.container):
        private_mounts()
    if config.container or not config.landlock:
        install(filter_program(config))
    if root and config.user:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    elif root and config.container:
        keep_capabilities(CONTAINER_CAPABILITIES)


def say(message: dict[str, object]) -> None:
    """Write `message` as one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def serve(seconds: float, cpu_seconds: float, options: dict[str, object]) -> None:
    """Answer one program a line, in order, until stdin ends."""
    from tircli.records import ToolUnavailable
    from tircli.tools import ToolResult
    from tircli.tools.python import PythonTool

    tool = PythonTool(seconds=seconds, cpu_seconds=cpu_seconds, **{"slots": 1, **options})
    libc.prctl(36, 1, 0, 0, 0)  # orphans become children of this process, and are seen
    await tool.sandbox.start()
    queue: asyncio.Queue[asyncio.Task[ToolResult] | None] = asyncio.Queue()

    async def answer() -> None:
        while (task := await queue.get()) is not None:
            try:
                result = await task
            except ToolUnavailable as error:
                result = ToolResult(str(error), "unavailable")
            reply = {
                "status": result.status,
                "output": result.output,
                "extra": result.extra,
                "layers": tool.sandbox.layers,
            }
            say(reply)

    answering = asyncio.create_task(answer())
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            queue.put_nowait(asyncio.create_task(tool.run(json.loads(line)["code"])))
        queue.put_nowait(None)
        await answering
    finally:
        await tool.aclose()


def descendants(pid: int) -> dict[int, str]:
    """Every process below `pid`, with its name."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                head, tail = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)
                parents[int(entry)] = int(tail.split()[1])
                names[int(entry)] = head.split("(", 1)[1]
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: names[child] for child in found - {pid}}


def read_some(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bool]:
    """What `process` writes until it ends, floods or runs out of time; True where it ran out."""
    assert process.stdout is not None
    fd, text, end = process.stdout.fileno(), b"", time.monotonic() + seconds
    os.set_blocking(fd, False)
    while len(text) < FLOOD and time.monotonic() < end:
        ended = process.poll() is not None  # asked before the pipe, so that no text is lost
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            data = b""
        text += data
        if ended and not data:
            return text, False
        if not data:
            time.sleep(0.01)
    return text, len(text) < FLOOD


def control(seconds: float) -> None:
    """Run the program on stdin without a sandbox; print what came of it as JSON."""
    code = sys.stdin.read()
    libc.prctl(36, 1, 0, 0, 0)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,
        start_new_session=True,
    )
    text, overran = read_some(process, seconds)
    left = [pid for pid in descendants(os.getpid()) if pid != process.pid]
    for pid in (process.pid, *left):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code_of_end = process.wait()
    say(
        {
            "returncode": None if overran else code_of_end,
            "overran": overran,
            "left": len(left),
            "flooded": len(text) >= FLOOD,
            "text": text[:200_000].decode("utf-8", "replace"),
        }
    )


def pool(report: int) -> None:
    """The papers' way: one warm interpreter runs every program and writes its own report."""
    sys.path.insert(0, "")
    for line in sys.stdin:
        job, out, value, status = json.loads(line), io.StringIO(), None, "ok"
        try:
            tree = ast.parse(job["code"])
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            space = {"__name__": "__main__"}
            with contextlib.redirect_stdout(out):
                exec(compile(tree, "<code>", "exec"), space)
                if isinstance(last, ast.Expr):
                    value = repr(eval(compile(ast.Expression(last.value), "<code>", "eval"), space))
        except Exception as error:
            status, value = "error", f"{type(error).__name__}: {error}"
        message = {"status": status, "output": out.getvalue(), "value": value}
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(report, data) :]


def main() -> None:
    """One of the four."""
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    what, *rest = sys.argv[1:]
    if what == "confine":
        confine(rest[0])
        os.execv(rest[1], rest[1:])
    elif what == "serve":
        asyncio.run(serve(float(rest[0]), float(rest[1]), json.loads(rest[2])))
    elif what == "control":
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        control(float(rest[0]))
    elif what == "pool":
        pool(int(rest[0]))
    else:
        raise SystemExit(f"no such part: {what}")


if __name__ == "__main__":
    main()
