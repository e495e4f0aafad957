"""How a slot locks itself in: the layers in their order, and the test that they hold."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import site
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tircli.tools.python import child, layers, warm
from tircli.tools.python.seccomp import Filter, supported
from tircli.tools.python.seccomp import build as build_filter
from tircli.tools.python.wire import Request

NOBODY = 65534
CAP_SYS_ADMIN = 21
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
OTHERS = ("/usr/share/zoneinfo",)
SCRATCH = layers.SCRATCH
SLACK = 256
"""Threads that the user's other processes may start later, where all are counted together."""


class Layers(dict[str, Any]):
    """Layer -> True, its version, or the reason why it is not there."""

    def __init__(self, off: Sequence[str]) -> None:
        super().__init__()
        self.off = frozenset(off)

    @contextlib.contextmanager
    def trying(self, name: str) -> Iterator[bool]:
        """Note whether the block's layer could be had; yields False where it is switched off."""
        if name in self.off:
            self[name] = "switched off"
            yield False
            return
        try:
            yield True
        except OSError as error:
            self[name] = error.strerror or str(error)
        else:
            self.setdefault(name, True)

    def on(self, name: str) -> bool:
        """True where the layer holds."""
        return bool(self.get(name)) and not isinstance(self[name], str)


def readable_paths(extra: Sequence[str]) -> list[str]:
    """The files and folders that a program may read: python's own, and shared libraries."""
    kinds = sysconfig.get_paths()
    own = [kinds[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    own += [os.path.join(sys.base_prefix, "lib")] if sys.base_prefix != "/usr" else []
    own += site.getsitepackages()
    own += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    paths = dict.fromkeys([*own, *LIBRARIES, *OTHERS, *DEVICES, *extra])
    return [path for path in paths if os.path.isabs(path) and os.path.exists(path)]


def _spaces(state: Layers, proc: int) -> None:
    """Put this process into what namespaces there are."""
    uid, gid = os.getuid(), os.getgid()
    if not layers.capabilities(proc) >> CAP_SYS_ADMIN & 1:
        with state.trying("user") as wanted:
            if wanted:
                layers.unshare(layers.NEWUSER)
                layers.map_ids(proc, uid, gid)
    for name, flag in layers.SPACES.items():
        with state.trying(name) as wanted:
            if wanted:
                layers.unshare(flag)
    if state.on("uts"):
        socket.sethostname("sandbox")


def build(config: dict[str, Any], state: Layers) -> int | None:
    """The keeper's part: the namespaces; an open /proc, None where there is none."""
    names = [name for name in config["imports"] if name != "*"]
    config["paths"] = readable_paths(warm.places(names))
    config["devnull"] = os.open(os.devnull, os.O_RDWR)
    if not layers.LINUX:
        missing = dict.fromkeys(("user", *layers.SPACES, "landlock", "seccomp"), "Linux only")
        state.update(missing)
        return None
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    _spaces(state, proc)
    return proc


def _drop_user(state: Layers, proc: int, paths: Sequence[str]) -> None:
    """As root: become a user that owns nothing, where that one can read python's files.

    Where it can't, only the real user changes: threads are counted by that one.
    """
    if os.getuid() != 0:
        state["uid"] = "not root: programs run as the user of tir"
        return
    with state.trying("uid") as wanted:
        if not wanted:
            return
        os.setgroups([])
        os.seteuid(NOBODY)
        try:
            for path in (os.__file__, *paths):
                os.close(os.open(path, os.O_RDONLY))
        except PermissionError:
            os.seteuid(0)
            os.setresuid(NOBODY, 0, 0)
            raise PermissionError(0, "stays root: others can't read python's files") from None
        os.seteuid(0)
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        layers.prctl(layers.PR_SET_DUMPABLE, 1)  # else /proc/self is root's
        if "user" not in state:
            with state.trying("user") as also:
                if also:
                    layers.unshare(layers.NEWUSER)
                    layers.map_ids(proc, NOBODY, NOBODY)


def _threads(proc: int) -> int:
    """Threads that the kernel counts together with those of a program."""
    count, user = 0, os.getuid()
    for name in filter(str.isdigit, os.listdir(proc)):
        with contextlib.suppress(OSError):  # it ended, or is another user's to look into
            if os.stat(name, dir_fd=proc).st_uid == user:
                fd = os.open(f"{name}/task", os.O_RDONLY, dir_fd=proc)
                try:
                    count += len(os.listdir(fd))
                finally:
                    os.close(fd)
    return count


def empty(folder: str) -> bool:
    """Remove all that is in `folder`; False where that can't be done."""
    try:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    except (OSError, RecursionError):
        return False
    return True


class Reaper:
    """Ends and collects what a call has left behind."""

    def __init__(self, alone: bool, proc: int | None) -> None:
        self.alone = alone
        self.children = -1
        if not alone and proc is not None:
            with contextlib.suppress(FileNotFoundError):  # a kernel without the list
                self.children = os.open("thread-self/children", os.O_RDONLY, dir_fd=proc)

    def sweep(self, group: int | None) -> int:
        """Kill whatever is left, the process group of a call first; how many there were."""
        if self.alone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        elif group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        count = 0
        while True:
            if self.children >= 0:
                for pid in os.pread(self.children, 1 << 16, 0).split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            try:
                os.waitpid(-1, 0 if self.alone or self.children >= 0 else os.WNOHANG)
            except ChildProcessError:
                return count
            count += 1


def _address_space(proc: int | None) -> int:
    """Bytes of address space of this process; 0 where it isn't known."""
    if proc is None:
        return 0
    with open(os.open("self/statm", os.O_RDONLY, dir_fd=proc), "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def prepare(config: dict[str, Any], state: Layers) -> tuple[child.Cell, Reaper]:
    """The template's part: imports, then every layer that its children inherit."""
    proc, paths = config["proc"], config["paths"]
    defaults = warm.DEFAULT if config["defaults"] else ()
    warm.load(defaults, [name for name in config["imports"] if name != "*"])
    del os.environ["MPLCONFIGDIR"]  # the client removes the folder
    if state.on("mnt"):
        try:
            layers.new_root(paths, config["scratch"])
        except OSError as error:
            state["mnt"] = str(error)
    if proc is not None:
        _drop_user(state, proc, paths)
        with state.trying("caps") as wanted:
            if wanted:
                layers.drop_capabilities()
    alone = state.on("pid")
    if not alone and layers.LINUX:
        with state.trying("subreaper") as wanted:
            if wanted:
                layers.prctl(layers.PR_SET_CHILD_SUBREAPER, 1)
    reaper = Reaper(alone, proc)
    child.rehearse()
    warm.settle(proc if config["huge"] else None)
    base = _address_space(proc)
    others = 0 if proc is None or state.on("user") else _threads(proc) + SLACK
    scope = _no_way_back(config, state) if layers.LINUX else None
    if proc is not None:
        os.close(proc)
    warm.gate(config["imports"])
    state["rlimits"] = True
    if config["scratch"]:
        state["scratch"] = state.on("mnt") or "needs a mount namespace"
    cell = child.Cell(
        filter=_filter(config, state),
        scope=scope,
        alone=alone,
        others=others,
        base=base,
        parent=os.getpid(),
        devnull=config["devnull"],
        scratch=SCRATCH if config["scratch"] and state.on("mnt") else None,
    )
    return cell, reaper


def _no_way_back(config: dict[str, Any], state: Layers) -> int | None:
    """no_new_privs and Landlock; the ruleset for each child's signals, where there is one."""
    layers.prctl(layers.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user has cleared it
    with state.trying("no_new_privs"):
        layers.prctl(layers.PR_SET_NO_NEW_PRIVS, 1)
    scope = None
    with state.trying("landlock") as wanted:
        if wanted:
            writes = [SCRATCH] if config["scratch"] and state.on("mnt") else []
            rules = layers.Landlock(config["paths"], writes)
            scope = rules.scope()
            layers.restrict(rules.fd)
            os.close(rules.fd)
            state["landlock"] = rules.abi
    layers.prctl(layers.PR_SET_DUMPABLE, 0)
    return scope


def _filter(config: dict[str, Any], state: Layers) -> Filter | None:
    """The children's system call filter, laid out; None where it is off or unknown."""
    if "seccomp" in state.off:
        state["seccomp"] = "switched off"
    if "seccomp" in state:
        return None
    if not supported():
        state["seccomp"] = "no list of system calls for this machine"
        return None
    state["seccomp"] = True
    closed = state.on("mnt") or state.on("landlock")
    writes = bool(config["scratch"]) and state.on("mnt")
    return Filter(build_filter(writes=writes, readonly=not closed))


def versions() -> dict[str, str]:
    """The versions of the packages that are loaded."""
    found = {
        name: getattr(module, "__dict__", {}).get("__version__")
        for name, module in sys.modules.items()
    }
    return {name: v for name, v in found.items() if isinstance(v, str) and "." not in name}


def _probes(state: Layers) -> list[tuple[str, Callable[[], object]]]:
    """What must fail inside, by what each shows."""
    closed = state.on("mnt") or state.on("landlock")
    written = os.path.join(sys.prefix, "tir-test")
    files: list[tuple[str, Callable[[], object]]] = [
        ("a file was read", lambda: os.open("/etc/passwd", os.O_RDONLY)),
        ("a folder was listed", lambda: os.listdir("/")),
        (
            "a file was written",
            lambda: os.open(written, os.O_CREAT | os.O_WRONLY),
        ),
    ]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("a socket was made", socket.socket),
        ("a process was started", lambda: os.fork() or os._exit(0)),
        ("the template could be signalled", lambda: os.kill(os.getppid(), 0)),
    ]
    return (files if closed else []) + (calls if state.on("seccomp") else [])


def self_test(cell: child.Cell, state: Layers) -> None:
    """Try from inside what must not work. Raises RuntimeError that names what did."""
    probes = _probes(state)
    pid = os.fork()
    if pid == 0:
        request = Request(0, 60.0, 60.0, 1 << 30, 1 << 20, 64, 64)
        child.probe(cell, request, [probe for _, probe in probes])
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        known = 0 < code <= len(probes)
        said = probes[code - 1][0] if known else f"the first program ended with {code}"
        raise RuntimeError(f"the layers don't hold: {said}")
