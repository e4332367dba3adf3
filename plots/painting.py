"""Draws the plots of a report, in a second process: the painter.

Loading matplotlib takes as long as judging a small run, and drawing holds the interpreter's lock. So `start_painter`
starts `python -m logjudge.plots.painting`, which loads matplotlib while a run is judged. The painter reads a request as
one line of JSON from its standard input, forks a process for each core, and writes a line for each finished figure. It
ends when its input ends, also if logjudge is killed. `painted` draws what the painter does not: without a painter all
figures, else those that failed, so that it raises their errors.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from . import PLOTS, draw, style
from .escaping import file_name

MAX_SECONDS = 600  # of one request; then the figures are drawn here


class Job(NamedTuple):
    """A figure of the report: the plot's name, the arguments of its `draw`, and its file name without ending."""

    plot: str
    subject: dict[str, Any]
    stem: str


def jobs_of(figures: dict[str, Any]) -> list[Job]:
    """The figures that have data, in the order of the report."""
    return [
        Job(name, subject, file_name(name, *map(str, subject.values())))
        for name, plot in PLOTS.items()
        for subject in plot.subjects(figures)
    ]


def start_painter() -> None:
    """Starts the process that draws, unless there is one or it would have no core of its own."""
    if _painters or _cores() < 2:
        return
    command = [sys.executable, "-P", "-m", __name__]
    with suppress(OSError):
        # In a separate session: Ctrl-C only ends this process, and with it the input of the other.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        _painters.append(process)


_painters: list[subprocess.Popen[bytes]] = []


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # with its children, which only write figures


@atexit.register
def _stop_painter() -> None:
    while _painters:
        process = _painters.pop()
        _kill(process)
        process.communicate()


@contextmanager
def painted(
    folder: Path, figures: dict[str, Any], jobs: list[Job], endings: Sequence[str]
) -> Iterator[Callable[[], list[str]]]:
    """Draws the figures into an existing folder, each with the endings (svg, png), while the caller does other work.

    Yields a function that waits for the figures and returns their headings.
    """
    if jobs and _painters:
        _send({"folder": str(folder.absolute()), "figures": figures, "jobs": jobs, "endings": endings})

    def headings() -> list[str]:
        found = _replies() if jobs and _painters else {}
        return [
            found[number] if number in found else _paint_one(folder, figures, job, endings)
            for number, job in enumerate(jobs)
        ]

    try:
        yield headings
    except BaseException:
        _stop_painter()  # the caller removes the folder
        raise


def _paint_one(folder: Path, figures: dict[str, Any], job: Job, endings: Sequence[str]) -> str:
    figure = draw(job.plot, figures, job.subject)
    for ending in endings:
        style.save(figure, folder / f"{job.stem}.{ending}")
    return figure.get_suptitle()


def _send(request: dict[str, Any]) -> None:
    process = _painters[0]
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    except OSError:
        _stop_painter()


def _replies() -> dict[int, str]:
    """The headings of the figures that the other process drew, by number."""
    process = _painters[0]
    assert process.stdout is not None
    headings: dict[int, str] = {}
    timer = Timer(MAX_SECONDS, _kill, [process])
    timer.start()
    try:
        for line in process.stdout:
            reply = json.loads(line)
            if reply is None:
                return headings
            headings[reply[0]] = reply[1]
    except (OSError, ValueError):
        pass
    finally:
        timer.cancel()
    _stop_painter()  # it ended too early
    return headings


def _serve() -> None:
    """Handles requests until the input ends; replies with [number, heading] for each figure, then null."""
    gc.disable()  # saves a tenth of the time; a process draws a few figures of some megabytes, and ends
    _load_matplotlib()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        jobs = [Job(*job) for job in request["jobs"]]
        read_end, write_end = os.pipe()  # for the numbers of the jobs
        children = []
        for _ in range(min(_cores(), len(jobs))):
            if (child := os.fork()) == 0:
                os.close(write_end)
                _work(read_end, Path(request["folder"]), request["figures"], jobs, request["endings"])
            children.append(child)
        with open(write_end, "wb", buffering=0) as file:  # noqa: PTH123
            for number in range(len(jobs)):
                file.write(bytes([number]))
        os.close(read_end)
        for child in children:
            os.waitpid(child, 0)
        _reply(None)


def _load_matplotlib() -> None:
    """Loads what drawing needs, fonts included, so that the forked processes have it."""
    from matplotlib import RcParams, text
    from matplotlib.artist import Artist

    # A quarter of the time of loading: the signatures and documentation of `set`, made for each class.
    Artist._update_set_signature_and_docstring = lambda: None  # type: ignore[attr-defined]
    # A tenth of the time of drawing: each look-up of a setting checks whether it is pyplot's backend.
    RcParams.__getitem__ = dict.__getitem__  # type: ignore[method-assign]
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401
    from matplotlib.axis import Axis

    # Copying all properties of the first tick takes as long as making a tick, but only the clipping differs.
    Axis._copy_tick_props = lambda axis, _, tick: tick.set_clip_path(axis.axes.patch)  # type: ignore[attr-defined]
    # Figures share texts, and each would measure them again.
    measures: dict[type, Any] = {}
    text._get_text_metrics_function = lambda renderer: measures.setdefault(  # type: ignore[attr-defined]
        type(renderer),
        cache(lambda words, font, is_math, _: renderer.get_text_width_height_descent(words, font, is_math)),
    )

    with style.look():  # the first figure finds and loads the fonts
        style.empty_sheet("a heading", "a text").savefig(BytesIO(), format="svg")


def _work(read_end: int, folder: Path, figures: dict[str, Any], jobs: list[Job], endings: Sequence[str]) -> None:
    """Draws the figures whose numbers it reads first, and ends the process."""
    try:
        while number := os.read(read_end, 1):
            _reply([number[0], _paint_one(folder, figures, jobs[number[0]], endings)])
    finally:
        os._exit(0)  # the caller draws the missing figures, and reports the error


def _reply(content: Any) -> None:
    os.write(sys.stdout.fileno(), json.dumps(content).encode() + b"\n")  # short lines of several processes stay whole


def _cores() -> int:
    return os.cpu_count() or 1


if __name__ == "__main__":
    _serve()
