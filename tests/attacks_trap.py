"""What hostile programs must not touch: canary files, secrets, listeners, open descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attacks_child import UID


def remove(path: Path) -> None:
    """Remove `path` and what is below, however deep or closed."""
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(path)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--", str(path)], check=True)


class Trap:
    """A folder of canaries, listeners and secrets; says what was touched."""

    def __init__(self) -> None:
        self.secret = "canary-" + os.urandom(12).hex()
        self.folder = Path(tempfile.mkdtemp(prefix="tir-trap-", dir="/tmp"))
        self.can = self.folder / "can"
        self.tcp, self.udp = self._listeners()
        self.port = self.tcp.getsockname()[1]
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0tir-attack-{self.port}")
        self.work = self.folder / "work"
        self.sweep()
        self._set()
        self.abstract.listen()
        for listener in (self.tcp, self.udp, self.abstract):
            listener.setblocking(False)
        self.folder.chmod(0o777)

    @staticmethod
    def _listeners() -> tuple[socket.socket, socket.socket]:
        """A TCP and a UDP socket on one port of the loopback."""
        while True:
            tcp, udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                tcp.close()
                udp.close()
                continue
            tcp.listen(64)
            return tcp, udp

    def _set(self) -> None:
        """Make the canaries, open to every user: nothing but the sandbox protects them."""
        if hasattr(self, "door"):
            self.door.close()
            remove(self.can)
        (self.can / "keep").mkdir(parents=True)
        (self.can / "keep/a.txt").write_text("keep me\n")
        (self.can / "secret.txt").write_text(self.secret + "\n")
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(self.can / "door"))
        self.door.listen()
        self.door.setblocking(False)
        owner = UID if os.getuid() == 0 else os.getuid()
        for path in (self.can, *self.can.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
            os.chown(path, owner, -1)
        self.before = self._look()

    def _look(self) -> list[tuple[Any, ...]]:
        """Everything about every canary that a program could change."""
        seen: list[tuple[Any, ...]] = []
        if not self.can.exists():
            return seen
        for path in sorted([self.can, *self.can.rglob("*")]):
            about = path.lstat()
            text = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
            names = os.listxattr(path, follow_symlinks=False)
            same = (about.st_mode, about.st_uid, about.st_gid, about.st_nlink, about.st_mtime_ns)
            seen.append((str(path), text, names, *same))
        return seen

    def fill(self, source: str, pid: int) -> str:
        """`source` with its placeholders replaced."""
        for mark, text in (("CAN", self.can), ("PORT", self.port), ("PPID", pid)):
            source = source.replace(f"@{mark}@", str(text))
        return source

    def sprung(self) -> list[str]:
        """What was touched since the last time; the trap is set anew."""
        found = []
        if self._look() != self.before:
            found.append("a canary file was changed")
            self._set()
        for name, listener in (("TCP", self.tcp), ("unix", self.door), ("abstract", self.abstract)):
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                found.append(f"the {name} listener was reached")
        with contextlib.suppress(BlockingIOError):
            self.udp.recv(100)
            found.append("a datagram came")
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):
            for path in Path(folder).glob(f"tir-attack*{self.port}*"):
                found.append(f"{path} was made")
                remove(path)
        return found

    def sweep(self) -> None:
        """Empty the folder that programs without a sandbox work in."""
        remove(self.work)
        self.work.mkdir()
        self.work.chmod(0o777)

    def close(self) -> None:
        """Remove it all."""
        for listener in (self.tcp, self.udp, self.door, self.abstract):
            listener.close()
        remove(self.folder)


@contextlib.contextmanager
def bait(trap: Trap) -> Iterator[dict[str, Any]]:
    """Arguments of Popen: the secret in the environment and in open descriptors, a bad folder."""
    fd = os.open(trap.can / "secret.txt", os.O_RDWR)
    far, near = socket.socketpair()
    try:
        for number in (fd, near.fileno()):
            os.set_inheritable(number, True)
        home = str(trap.work)
        env = dict(os.environ, TIR_TEST_SECRET=trap.secret, HOME=home, PYTHONDONTWRITEBYTECODE="1")
        yield {"pass_fds": (fd, near.fileno()), "env": env, "cwd": home}
    finally:
        os.close(fd)
        far.close()
        near.close()
