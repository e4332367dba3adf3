"""Judges a history of operations on Spark: one with many keys may be larger than the memory of any machine.

    splits → operations ─────────────────────────────────────┬─ by bucket of the object → check → driver: the worst
           └ boundary events ─ by bucket of the process → join ┘

A split joins most invocations and completions itself (histories/operation_history.py). Its boundary events, the first
one of each process and the invocations that are still open, meet those of other splits. A bucket has all operations on
some objects, in their order, and is checked as the local engine checks a file. So the result is the same; of several
illegal objects it is the one that the local engine finds first. The driver receives a report on each split and each
bucket, and of one object the operations that are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....histories.bundle import Run, plain_splits
from ....histories.errors import InputError
from ....histories.files import BLOCK_BYTES, Block, Split, compression_of, head_of, is_uri
from ....histories.operation_history import (
    History,
    Note,
    Paired,
    Pairing,
    check_file,
    check_format,
    damage_error,
    decode,
    history_of,
    recognise_format,
    time_error,
)
from ....histories.readers import READERS, operations_edn
from ....histories.readers.operation_lines import OperationLine
from ....histories.readers.operations_edn import PairCounts
from ....histories.settings import Settings
from ....models.operations import Action, ModelError, by_key
from ....models.porcupine import Result
from ....models.porcupine import warm_up as compile_search
from ...linearizability import exchange
from ...linearizability.exchange import hash_of, pack, unpack
from ...linearizability.linearize import Judgement, Request, judge_operations
from ...linearizability.minimal import Minimal, minimal_failure
from ...linearizability.user_model import load_model, model_for
from .buckets import Payloads, Row, by_bucket, read_splits
from .judge import run_errors
from .plan import store
from .remote import UNSPLIT, open_file
from .session import shuffle_tasks, size_shuffles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 8 << 20  # a task holds the operations of a split: ten times its bytes
BUCKET_BYTES = 16 << 20  # of the file's lines; the operations of a bucket are held, too
VERDICTS = ("illegal", "unknown", "ok")  # the worst first
EDN = operations_edn.NAME


class Offsets(NamedTuple):
    """What comes before each split, by its number; and whether events have times."""

    orders: dict[int, int]  # events
    lines: dict[int, int]
    has_times: bool


def judge_file(
    session: SparkSession, path: str, format_name: str | None, request: Request
) -> tuple[Judgement, Minimal | None]:
    """The judgement of a file or a URI, with the object that decides it alone; and its minimal failure, if requested.

    Raises InputError, UsageError, ClusterError.
    """
    check_format(format_name)
    with ExitStack() as stored:
        run, head = _open(session, path, format_name, SPLIT_BYTES)
        size_shuffles(session, run.expanded_bytes)
        with run_errors(run):
            history = _SplitHistory(session, run, path, request, _has_keys_in_values(run, head), stored)
            if history.may_be_cut():
                run, _ = _open(session, path, format_name, UNSPLIT)
                history = _SplitHistory(session, run, path, request, history.splits_pairs, stored)
            if history.splits_pairs != history.has_pairs():
                history = _SplitHistory(session, run, path, request, not history.splits_pairs, stored)
            history.join_boundary_events()
            return history.judge()


def _open(session: SparkSession, path: str, format_name: str | None, split_bytes: int) -> tuple[Run, bytes]:
    """The splits of a file, and its first lines. Raises InputError."""
    if is_uri(path):
        return open_file(session, path, lambda head: format_name or recognise_format(head, path), split_bytes)
    check_file(path)
    head, size = head_of(Path(path)), Path(path).stat().st_size
    name = format_name or recognise_format(head, path)
    splits = plain_splits(path, size, name, 0, split_bytes)
    if compression := compression_of(Path(path)):
        splits = [Split(0, path, name, compression, 0, size)]
    return Run(Path(path), Settings("", "native", {}), tuple(splits), (path,), size), head


def _has_keys_in_values(run: Run, head: bytes) -> bool:
    """Whether the values of EDN are pairs with a key, as far as the first lines show it."""
    if run.splits[0].reader != EDN:
        return False
    try:
        lines = operations_edn.events(decode(head[: head.rfind(b"\n") + 1], ""), "")
    except InputError:
        return False
    return operations_edn.counted_pairs(lines).is_independent


class _SplitHistory:
    """A history that tasks have read, with their reports. `splits_pairs`: they split EDN values into key and value."""

    def __init__(
        self,
        session: SparkSession,
        run: Run,
        source: str,
        request: Request,
        splits_pairs: bool,
        stored: ExitStack,
    ) -> None:
        self.session, self.run, self.source, self.request = session, run, source, request
        self.splits_pairs, self.stored = splits_pairs, stored
        self.buckets = max(shuffle_tasks(session), -(-run.expanded_bytes // BUCKET_BYTES))
        self.rows = store(self._read(None), stored)
        self.reports = sorted(_collect(self.rows, "report"), key=itemgetter("split"))
        self.functions = {f for report in self.reports for f in report["functions"]}
        self.count = sum(report["operations"] for report in self.reports)
        self.errors = _errors(self.reports)
        has_times = (has_time for report in self.reports for _, has_time in report["first"])
        self.offsets = Offsets(
            _counts_before(self.reports, "events"), _counts_before(self.reports, "lines"), next(has_times, False)
        )

    def _read(self, offsets: Offsets | None) -> DataFrame:
        is_edn = self.run.splits[0].reader == EDN  # its forms may have several lines
        reading = partial(_read_split, self.source, self.request.model, self.splits_pairs, self.buckets, offsets)
        return read_splits(self.session, self.run, reading, UNSPLIT if is_edn else BLOCK_BYTES)

    def may_be_cut(self) -> bool:
        """Whether a split of EDN could not be read: perhaps it ends within a form."""
        is_edn, steps = self.run.splits[0].reader == EDN, [error["step"] for error in self.errors]
        return is_edn and len(self.run.splits) > 1 and "read" in steps

    def has_pairs(self) -> bool:
        """Whether the values of EDN are pairs with a key, in the whole history."""
        counts = [PairCounts(*report["pairs"]) for report in self.reports]
        return PairCounts(all(one.may_be_pairs for one in counts), sum(one.reads for one in counts)).is_independent

    def join_boundary_events(self) -> None:
        """Join invocations and completions of different splits. Raises InputError for the first line that is wrong."""
        if self.errors:  # again, for sentences with lines of the file and not of a split
            self.errors = _errors(_collect(self._read(self.offsets), "report"))
        for report in self.reports:
            for line, has_time in report["first"]:
                if has_time != self.offsets.has_times:
                    line += self.offsets.lines[report["split"]]
                    self.errors.append(_fields(time_error(self.source, line, has_time), "pair"))
        joining = partial(_join_boundary_events, self.source, self.request.model, self.buckets, self.offsets)
        joined = store(by_bucket(self.rows.filter("kind = 'boundary'"), self.buckets, joining), self.stored)
        for report in _collect(joined, "report"):
            self.errors += _errors([report])
            self.functions |= set(report["functions"])
            self.count += report["operations"]
        _raise_first(self.errors, self.source)
        self.rows = self.rows.unionByName(joined)

    def judge(self) -> tuple[Judgement, Minimal | None]:
        """Check all buckets: the worst of their results. Raises InputError for an operation that the model lacks."""
        request = self.request
        request = request._replace(model=request.model or model_for(self.functions, self.source).name)
        empty = History(self.source, self.run.splits[0].reader, [], [], self._notes() if request.picture else [])
        model, operations = load_model(str(request.model)), self.rows.filter("kind = 'operations'")
        judging = partial(_judge_bucket, request, empty, self.count, self.offsets, is_second=False)
        judged = _collect(by_bucket(operations, self.buckets, judging), "judged")
        _raise_first(_errors(judged), self.source)
        if not judged:
            return Judgement(model, empty, Result("ok", 0.0, [])), None
        seconds = sum(each["seconds"] for each in judged)
        worst = min(judged, key=itemgetter("rank"))
        verdict = worst["part"]["verdict"]
        if verdict != "unknown" and (request.picture or (request.minimal and verdict == "illegal")):
            # The search of this bucket once more: what is shown was not kept for all buckets.
            judging = partial(
                _judge_bucket, request._replace(timeout=None), empty, self.count, self.offsets, is_second=True
            )
            again = operations.filter(f"bucket = {worst['bucket']}")
            (worst,) = _collect(by_bucket(again, 1, judging), "judged")
        return exchange.judgement_of(worst, model, empty, seconds), exchange.minimal_of(worst)

    def _notes(self) -> list[Note]:
        notes = []
        for split, found in _collect(self.rows, "notes"):
            before = 0 if self.offsets.has_times else self.offsets.orders[split]
            notes += [Note(time + before, text) for time, text in found]
        return sorted(notes, key=lambda note: note.time)


def _counts_before(reports: list[dict[str, Any]], name: str) -> dict[int, int]:
    """By split, the sum of a count in all earlier splits."""
    sums = accumulate((report[name] for report in reports), initial=0)
    return {report["split"]: before for report, before in zip(reports, sums, strict=False)}


def _collect(frame: DataFrame, kind: str) -> list[Any]:
    """The content of the rows of a kind, on the driver."""
    return [unpack(bytes(row["payload"])) for row in frame.filter(f"kind = '{kind}'").collect()]


def _fields(error: InputError, step: str, lines: int = 0) -> dict[str, Any]:
    """An error of a task, for the driver; `lines` come before the text that was read."""
    line = None if error.line is None else error.line + lines
    return {"fields": error.fields, "line": line, "step": step}


def _errors(reports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [report["error"] for report in reports if report["error"]]


def _raise_first(errors: list[dict[str, Any]], source: str) -> None:
    """Raises the error that reading the whole file finds first: it decodes all bytes before it reads a line."""
    if errors:
        order = ("decompress", "decode")
        first = min(errors, key=lambda each: (each["step"] not in order, each["line"] or float("inf")))
        found, expected, hint = first["fields"]
        raise InputError(source, found, expected, hint, line=first["line"])


class _Sorter:
    """Makes rows of operations by bucket of their object, and reports on them."""

    def __init__(self, model_name: str | None, buckets: int) -> None:
        # Every built-in model, of which one is chosen later, has an object for each key.
        self.object_of = by_key if model_name is None else load_model(model_name).partition
        self.buckets, self.count = buckets, 0
        self.functions: set[str] = set()

    def rows(self, split: int, pairing: Pairing) -> Iterator[Row]:
        """Rows of the operations of a pairing, which are removed from it."""
        by_bucket = defaultdict(list)
        for each in pairing.operations:
            self.functions.add(each.operation.action.f)
            by_bucket[self._bucket(each.operation.action)].append(exchange.row_of(each))
        self.count += len(pairing.operations)
        pairing.operations.clear()
        for bucket, rows in by_bucket.items():
            yield "operations", bucket, pack([split, rows])

    def _bucket(self, action: Action) -> int:
        try:
            return hash_of(self.object_of(action)) % self.buckets if self.object_of else 0
        except ModelError:  # the check finds it again, with the line
            return 0

    def report(self, **more: Any) -> Row:
        return "report", -1, pack({"operations": self.count, "functions": sorted(self.functions), **more})


def _read_split(
    source: str,
    model_name: str | None,
    splits_pairs: bool,
    buckets: int,
    offsets: Offsets | None,
    split: Split,
    blocks: Iterable[Block],
) -> Iterator[Row]:
    """The operations of a split, its boundary events by bucket of their process, its notes, and a report."""
    number = split.number
    skipped = offsets.lines.get(number, 0) if offsets else 0
    pairing, sorter = Pairing(source, is_first=number == 0), _Sorter(model_name, buckets)
    order = lines = 0
    pairs, error = PairCounts(True, 0), None
    for block in blocks:
        before, step = skipped + block.first_line, "decompress"
        lines += block.lines
        try:
            if error:
                continue
            if block.damage:
                raise damage_error(source, block.damage.partition(": ")[2])
            step = "decode"
            text = decode(block.data, source, is_first=number == block.first_line == 0)
            step = "read"
            if split.reader == EDN:
                forms = operations_edn.events(text, source)
                pairs = operations_edn.counted_pairs(forms)
                events = operations_edn.without_pairs(forms, source, splits_pairs)
            else:
                events = READERS[split.reader].read(text, source)
            for event in events:
                step = "pair"
                pairing.add(order, event._replace(line=event.line + before) if before else event)
                order, step = order + 1, "read"
        except InputError as found:
            error = _fields(found, step, 0 if step == "pair" else before)
        pairing.close(of_one_line=True)
        yield from sorter.rows(number, pairing)
    boundary = defaultdict(list)
    for at, event, is_open in pairing.boundary_events():
        boundary[hash_of(event.process) % buckets].append((at, is_open, *event))
    for bucket, rows in boundary.items():
        yield "boundary", bucket, pack([number, rows])
    if pairing.notes:
        yield "notes", -1, pack([number, [(note.time, note.text) for note in pairing.notes]])
    first = [(pairing.first.line, pairing.first.time is not None)] if pairing.first else []
    yield sorter.report(split=number, events=order, lines=lines, first=first, pairs=[*pairs], error=error)


def _join_boundary_events(
    source: str, model_name: str | None, buckets: int, offsets: Offsets, _: int, payloads: Payloads
) -> Iterator[Row]:
    """The operations of the boundary events of some processes, and a report."""
    events = []
    for split, rows in map(unpack, payloads["boundary"]):
        for order, is_open, line, *rest in rows:
            event = OperationLine(line + offsets.lines[split], *map(exchange.decode, rest))
            events.append((order + offsets.orders[split], event, is_open))
    pairing, sorter, error = Pairing(source), _Sorter(model_name, buckets), None
    try:
        for found in sorted(events, key=itemgetter(0)):
            pairing.add_boundary_event(*found)
    except InputError as wrong:
        error = _fields(wrong, "pair")
    pairing.close()
    yield from sorter.rows(-1, pairing)
    yield sorter.report(error=error)


def _judge_bucket(
    request: Request, empty: History, count: int, offsets: Offsets, bucket: int, payloads: Payloads, *, is_second: bool
) -> Iterator[Row]:
    """The result of checking a bucket; the second time with all that is shown of the object that decides it."""
    _warm_up()
    paired: list[Paired] = []
    for split, rows in map(unpack, payloads["operations"]):
        before = offsets.orders.get(split, 0), offsets.lines.get(split, 0)  # none before those of boundary events
        paired += exchange.paired_of(rows, *before, has_times=offsets.has_times)
    history = history_of(paired, empty.source, empty.format, [], count - len(paired))
    model = load_model(str(request.model))
    try:
        judgement = judge_operations(model, history, request.timeout, request.memory)
    except InputError as error:
        yield "judged", bucket, pack({"error": _fields(error, "check")})
        return
    result, part, minimal = judgement.result, judgement.part, None
    assert part is not None
    if is_second and request.minimal:
        minimal = minimal_failure(model, history.operations, part)
    has_picture = request.picture and (is_second or result.verdict == "unknown")
    stage = result.stage if result.verdict == "illegal" else 0
    rank = VERDICTS.index(result.verdict), stage, paired[part.operations[0]].order
    sent = exchange.judgement_record(judgement, minimal, has_picture)
    yield "judged", bucket, pack({**sent, "rank": rank, "bucket": bucket, "seconds": result.seconds, "error": None})


@cache
def _warm_up() -> None:
    """Compiles the search once in a worker."""
    compile_search()
