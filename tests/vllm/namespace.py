"""A network namespace with a loopback interface and nothing else.

Mooncake's transfer engine listens on every interface, at ports that nobody chooses. In here that
reaches nobody. It takes root.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

_CLONE_NEWNET = 0x40000000

#: Brings ``lo`` up (SIOCSIFFLAGS with IFF_UP | IFF_RUNNING), says so, and stays until its standard
#: input ends: a parent that is killed leaves no namespace behind.
_HOLD = """
import fcntl, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x41).ljust(40, b"\\0"))
print("up", flush=True)
sys.stdin.read()
"""


class NoNamespace(Exception):
    """This machine lets us have none; the message says why."""


@dataclass(frozen=True)
class Namespace:
    """A namespace, held by the process ``pid``."""

    pid: int

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that runs ``command`` in here."""
        return ["nsenter", f"--target={self.pid}", "--net", *command]

    def connect(self, port: int) -> socket.socket:
        """A connection to a server in here, for us outside: sockets stay where they were made."""
        with ThreadPoolExecutor(1) as visitor:  # a thread of its own, for it cannot come back
            return visitor.submit(self._connect, port).result()

    def _connect(self, port: int) -> socket.socket:
        door = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(door, _CLONE_NEWNET) != 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))
            return socket.create_connection(("127.0.0.1", port), timeout=120)
        finally:
            os.close(door)


@contextmanager
def loopback_only() -> Iterator[Namespace]:
    """A namespace for as long as it is needed. Raises :class:`NoNamespace`."""
    command = ["unshare", "--net", sys.executable, "-c", _HOLD]
    try:
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError as error:
        raise NoNamespace(f"no network namespace: {error}") from None
    with holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != b"up\n":
            why = holder.stderr.read().decode(errors="replace").strip()
            raise NoNamespace(f"no network namespace (it takes root): {why}")
        try:
            yield Namespace(holder.pid)
        finally:
            holder.kill()
