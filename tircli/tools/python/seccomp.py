"""The list of system calls that a program may make, as a seccomp filter (x86_64 and aarch64).

What is not listed fails with EPERM, and calls that C libraries try before an older one with
ENOSYS. Some are allowed with certain arguments only: a clone that makes a thread, signals to the
own process, a socket pair inside the process. No program can start another.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Sequence


def _table(text: str) -> dict[str, tuple[int | None, ...]]:
    """Name -> number on x86_64 and on aarch64; - where the machine has no such call."""
    rows = [row.split() for row in text.split(",")]
    return {name: tuple(None if n == "-" else int(n) for n in found) for name, *found in rows}


PLAIN = _table(
    """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69,
pwritev 296 70, close 3 57, close_range 436 436, lseek 8 62, sendfile 40 71, fstat 5 80,
newfstatat 262 79, stat 4 -, lstat 6 -, statx 332 291, statfs 137 43, fstatfs 138 44,
 access 21 -, faccessat 269 48, faccessat2 439 439, getcwd 79 17, chdir 80 49,
fchdir 81 50, umask 95 166, readlink 89 -, readlinkat 267 78, getdents64 217 61, dup 32 23,
dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, eventfd2 290 19, fsync 74 82, fdatasync 75 83,
mmap 9 222, mprotect 10 226, munmap 11 215, mremap 25 216, madvise 28 233, mincore 27 232,
brk 12 214, get_mempolicy 239 236, rt_sigaction 13 134, rt_sigprocmask 14 135,
rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigsuspend 130 133, rt_sigtimedwait 128 137,
sigaltstack 131 132, pause 34 -, restart_syscall 219 128, select 23 -, pselect6 270 72, poll 7 -,
ppoll 271 73, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
epoll_pwait 281 22, sched_yield 24 124, getcpu 309 168,
 sched_get_priority_max 146 125,
sched_get_priority_min 147 126, nanosleep 35 101, clock_nanosleep 230 115, time 201 -,
clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, times 100 153, alarm 37 -,
setitimer 38 103, getitimer 36 102, timerfd_create 283 85, timerfd_settime 286 86,
timerfd_gettime 287 87, getpid 39 172, gettid 186 178, getppid 110 173, getpgrp 111 -,
getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148,
getresgid 120 150, getgroups 115 158,
getrlimit 97 163, getrusage 98 165, sysinfo 99 179, uname 63 160, futex 202 98,
set_robust_list 273 99, rseq 334 293, set_tid_address 218 96,
arch_prctl 158 -, membarrier 324 283, getrandom 318 278, exit 60 93, exit_group 231 94,
wait4 61 260, waitid 247 95, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212,
shutdown 48 210, getsockopt 55 209, getsockname 51 204, getpeername 52 205
"""
)
# Only where there is a scratch folder.
WRITES = _table(
    """
mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -,
renameat 264 38, renameat2 316 276, ftruncate 77 46, truncate 76 45, utimensat 280 88,
fallocate 285 47
"""
)
# Allowed by their arguments.
CHECKED = _table(
    """
open 2 -, openat 257 56, fcntl 72 25, ioctl 16 29, prctl 157 167, prlimit64 302 261, kill 62 129,
tgkill 234 131, clone 56 220, clone3 435 435, openat2 437 437, socketpair 53 199,
sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120, getpgid 121 155,
getsid 124 156, getpriority 140 141
"""
)

NEWER = 451
"""Calls from this number on fail with ENOSYS, as on an older kernel."""
ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, BITS, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
FIRST_ARGUMENT = 16
SELF = 0x7E57E57E
"""Stands for the process's own id, which is known after the fork."""

CLONE_THREAD = 0x00010000
CLONE_NEW = 0x7E020000
"""All flags of clone that ask for a new namespace."""
O_WRITES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000
FCNTLS = (0, 1, 2, 3, 4, 1030, 1032, 1034)  # no locks: others use the same files
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
PRCTLS = (15, 16)  # the name of a thread

Instruction = tuple[int, int, int, int]


def refuse(number: int) -> Instruction:
    """Return from the filter with errno `number`."""
    return (RETURN, 0, 0, ERRNO | number)


def _argument(index: int) -> Instruction:
    return (LOAD, 0, 0, FIRST_ARGUMENT + 8 * index)


