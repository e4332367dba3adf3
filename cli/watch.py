"""`logjudge watch`: judges a growing run in rounds; each judges what was appended since the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import click

from ..analysis.wording import plural, printable
from ..histories.errors import ClusterError, InputError, UsageError
from ..histories.files import is_uri, local_path
from ..histories.output_folder import name_of
from ..histories.settings import read_config
from ..histories.stream_copy import StreamCopy
from .check import DEFAULT_OUT, EXITS
from .engines import Spark, SteppingEngine, engine_options
from .judging import Judged, Task, judge
from .main import EXIT_UNKNOWN
from .options import AnyPath, LocalPath, from_option
from .progress import Progress, note
from .runs import check_index, write_page

if TYPE_CHECKING:
    from ..analysis.engines.spark import Session
    from ..plots.report.index_pages import Round


HISTORIES = ("*.jsonl", "history/*.jsonl")  # of a bundle


class Source(Protocol):
    """Events that grow. `run` is the bundle or the history with those that were fetched."""

    run: Path
    unit: str = "messages"  # of `unread`

    def fetch(self) -> None:
        """Adds new events to `run`."""
        return

    def unread(self) -> int | None:
        """The amount that was not fetched; None if not known."""
        return None

    def behind(self, took: float) -> float:
        """Seconds since the newest event of the last fetch was written, after a round of `took` seconds."""

    def close(self) -> None:
        """Ends the fetching."""
        return


def bytes_of(run: Path) -> int:
    """The size of the histories of a run."""
    return sum(file.stat().st_size for file in _histories(run))


def has_begun(run: Path) -> bool:
    """Whether a history has a whole line."""
    return any(b"\n" in file.open("rb").readline() for file in _histories(run))


def _histories(run: Path) -> Iterable[Path]:
    found = [file for pattern in HISTORIES for file in run.glob(pattern)] if run.is_dir() else [run]
    return filter(Path.is_file, found)


class LocalRun(Source):
    """A run that another process writes on this machine."""

    unit = "bytes"

    def __init__(self, run: Path) -> None:
        self.run = run
        self._fetched = 0

    def fetch(self) -> None:
        self._fetched = bytes_of(self.run)

    def unread(self) -> int:
        return max(bytes_of(self.run) - self._fetched, 0)

    def behind(self, took: float) -> float:
        return took if self.unread() else 0.0


class Streamed(Source):
    """A folder or a Kafka topic, which a streaming query of Spark copies batch by batch."""

    def __init__(self, session: Session, address: str, client: dict[str, str], folder: Path, config: dict[str, Any]):
        from ..analysis.engines.spark import streaming
        from ..histories.recording.topic_reader import SCHEME, address_of

        self.run, self._newest = folder, 0.0
        if address.startswith(SCHEME):
            place = address_of(address)
            self._frame = streaming.topic_stream(session, *place, client)
            self._topic, self._order = place.topic, ("partition", "offset")
            self._copy_rows: Callable[[Iterator[Any]], None] = self._copy_messages
        else:
            uri = address if is_uri(address) else Path(address).absolute().as_uri()
            self._frame = streaming.files_stream(session, uri)
            self._topic, self._order = uri, ("modificationTime", "path")
            self._copy_rows = self._copy_files
        self._copy = StreamCopy(folder, self._topic, config)

    def start(self, checkpoint: Path, every: float, judge_appended: Callable[[], Any]) -> Any:
        """Starts a query that copies each batch and then calls `judge_appended`."""
        from ..analysis.engines.spark.streaming import Stream

        def take(number: int, rows: Iterator[Any]) -> None:
            if number and self._copy.is_empty():
                hint = f"remove {checkpoint} to start from the beginning"
                found = f"{number} batches before, and no copy of them in {self.run}"
                raise InputError(str(checkpoint), found, "a checkpoint beside its copy", hint)
            self._copy_rows(rows)
            judge_appended()

        return Stream(self._frame, self._order, checkpoint.absolute().as_uri(), every, take)

    def behind(self, took: float) -> float:  # noqa: ARG002
        return max(time.time() - self._newest, 0.0)

    def close(self) -> None:
        self._copy.close()

    def _copy_messages(self, rows: Iterator[Any]) -> None:
        for number, messages in groupby(rows, key=lambda row: row["partition"]):
            self._copy.append(self._topic, number, ((row["offset"], row["value"]) for row in self._dated(messages)))

    def _copy_files(self, rows: Iterator[Any]) -> None:
        for row in self._dated(rows):
            name = row["path"].rsplit("/", 1)[-1]
            if (
                not self._copy.add(name, row["content"])
                and (self.run / "history" / name).stat().st_size != row["length"]
            ):
                raise InputError(
                    row["path"], "a file that was written again", "files that are complete and stay as they are"
                )

    def _dated(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self._newest = (row["timestamp"] if "timestamp" in row else row["modificationTime"]).timestamp()
            yield row


def refuse_stream_options(reader: str | None, state: Path) -> None:
    """Raises UsageError for --from with another format than ours, and for a state named as the copy beside it."""
    if state.suffix in (".events", ".checkpoint"):
        raise UsageError(f"found --state {state}, expected another ending: the copied events lie beside it")
    if reader not in (None, "native"):
        raise UsageError(f"found --from {reader}, expected events of the bundle's format (docs/format.md) in a stream")


_KAFKA = "kafka://"


@click.command
@click.argument("run", metavar="RUN", type=AnyPath())
@click.option(
    "--out",
    metavar="FOLDER",
    type=LocalPath(path_type=str),
    default=DEFAULT_OUT,
    show_default=True,
    help="Folder for index.html (the live page), and for the report, which has a folder of its own.",
)
@click.option(
    "--state",
    metavar="FILE",
    type=LocalPath(),
    help="Judge on from this file, as `check --state` does [default: NAME.state in FOLDER].",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    default=5.0,
    show_default=True,
    help="Time from the beginning of a round to the next.",
)
@click.option("--idle", metavar="SECONDS", type=click.FloatRange(0), help="End if nothing was appended for so long.")
@click.option("--run-json", metavar="FILE", type=LocalPath(), help="For a topic or with Spark: the run's settings.")
@click.option(
    "--client-config",
    metavar="FILE",
    type=LocalPath(),
    help="For a topic: settings of the client, such as TLS and SASL.",
)
@from_option
@engine_options(default="local")
def command(run: str, out: str, state: Path | None, every: float, idle: float | None, **options: Any) -> int:
    """Judge a growing run: a line for each round, a live page, and a report.

    RUN is a run bundle or a history that grows, or kafka://HOST:PORT/TOPIC, a topic with an event in each message.
    With --spark it is a folder or a URI that gets new history files, or a topic, and Spark reads it as a stream. A
    round judges what was appended since the last one. Ctrl-C ends the watching: page, report and state stay as the
    last round wrote them, and `watch` or `check --state` continues from there.

    Exit code: that of the last verdict, as of `check`; 3 without one.
    """
    name = name_of(run)
    check_index(out)
    state = state or local_path(out) / f"{name}.state"
    local_path(out).mkdir(parents=True, exist_ok=True)
    source = _source(run, state, options)
    reader = options["reader"] if isinstance(source, LocalRun) else "native"
    watch = _Watch(source, name, out, SteppingEngine(state), every, reader)
    try:
        if isinstance(source, Streamed):
            _watch_stream(source, watch, state.with_suffix(".checkpoint"), every, idle)
        else:
            _watch_source(watch, every, idle)
    except KeyboardInterrupt:
        note(f"{printable(name)}: watching ended; the results are in {out}")
    finally:
        source.close()
    return EXITS[watch.verdict] if watch.verdict else EXIT_UNKNOWN


def _source(run: str, state: Path, options: dict[str, Any]) -> Source:
    spark: Spark | None = options["spark"]
    if spark is None and not run.startswith(_KAFKA):
        if is_uri(run):
            raise UsageError(f"found {run}, expected a local path, or --spark, which reads folders at URIs")
        if options["run_json"] or options["client_config"]:
            raise UsageError(f"found --run-json or --client-config with {run}, expected them for a topic")
        return LocalRun(local_path(run))
    refuse_stream_options(options["reader"], state)
    config = read_config(options["run_json"]) if options["run_json"] else {}
    client: dict[str, str] = {}
    if options["client_config"]:
        from ..histories.recording.kafka_clients import read_properties

        client = read_properties(options["client_config"])
    copy = state.with_suffix(".events")
    if spark is None:
        from ..histories.recording.topic_reader import TopicReader, address_of

        return TopicReader(address_of(run), client, copy, config)
    with Progress(name_of(run)) as progress:
        session = spark.open(progress)
    return Streamed(session, run, client, copy, config)


def _watch_source(watch: _Watch, every: float, idle: float | None) -> None:
    """Judges in rounds until nothing was appended for `idle` seconds."""
    appended, problem = time.monotonic(), ""
    while True:
        began, done = time.monotonic(), None
        try:
            done, problem = watch.judge_appended(), ""
        except ClusterError as error:  # it may come back
            if str(error) != problem:
                note(f"{error}; trying again until Ctrl-C")
            problem = str(error)
        now = time.monotonic()
        appended = now if done and done.lines else appended
        if idle is not None and now - appended >= idle:
            return
        # A round on the whole history takes long: at most half of the time, as the run needs the machine as well.
        time.sleep(max(began + every - now, now - began if done and done.whole else 0.0, 0.0))


def _watch_stream(source: Streamed, watch: _Watch, checkpoint: Path, every: float, idle: float | None) -> None:
    """Judges after each batch until none came for `idle` seconds."""
    stream = source.start(checkpoint, every, watch.judge_appended)
    since: float | None = None
    try:
        while since is None or idle is None or time.monotonic() - since < idle:
            stream.wait(0.2)
            if stream.has_data():
                since = None
            elif since is None and stream.is_waiting():
                since = time.monotonic()
    finally:
        stream.stop()


class _Watch:
    """A run that is watched, with its rounds so far."""

    def __init__(
        self, source: Source, name: str, out: str, engine: SteppingEngine, every: float, reader: str | None
    ) -> None:
        self._source, self._name, self._out, self._every = source, name, out, every
        self._engine = engine
        self._options = {"plots": "findings", "quiet": True, "reader": reader}
        self._rounds: list[Round] = []  # the last ones
        self._count = 0
        self._size = 0  # bytes, at the beginning of the last round
        self._lines = 0  # that the rounds read
        self._judged: Judged | None = None
        self.verdict = ""

    def judge_appended(self) -> Round | None:
        """One round: judges what was appended, prints a line and writes the page. None: there is no history yet."""
        from ..plots.report.index_pages import SHOWN_ROUNDS, Round, live_page_of

        began = time.monotonic()
        self._source.fetch()
        size = bytes_of(self._source.run)
        whole, lines = "", 0
        if self._judged is None or size != self._size:
            self._judged = self._judge()
            if self._judged is None:
                note(f"{printable(self._name)}: waiting for the first line of a history")
                return None
            call = self._engine.last
            assert call is not None
            read = sum(map(call.results.lines_of, call.results.splits))
            whole, lines = call.whole, read - (self._lines or self._engine.lines_before)
            self._lines = read
        report, headline = self._judged.report, self._judged.headline
        assert report is not None
        took, unread = time.monotonic() - began, self._source.unread()
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        behind = self._source.behind(took)
        done = Round(at, lines, took, behind, unread, self._source.unit, whole)
        self._rounds = [*self._rounds[1 - SHOWN_ROUNDS :], done]
        self._count, self._size, self.verdict = self._count + 1, size, report["verdict"]
        write_page(self._out, live_page_of(report, headline, quote(self._name), self._count, self._rounds, self._every))
        note(self._line(report, done))
        return done

    def _judge(self) -> Judged | None:
        """The run, judged; None if there is no history yet."""
        run, folder = self._source.run, f"{self._out.rstrip('/')}/{self._name}"
        try:
            return judge(Task(str(run), self._name, folder, self._options), self._engine)
        except InputError:
            if self._judged or has_begun(run) or not run.exists():
                raise
            return None

    def _line(self, report: dict[str, Any], done: Round) -> str:
        new = f"{plural(done.lines, 'line')} ({done.rate:,.0f} a second)" if done.lines else "no new lines"
        parts = [new, f"{done.behind:.1f} s behind"]
        if report["not_yet"]:
            parts.append(f"not yet: {', '.join(report['not_yet'])}")
        if done.whole:
            parts.append(f"judged the whole history: {done.whole}")
        return f"{done.at[11:19]} {printable(self._name)}: {self.verdict.upper()}, {'; '.join(parts)}"
