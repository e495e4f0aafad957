"""What the kernel offers to lock a process in: namespaces, Landlock, seccomp, capabilities, limits.

Standard library and ctypes only. Every function that changes this process raises OSError with
the name of the call where the kernel refuses.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from tircli.tools.python.seccomp import Filter

LINUX = sys.platform == "linux"
SCRATCH = "/scratch"
"""Not /tmp, where python itself may lie."""
_libc = ctypes.CDLL(None, use_errno=True)

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
SPACES = {"mnt": NEWNS, "net": NEWNET, "ipc": NEWIPC, "uts": NEWUTS, "pid": NEWPID}

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_EMPTY_PATH, AT_RECURSIVE = 0x1000, 0x8000

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME = 1, 4, 15
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 24, 36, 38
SET_MODE_FILTER = 1
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
LAST_CAPABILITY = 63

_ARM = platform.machine() in ("aarch64", "arm64")
_SECCOMP = 277 if _ARM else 317
_PIVOT_ROOT = 41 if _ARM else 155
_CAPSET = 91 if _ARM else 126
_PERSONALITY = 92 if _ARM else 135
_MOUNT_SETATTR, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 442, 444, 445, 446

READ_FILE, WRITE_FILE, READ_DIR, IOCTL_DEV = 1 << 2, 1 << 1, 1 << 3, 1 << 15
TRUNCATE = 1 << 14


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def _syscall(name: str, number: int, *values: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *values), name)


def prctl(option: int, value: int = 0) -> None:
    """One prctl with one argument."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), "prctl")


def unshare(flags: int) -> None:
    """Move this process (for NEWPID: its next child) into new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def map_ids(proc: int, uid: int, gid: int) -> None:
    """In a new user namespace: keep the own ids, as the only ones; `proc` is an open /proc."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {target}")


def _make(root: str, path: PurePosixPath) -> str | None:
    """Make the folders above `path` under `root`, links as they are; the path they lead to.

    None where a folder on the way is already one that was bound, or a link goes nowhere.
    """
    here = PurePosixPath("/")
    parts = list(path.parts[1:])
    for _ in range(1000):
        if not parts:
            return str(here)
        here = here / parts.pop(0)
        there = root + str(here)
        if os.path.islink(here):
            target = os.readlink(here)
            if not os.path.lexists(there):
                os.symlink(target, there)
            whole = PurePosixPath(os.path.normpath(here.parent / target), *parts)
            here, parts = PurePosixPath("/"), list(whole.parts[1:])
        elif parts and not os.path.isdir(there):
            os.mkdir(there, 0o111)
    return None