def _one_of(index: int, values: Sequence[int], otherwise: int = errno.EPERM) -> list[Instruction]:
    tests = [(EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(index), *tests, refuse(otherwise), (RETURN, 0, 0, ALLOW)]


def _none_of(index: int, bits: int, otherwise: int = errno.EPERM) -> list[Instruction]:
    return [
        _argument(index),
        (BITS, 0, 1, bits),
        refuse(otherwise),
        (RETURN, 0, 0, ALLOW),
    ]


def _rules(writes: bool, readonly: bool) -> Iterator[tuple[str, list[Instruction]]]:
    """The calls that depend on arguments, each with the code that decides."""
    allow: Instruction = (RETURN, 0, 0, ALLOW)
    for name, index in (("open", 1), ("openat", 2)):
        yield name, _none_of(index, O_WRITES, errno.EROFS) if readonly and not writes else [allow]
    yield "fcntl", _one_of(1, FCNTLS)
    yield "ioctl", _one_of(1, IOCTLS, errno.ENOTTY)
    yield "prctl", _one_of(0, PRCTLS)
    yield "prlimit64", _one_of(0, (0,))
    for name in ("kill", "tgkill"):
        yield name, _one_of(0, (SELF,))
    for name in ("sched_getaffinity", "sched_getparam", "sched_getscheduler", "getpgid", "getsid"):
        yield name, _one_of(0, (0, SELF))
    yield "getpriority", _one_of(1, (0, SELF))
    eperm = refuse(errno.EPERM)
    thread = [(BITS, 0, 1, CLONE_NEW), eperm, (BITS, 1, 0, CLONE_THREAD), eperm, allow]
    yield "clone", [_argument(0), *thread]
    yield "clone3", [refuse(errno.ENOSYS)]
    yield "openat2", [refuse(errno.ENOSYS)]
    # A stream pair only: a datagram socket could address others.
    stream: list[Instruction] = [_argument(1), (AND, 0, 0, 0xF), (EQUAL, 1, 0, 1)]
    unix: list[Instruction] = [_argument(0), (EQUAL, 1, 0, 1), refuse(errno.EPERM)]
    yield "socketpair", [*unix, *stream, refuse(errno.EPERM), allow]


def _ranges(numbers: Iterable[int | None]) -> Iterator[tuple[int, int]]:
    """The numbers as ranges, both ends included: a shorter filter takes less time to install."""
    ordered = sorted(number for number in numbers if number is not None)
    low = 0
    for place, number in enumerate(ordered):
        if place + 1 == len(ordered) or ordered[place + 1] != number + 1:
            yield ordered[low], number
            low = place + 1


def supported() -> bool:
    """True on a machine whose system calls are listed here."""
    return platform.machine() in ARCHES and struct.calcsize("P") == 8


def build(writes: bool = False, readonly: bool = False) -> list[Instruction]:
    """The filter of this machine; SELF stands where the process's own id must.

    `writes`: the calls that change a folder too. `readonly`: open for reading only (where no
    other layer keeps files from being written).
    """
    column, arch = ARCHES[platform.machine()]
    code: list[Instruction] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, arch),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, NEWER),  # the x32 calls of x86_64 too
        refuse(errno.ENOSYS),
    ]
    for name, body in _rules(writes, readonly):
        number = CHECKED[name][column]
        if number is not None:
            code += [(EQUAL, 0, len(body), number), *body]
    plain = PLAIN | WRITES if writes else PLAIN
    for low, high in _ranges(numbers[column] for numbers in plain.values()):
        code += [(AT_LEAST, 0, 2, low), (AT_LEAST, 1, 0, high + 1), (RETURN, 0, 0, ALLOW)]
    return [*code, refuse(errno.EPERM)]


class Filter:
    """A filter laid out in memory, so that a child has little left to do."""

    def __init__(self, code: Sequence[Instruction]) -> None:
        self.code = ctypes.create_string_buffer(
            b"".join(struct.pack("=HBBI", *step) for step in code), 8 * len(code)
        )
        self.selves = [8 * i + 4 for i, step in enumerate(code) if step[3] == SELF]
        self.header = ctypes.create_string_buffer(
            struct.pack("@HP", len(code), ctypes.addressof(self.code))
        )

    def set_self(self, pid: int) -> None:
        """Write the process's own id where the filter needs it."""
        for place in self.selves:
            struct.pack_into("=I", self.code, place, pid)
