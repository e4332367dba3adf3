"""Judges many small runs, in one process per core: threads of a single process would wait for the interpreter's lock.

The workers of concurrent.futures.ProcessPoolExecutor were tried: they wait forever if this process is killed. These
end with their standard input, from which they read a task per line, as JSON; they reply with a line for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from ..histories.files import local_path
from .engines import Engine
from .judging import Judged, Task, judge_or_report
from .main import Terminated, end_process, prepare_process, report_failure
from .progress import Progress

MIN_RUNS = 8  # a worker takes as long to start as two small runs to be judged
MAX_BYTES = 32 << 20  # of a run; larger ones are judged one after the other, on all cores
MAX_SECONDS_TO_STOP = 10


def are_for_processes(runs: Sequence[str]) -> bool:
    """Whether several processes judge these runs faster than one: many small ones, and more cores than one."""
    return (os.cpu_count() or 1) > 1 and len(runs) >= MIN_RUNS and all(map(_is_small, runs))


def _is_small(run: str) -> bool:
    path = local_path(run)
    files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names] if path.is_dir() else [path]
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total <= MAX_BYTES


def judge_in_processes(tasks: Sequence[Task], engine: Engine) -> Iterator[Judged]:
    """The tasks in their order, when all are done. Errors are printed as `judge_or_report` prints them."""
    workers = [_Worker() for _ in range(os.cpu_count() or 1)]
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def judged(task: Task) -> Judged | None:
        worker = idle.get()
        try:
            return worker.judge(task)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(len(workers))
    try:
        with Progress(f"{len(tasks)} runs", tasks[0].options["quiet"]) as progress:
            replies = [pool.submit(judged, task) for task in tasks]
            for done, _ in enumerate(as_completed(replies), 1):
                progress("judged", done, len(tasks), "runs")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()
    for task, reply in zip(tasks, replies, strict=True):
        # An error that every run would meet is raised by this process.
        yield reply.result() or judge_or_report(task, engine)


class _Worker:
    """A process that judges one run at a time."""

    def __init__(self) -> None:
        self._is_stopped = False
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            # The arguments are for the command line that each report names.
            [sys.executable, "-P", "-m", __name__, *sys.argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the workers
        )

    def judge(self, task: Task) -> Judged | None:
        """The judged run; None if an error stopped it that every run would meet. A worker that dies is replaced."""
        process, began = self._process, datetime.now(UTC)
        assert process.stdin is not None
        assert process.stdout is not None
        reply = b""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        if reply.endswith(b"\n"):
            content = json.loads(reply)
            return content and Judged(*content)._replace(began=began)
        if self._is_stopped:
            return None
        self._start()
        error = RuntimeError(f"the process that judged this run ended with code {process.wait()}")
        seconds = (datetime.now(UTC) - began).total_seconds()
        return Judged(task.path, task.name, task.folder, began, seconds, None, *report_failure(error, task.path))

    def stop(self) -> None:
        """Ends the process; a run that it judges leaves no result."""
        self._is_stopped = True
        self._process.terminate()
        try:
            self._process.wait(MAX_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _serve() -> None:
    """Judges the tasks of standard input until it ends."""
    prepare_process()
    for line in sys.stdin:
        path, name, folder, options, is_one_of_many = json.loads(line)
        chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        task = Task(path, name, folder, {**chosen, "quiet": True}, is_one_of_many)
        reply = None
        with suppress(Exception):  # which the other process raises
            reply = judge_or_report(task, Engine())
        sys.stdout.write(json.dumps(reply, default=str) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        _serve()
    except (Terminated, BrokenPipeError):
        end_process(1)
    end_process(0)
