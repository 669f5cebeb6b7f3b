"""What the child process costs: the same checks in-process and through it, in turns.

python tests/benchmark/worker.py DIR [ROUNDS]    # a folder of templates; prints a ratio
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from templatefix.api import CheckOptions, SourceOptions, check_target
from templatefix.worker import Job, Limits, Worker


def main(directory: str, rounds: int = 3) -> None:
    files = sorted(map(str, Path(directory).rglob("*.jinja")))
    options = CheckOptions()
    inside = through = inside_cpu = through_cpu = 0.0
    with Worker(Limits()) as worker:
        # What both import and load once is not what is compared.
        list(worker.check(Job(files[0], options=options)))
        check_target(files[0], SourceOptions(), options)
        for _ in range(rounds):
            for file in files:
                at, cpu = time.perf_counter(), _cpu(worker)
                check_target(file, SourceOptions(), options)
                then, cpu_then = time.perf_counter(), _cpu(worker)
                list(worker.check(Job(file, options=options)))
                through += time.perf_counter() - then
                through_cpu += _cpu(worker) - cpu_then
                inside += then - at
                inside_cpu += cpu_then - cpu
    print(f"{len(files)} templates, {rounds} rounds: {inside:.1f} s in-process, {through:.1f} s")
    print(f"through the child: {through / inside:.3f} of the wall time,")
    print(f"{through_cpu / inside_cpu:.3f} of the processor time")


def _cpu(worker: Worker) -> float:
    """Seconds of the processor that this process and the child have taken."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return own.ru_utime + own.ru_stime + ticks / 100


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
