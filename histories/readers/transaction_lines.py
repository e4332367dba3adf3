"""Reads the EDN histories of Jepsen's transactional workloads, which Elle judges: operations with :value [[f k v] ...].

Both formats (elle_append.py, elle_register.py) give the same tables: EVENTS has a row for each event of a client, STEPS
one for each of its micro-operations. Keys and values are EDN texts (`edn.dumps`); equal forms have equal texts. An
event without :process belongs to the process nil. Events of processes other than numbers and nil (:nemesis), and those
with another :f than :txn, are skipped.

Regular expressions of polars read the lines that Clojure prints for integer values, 350,000 a second on one core;
edn.py reads the others, 15,000 a second. An event may take several lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from ..tables import REASONS, TYPES, Schema
from . import edn
from .edn import INT, vector_of
from .lines import BOM, MalformedError, decode_line, lines_of, texts

EVENTS: Schema = {"line": pl.Int64, "type": pl.String, "process": pl.String, "has_value": pl.Boolean}
# f: r or w. value: null if nil; of a read list the elements, each with SEPARATOR after it (no EDN text contains it).
STEPS: Schema = {"line": pl.Int64, "step": pl.Int64, "f": pl.String, "key": pl.String, "value": pl.String}
SEPARATOR = "\n"
MAX_LINES = 20  # of one event
MAX_JOINED = 1 << 20  # characters of an event that takes several lines
MAX_STEPS = 100_000  # of one event

_TIMES = rf"(?:, :(?:index|time) {INT})*"
_PREFIX = rf"^\{{(?::(?:index|time) {INT}, )*"
_TYPE = r":type :(?:invoke|ok|fail|info)"
_PROCESS = rf":process {INT}"

Read = Callable[[Any], str | None]  # the text of the value of a :r; raises MalformedError


class Format(NamedTuple):
    """The notation of one workload's micro-operations."""

    write: str  # the name of its writing micro-operation
    step: str  # a regular expression of the common micro-operations
    read: Read


class Transactions(NamedTuple):
    """The events of complete lines."""

    events: pl.DataFrame
    steps: pl.DataFrame
    quarantine: pl.DataFrame


def begins_as_edn(head: bytes) -> bool:
    """Whether the first bytes begin with a map, a vector, a comment or a tag."""
    return head.lstrip(BOM + b" \t\r\n").startswith((b"{", b"[", b";", b"#"))


def parse_transactions(blob: bytes, form: Format) -> Transactions:
    """The tables of complete lines; it never raises."""
    lines = lines_of(blob)
    text = texts(lines).str.strip_chars_end("\r").to_frame().with_row_index("line").cast({"line": pl.Int64})
    value = rf":f :txn, :value (?:nil|{vector_of(form.step)})"
    orders = ((_TYPE, _PROCESS, value), (_TYPE, value, _PROCESS), (_PROCESS, _TYPE, value))
    common = "|".join(rf"{_PREFIX}{f'{_TIMES}, '.join(order)}{_TIMES}\}}$" for order in orders)
    is_common = text["text"].str.contains(common).fill_null(False)
    events = text.filter(is_common).select(
        "line",
        type=pl.col("text").str.extract(r":type :(\w+)"),
        process=pl.col("text").str.extract(rf"(?:\{{|, ):process ({INT})"),
        has_value=~pl.col("text").str.contains(":value nil", literal=True),
    )
    steps = (
        text.filter(is_common)
        .select("line", step=pl.col("text").str.extract_all(form.step))
        .explode("step", empty_as_null=False)
        .with_columns(pl.col("step").str.extract_groups(r"^\[:(\w+) ([^ \]]+)(?: (.*))?\]$"))
    )
    fields = pl.col("step").struct
    items = pl.col("value").str.strip_chars("[]").str.replace_all(" ", SEPARATOR, literal=True)
    steps = steps.select("line", f=fields.field("1"), key=fields.field("2"), value=fields.field("3")).select(
        "line",
        pl.int_range(pl.len()).over("line").alias("step"),
        pl.when(pl.col("f") == "r").then(pl.lit("r")).otherwise(pl.lit("w")).alias("f"),
        "key",
        pl.when(pl.col("value") == "nil")
        .then(None)
        .when(pl.col("value") == "[]")
        .then(pl.lit(""))
        .when(pl.col("value").str.starts_with("["))
        .then(items + SEPARATOR)
        .otherwise("value")
        .alias("value"),
    )
    others = _OtherLines(lines, form)
    others.parse(text.filter(~is_common)["line"].to_list())
    events, steps = events.cast(pl.Schema(EVENTS)), steps.cast(pl.Schema(STEPS))
    if others.events:
        events = pl.concat([events, pl.DataFrame(others.events, EVENTS, orient="row")]).sort("line")
        other_steps = pl.DataFrame(others.steps, STEPS, orient="row")
        steps = pl.concat([steps, other_steps]).sort("line", maintain_order=True)
    return Transactions(events, steps, pl.DataFrame(others.malformed, REASONS, orient="row"))


