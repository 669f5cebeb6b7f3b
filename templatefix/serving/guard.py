"""Run a command, and end it when whoever started us is gone; run as a file, by its path.

Standard input is a pipe whose other end the caller holds: it closes however the caller ends, a
kill included. We and the command are one process group.
"""

import os
import signal
import subprocess
import sys
import threading


def _end_with_the_caller() -> None:
    # Not through sys.stdin: its lock would be in the way of our own end.
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    sys.exit(subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL))