def new_root(paths: Iterable[str], scratch: int) -> None:
    """Make a file system of `paths` alone the root of this mount namespace, all read-only.

    Its other folders can't be listed. `scratch` > 0: a writable SCRATCH of that many bytes.
    """
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    root = "/proc"  # exists everywhere, and nothing that is bound lies under it
    _mount("tir", root, "tmpfs", MS_NOSUID, "size=1m,nr_inodes=4k,mode=0111")
    bound: list[str] = []
    for path in sorted(set(paths), key=len):
        real = _make(root, PurePosixPath(path))
        if real is None or any(real == b or real.startswith(b + "/") for b in bound):
            continue
        if os.path.isdir(real):
            os.makedirs(root + real, 0o111, exist_ok=True)
        else:
            os.close(os.open(root + real, os.O_CREAT | os.O_WRONLY, 0o444))
        _mount(real, root + real, "", MS_BIND | MS_REC)
        bound.append(real)
    os.makedirs(root + SCRATCH, 0o111, exist_ok=True)
    attributes = struct.pack("=QQQQ", MS_RDONLY | MS_NOSUID, 0, 0, 0)
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
    flags = AT_RECURSIVE | AT_EMPTY_PATH
    size = ctypes.c_size_t(len(attributes))
    _syscall("mount_setattr", _MOUNT_SETATTR, fd, b"", flags, attributes, size)
    os.close(fd)
    if scratch:
        options = f"size={scratch},nr_inodes=2k,mode=1777"
        _mount("tir", root + SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options)
    os.chdir(root)
    _syscall("pivot_root", _PIVOT_ROOT, b".", b".")
    _check(_libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability, and the way back to one."""
    for capability in range(LAST_CAPABILITY + 1):
        zero = ctypes.c_ulong(0)
        value = ctypes.c_ulong(capability)
        if _libc.prctl(PR_CAPBSET_DROP, value, zero, zero, zero) < 0:
            break  # past the last one, or not allowed: the sets below are emptied all the same
    header = struct.pack("=Ii", 0x20080522, 0)
    _syscall("capset", _CAPSET, header, struct.pack("=6I", *[0] * 6))


def capabilities(proc: int) -> int:
    """The effective capabilities of this process."""
    fd = os.open("self/status", os.O_RDONLY, dir_fd=proc)
    try:
        text = os.read(fd, 65536).decode()
    finally:
        os.close(fd)
    return next(int(x.split()[1], 16) for x in text.splitlines() if x.startswith("CapEff"))


class Landlock:
    """Rules that let a process read `reads`, and write `writes` alone."""

    def __init__(self, reads: Sequence[str], writes: Sequence[str]) -> None:
        version = ctypes.c_uint(1)
        null = ctypes.c_void_p(None)
        self.abi = _syscall("landlock", _LANDLOCK_CREATE, null, ctypes.c_size_t(0), version)
        every = (1 << 13) - 1
        every |= sum(1 << bit for bit, abi in ((13, 2), (14, 3), (15, 5)) if self.abi >= abi)
        self.fd = self._ruleset(every)
        for path in reads:
            folder = os.path.isdir(path)
            access = READ_FILE | (READ_DIR if folder else 0)
            if path == os.devnull:
                access |= WRITE_FILE | (TRUNCATE & every)
            self._allow(path, access)
        for path in writes:
            self._allow(path, every & ~(1 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | IOCTL_DEV))

    def _ruleset(self, files: int) -> int:
        network = 3 if self.abi >= 4 else 0
        scope = 3 if self.abi >= 6 else 0
        words = 3 if self.abi >= 6 else 2 if self.abi >= 4 else 1
        data = struct.pack("=QQQ", files, network, scope)[: 8 * words]
        size = ctypes.c_size_t(len(data))
        return _syscall("landlock", _LANDLOCK_CREATE, data, size, ctypes.c_uint(0))

    def _allow(self, path: str, access: int) -> None:
        fd = os.open(path, os.O_PATH)
        try:
            rule = struct.pack("=Qi", access, fd)
            _syscall("landlock", _LANDLOCK_ADD, self.fd, ctypes.c_int(1), rule, ctypes.c_uint(0))
        finally:
            os.close(fd)

    def scope(self) -> int | None:
        """Rules that only keep signals inside a process; None where the kernel has no such."""
        if self.abi < 6:
            return None
        data, size = struct.pack("=QQQ", 0, 0, 3), ctypes.c_size_t(24)
        return _syscall("landlock", _LANDLOCK_CREATE, data, size, ctypes.c_uint(0))


def restrict(ruleset: int) -> None:
    """Put this process under a Landlock ruleset, for good."""
    _syscall("landlock", _LANDLOCK_RESTRICT, ruleset, ctypes.c_uint(0))


def install(program: Filter) -> None:
    """Put this process under a seccomp filter, for good."""
    _syscall("seccomp", _SECCOMP, SET_MODE_FILTER, ctypes.c_uint(0), program.header)


def same_addresses() -> bool:
    """Switch address randomisation off for what this process executes next; False if it was."""
    before = _syscall("personality", _PERSONALITY, ctypes.c_ulong(0xFFFFFFFF))
    if before & 0x0040000:
        return False
    _syscall("personality", _PERSONALITY, ctypes.c_ulong(before | 0x0040000))
    return True


def collapse(start: int, end: int) -> bool:
    """Back a range of memory with huge pages; False where the kernel doesn't."""
    address, length = ctypes.c_void_p(start), ctypes.c_size_t(end - start)
    if _libc.madvise(address, length, MADV_HUGEPAGE) < 0:
        return False
    return bool(_libc.madvise(address, length, MADV_COLLAPSE) == 0)


def set_limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Bound a resource of this process, never above what it has now."""
    most = resource.getrlimit(kind)[1]
    wanted = (soft, soft if hard is None else hard)
    low, high = (n if most == resource.RLIM_INFINITY else min(n, most) for n in wanted)
    resource.setrlimit(kind, (low, high))