class _OtherLines:
    """Reads lines by edn.py, each with up to MAX_LINES - 1 lines after it if its last form has no end."""

    def __init__(self, lines: list[bytes], form: Format) -> None:
        self.lines, self.form = lines, form
        self.events: list[tuple[int, str, str, bool]] = []
        self.steps: list[tuple[int, int, str, str, str | None]] = []
        self.malformed: list[tuple[int, str]] = []

    def parse(self, numbers: list[int]) -> None:
        """Reads the lines with these numbers, which ascend."""
        at = 0
        while at < len(numbers):
            try:
                forms, taken = self._forms_from(numbers[at : at + MAX_LINES])
                if forms:
                    self._add(numbers[at], _event(forms))
            except (MalformedError, edn.EdnError) as error:
                self.malformed.append((numbers[at], str(error)))
                taken = 1
            at += taken

    def _forms_from(self, numbers: list[int]) -> tuple[list[Any], int]:
        """The forms of the first line, or of as many adjacent ones as these take, and the number of these lines."""
        text, taken = decode_line(self.lines[numbers[0]]), 1
        while True:
            try:
                return edn.read_all(text), taken
            except edn.UnclosedError:
                if numbers[taken : taken + 1] != [numbers[0] + taken] or len(text) >= MAX_JOINED:
                    raise
            text += "\n" + decode_line(self.lines[numbers[taken]])
            taken += 1

    def _add(self, number: int, event: Any) -> None:
        entries = edn.by_name(event)
        process, f, value = entries.get("process"), entries.get("f"), entries.get("value")
        if isinstance(process, bool) or not isinstance(process, int | None):
            return
        if f not in (None, edn.Keyword("txn"), "txn"):
            return
        kind = getattr(entries.get("type"), "name", None)
        if kind not in TYPES:
            raise MalformedError(
                f"found :type {edn.excerpt(entries.get('type'))}, expected :invoke, :ok, :fail or :info"
            )
        if value is not None and not isinstance(value, tuple):
            raise MalformedError(f"found :value {edn.excerpt(value)}, expected a vector of micro-operations")
        if value is not None and len(value) > MAX_STEPS:
            raise MalformedError(f"found {len(value):,} micro-operations, expected at most {MAX_STEPS:,}")
        steps = [self._step(step) for step in value or ()]
        self.events.append((number, kind, edn.dumps(process), value is not None))
        self.steps += [(number, place, *step) for place, step in enumerate(steps)]

    def _step(self, step: Any) -> tuple[str, str, str | None]:
        name = step[0].name if isinstance(step, tuple) and step and isinstance(step[0], edn.Keyword) else None
        if name == "r" and len(step) in (2, 3):
            return "r", edn.dumps(step[1]), None if len(step) == 2 or step[2] is None else self.form.read(step[2])
        if name == self.form.write and len(step) == 3:
            return "w", edn.dumps(step[1]), edn.dumps(step[2])
        expected = f"[:r key value] or [:{self.form.write} key value]"
        raise MalformedError(f"found the micro-operation {edn.excerpt(step)}, expected {expected}")


def _event(forms: list[Any]) -> dict[Any, Any]:
    """The map of the one event among the forms of a line."""
    event = forms[0].value if isinstance(forms[0], edn.Tagged) else forms[0]  # #jepsen.history.Op{...}
    if len(forms) > 1 or not isinstance(event, dict):
        found = f"{len(forms)} forms" if len(forms) > 1 else edn.excerpt(event)
        raise MalformedError(f"found {found}, expected the map of one event")
    return event
