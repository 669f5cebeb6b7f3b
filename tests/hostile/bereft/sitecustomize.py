"""Python imports this as it starts, where this folder is on its path: a Python without what Windows
lacks, for a program and for all that it starts.

What the standard library itself needs, and psutil, is imported before, and keeps what it has.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

with contextlib.suppress(ImportError):
    import psutil  # noqa: F401

_MODULES = "fcntl grp pwd resource termios"
_OS = """
fork forkpty killpg getpgid setsid geteuid getuid pread sched_getaffinity mkfifo openpty fchmod
chown register_at_fork posix_spawn waitstatus_to_exitcode WIFSIGNALED WTERMSIG WIFEXITED WEXITSTATUS
O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOFOLLOW
"""
_SIGNAL = """
setitimer getitimer alarm pause pthread_sigmask ITIMER_PROF ITIMER_REAL SIGALRM SIGPROF SIGKILL
SIGXCPU SIGUSR1 SIGUSR2 SIGHUP SIGPIPE
"""


def _kill(process: "subprocess.Popen[bytes]", number: int = signal.SIGKILL) -> None:
    process.send_signal(number)


subprocess.Popen.kill = _kill  # type: ignore[assignment,method-assign]
for _module in _MODULES.split():
    sys.modules[_module] = None  # type: ignore[assignment]
for _owner, _names in ((os, _OS), (signal, _SIGNAL), (select, "poll epoll")):
    for _name in _names.split():
        if hasattr(_owner, _name):
            delattr(_owner, _name)
