"""The rules as Jepsen's kafka workload has them, for histories of Jepsen.

Source: jepsen.tests.kafka. Unlike in native histories, polls of every outcome and sends that must have committed show a
key's log, its index is dense, and no read is known to be final. A Partition is one key here.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.tables import Finding
from ..partitions.partition import Partition, once
from ..wording import plural, some
from .findings import distinct, finding, seconds
from .judgement import Result, collected

Pairs = pl.DataFrame


@once
def log(p: Partition) -> pl.DataFrame:
    """The (offset, value) pairs that the key's log is known to have held, in order of offset."""
    sent = _committed(p).filter(pl.col("offset").is_not_null()).select("offset", "value", "process", "at")
    polled = p.reads.filter(pl.col("offset").is_not_null()).select("offset", "value", "process", "at")
    both = pl.concat([sent, polled]).unique(["offset", "value"], keep="first", maintain_order=True)
    return both.sort("offset", maintain_order=True)


@once
def index(p: Partition) -> pl.DataFrame:
    """The first and last place of each value in the dense log; columns value, first, last.

    An offset with several values counts once, with the first of them in the order of `log`.
    """
    chosen = log(p).unique("offset", keep="first", maintain_order=True).with_row_index("place")
    return chosen.group_by("value", maintain_order=True).agg(
        pl.col("place").min().cast(pl.Int64).alias("first"),
        pl.col("place").max().cast(pl.Int64).alias("last"),
    )


def _committed(p: Partition) -> pl.DataFrame:
    """Sends of operations that are ok, or undecided but read by another operation."""
    seen = pl.col("at").is_in(p.confirmed.implode())
    return p.sends.filter((pl.col("outcome") == "ok") | ((pl.col("outcome") == "info") & seen))


def _read_by_ok(p: Partition) -> pl.DataFrame:
    return p.reads.filter(pl.col("outcome") == "ok").select("value").unique()


@collected
def lost_writes(p: Partition) -> Iterator[Result]:
    """Values that no ok operation read, although their writer must have committed and a later value was read."""
    read = _read_by_ok(p)
    bound = index(p).join(read, on="value", how="semi")["first"].max()
    if bound is None:
        return
    written = _committed(p).unique("value", keep="first", maintain_order=True)
    lost = (
        index(p)
        .filter(pl.col("last") <= bound)
        .join(read, on="value", how="anti")
        .join(written, on="value", how="inner")
        .join(log(p).select("value", pl.col("offset").alias("held")), on="value", how="left")
        .unique("value", keep="last")
        .sort("last")
    )
    for row in lost.iter_rows(named=True):
        outcome = "acknowledged" if row["outcome"] == "ok" else "undecided, but other values of it were read"
        yield _finding(
            p,
            "lost-write",
            f"{row['value']} was sent by {row['process']} ({outcome} at {seconds(row['completed'])}) and is at offset"
            f" {row['held']} of key {p.topic}, but no poll returned it, although later values were read",
            row["held"],
            [row["value"]],
            row["process"],
            (f"{row['process']} sends {row['value']}", row["at"]),
        )


@collected
def unseen(p: Partition) -> Iterator[Result]:
    """Values that an ok operation sent and no ok operation polled."""
    sent = p.sends.filter(pl.col("outcome") == "ok").unique("value", keep="first", maintain_order=True)
    for row in sent.join(_read_by_ok(p), on="value", how="anti", maintain_order="left").iter_rows(named=True):
        yield _finding(
            p,
            "unseen",
            f"{row['value']} was acknowledged to {row['process']} at {seconds(row['completed'])} in key {p.topic}, but"
            " no poll returned it",
            row["offset"],
            [row["value"]],
            row["process"],
            (f"{row['process']} sends {row['value']}", row["at"]),
        )


@collected
def inconsistent_offsets(p: Partition) -> Iterator[Result]:
    """Offsets with two or more values."""
    for (offset,), rows in log(p).filter(pl.col("offset").is_duplicated()).group_by("offset", maintain_order=True):
        values = rows["value"].to_list()
        yield _finding(
            p,
            "inconsistent-offsets",
            f"offset {offset} of key {p.topic} held {' and '.join(map(str, values))}",
            int(str(offset)),
            values,
            None,
            *((f"{row['value']} at offset {offset}", row["at"]) for row in rows.head(8).to_dicts()),
        )


@collected
def duplicates(p: Partition) -> Iterator[Result]:
    """Values at two or more offsets."""
    for (value,), rows in log(p).filter(pl.col("value").is_duplicated()).group_by("value", maintain_order=True):
        offsets = rows["offset"].to_list()
        yield _finding(
            p,
            "duplicate",
            f"{value} is at offsets {some([str(offset) for offset in offsets], 8)} of key {p.topic}",
            offsets[0],
            [value],
            None,
            *((f"{value} at offset {row['offset']}", row["at"]) for row in rows.head(8).to_dicts()),
            last=offsets[-1],
        )


@collected
def aborted_reads(p: Partition) -> Iterator[Result]:
    """G1a: values that a failed operation sent and an ok operation read, with all their readers."""
    failed = p.sends.filter(pl.col("outcome") == "fail").select(
        "value", pl.col("process").alias("writer"), pl.col("at").alias("written_at")
    )
    read = p.reads.filter(pl.col("outcome") == "ok").join(failed.unique("value", keep="first"), on="value")
    for (value,), rows in read.sort("at").group_by("value", maintain_order=True):
        row = rows.row(0, named=True)
        readers = distinct(rows["process"])
        yield _finding(
            p,
            "aborted-read",
            f"{some(readers)} read {value} at offset {row['offset']} of key {p.topic}, but"
            f" {row['writer']} failed to write it",
            row["offset"],
            [value],
            None,
            (f"{row['writer']} fails to write {value}", row["written_at"]),
            *(
                (f"{read['process']} reads {value}", read["at"])
                for read in rows.unique("at").sort("at").head(8).to_dicts()
            ),
            processes=readers,
        )


@collected
def precommitted_reads(p: Partition) -> Iterator[Result]:
    """Operations of any outcome that polled a value that they send themselves."""
    own = p.sends.select("at", "value").unique()
    for row in p.reads.join(own, on=["at", "value"], how="semi").unique("at", keep="first").sort("at").to_dicts():
        yield _finding(
            p,
            "precommitted-read",
            f"{row['process']} read {row['value']} at offset {row['offset']} of key {p.topic} in the transaction that"
            " writes it",
            row["offset"],
            [row["value"]],
            row["process"],
            ("the transaction", row["at"]),
        )


@collected
def int_poll_skips(p: Partition) -> Iterator[Result]:
    """Adjacent values in one operation's polls, where the second is more than one place ahead."""
    yield from _steps(p, "int-poll-skip", _polls_within(p), ahead=True)


@collected
def int_nonmonotonic_polls(p: Partition) -> Iterator[Result]:
    """Adjacent values in one operation's polls, where the second is the same or earlier in the log."""
    yield from _steps(p, "int-nonmonotonic-poll", _polls_within(p), ahead=False)


@collected
def int_send_skips(p: Partition) -> Iterator[Result]:
    """Adjacent sends of one operation, where the second is more than one place ahead: a note."""
    yield from _steps(p, "int-send-skip", _sends_within(p), ahead=True, severity="note")


@collected
def int_nonmonotonic_sends(p: Partition) -> Iterator[Result]:
    """Adjacent sends of one operation, where the second is the same or earlier in the log."""
    yield from _steps(p, "int-nonmonotonic-send", _sends_within(p), ahead=False)


@collected
def poll_skips(p: Partition) -> Iterator[Result]:
    """Polls that begin more than one place ahead of the last value of their process's latest ok poll."""
    yield from _steps(p, "poll-skip", _polls(p), ahead=True, severity=_subscribed(p))


@collected
def nonmonotonic_polls(p: Partition) -> Iterator[Result]:
    """Polls that begin at or before the last value of their process's latest ok poll."""
    yield from _steps(p, "nonmonotonic-poll", _polls(p), ahead=False, severity=_subscribed(p))


@collected
def nonmonotonic_sends(p: Partition) -> Iterator[Result]:
    """Operations that send at or before the last value of their process's previous one; failed ones do not count."""
    sends = p.sends.filter(pl.col("outcome") != "fail")
    yield from _steps(p, "nonmonotonic-send", _across(p, sends, sends.clear(), every_outcome=True), ahead=False)


def _subscribed(p: Partition) -> str:
    """Consumers of groups may be moved at any time, so Jepsen allows both rules where its clients subscribe."""
    return "permitted" if "subscribe" in p.context["kind"] else "violation"


# Pairs of values that the skip rules and the nonmonotonic rules both compare.


@once
def _polls(p: Partition) -> Pairs:
    return _across(p, p.reads, p.marks.filter(pl.col("kind") == "empty"), every_outcome=False)


@once
def _polls_within(p: Partition) -> Pairs:
    return _within(p, p.reads.filter(~pl.col("exempt")))


@once
def _sends_within(p: Partition) -> Pairs:
    return _within(p, p.sends)


def _within(p: Partition, rows: pl.DataFrame) -> Pairs:
    """Pairs of adjacent values of one operation."""
    if not len(rows):
        return _with_delta(
            p, rows.select("process", "at", "value").with_columns(before="value", before_at="at").clear()
        )
    ordered = rows.sort("at", "index")
    pairs = ordered.select(
        "process",
        "at",
        "value",
        pl.col("value").shift(1).alias("before"),
        pl.col("at").shift(1).alias("before_at"),
    ).filter(pl.col("at") == pl.col("before_at"))
    return _with_delta(p, pairs)


def _across(p: Partition, rows: pl.DataFrame, empty: pl.DataFrame, every_outcome: bool) -> Pairs:
    """The last value of the process's latest operation that counts, and the first value of each later one."""
    operations = (
        rows.sort("at", "index")
        .group_by("process", "at", "outcome", maintain_order=True)
        .agg(pl.col("value").first().alias("value"), pl.col("value").last().alias("last"))
    )
    nothing = (
        empty.select("process", "at", "outcome")
        .unique()
        .join(operations, on=["process", "at"], how="anti")
        .with_columns(pl.lit(None, dtype=pl.String).alias("value"), pl.lit(None, dtype=pl.String).alias("last"))
    )
    ordered = pl.concat([operations, nothing]).sort("process", "at").with_row_index("row")
    counts = pl.col("outcome") == "ok" if not every_outcome else pl.lit(True)
    latest = ordered.select(pl.when(counts).then("row").forward_fill().shift(1).over("process")).to_series()
    pairs = ordered.select(
        "process",
        "at",
        "value",
        ordered["last"].gather(latest).alias("before"),
        ordered["at"].gather(latest).alias("before_at"),
    ).filter(pl.col("value").is_not_null() & pl.col("before").is_not_null())
    return _with_delta(p, pairs.filter(~_is_reset(p, pairs)))


def _is_reset(p: Partition, pairs: pl.DataFrame) -> pl.Series:
    """Whether the process was assigned or subscribed to other keys in between: its position here is cleared."""
    moves = p.context.filter(pl.col("kind").is_in(["assign", "subscribe"]) & (pl.col("outcome") != "fail"))
    named = p.marks.filter(pl.col("kind").is_in(["assign", "subscribe"])).select("process", "at")
    others = (
        moves.join(named, on=["process", "at"], how="anti").select("process", pl.col("at").alias("reset")).sort("reset")
    )
    last = (
        pairs.with_row_index()
        .sort("at")
        .join_asof(
            others,
            left_on="at",
            right_on="reset",
            by="process",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
    )
    return last.sort("index").select((pl.col("reset") >= pl.col("before_at")).fill_null(False)).to_series()


def _with_delta(p: Partition, pairs: pl.DataFrame) -> Pairs:
    """Add `delta`, the places from the first value to the second. Pairs without a known place are dropped."""
    places = index(p).select("value", "last")
    return (
        pairs.join(places, on="value", how="inner", maintain_order="left")
        .join(
            places.rename({"value": "before", "last": "from"}),
            on="before",
            how="inner",
            maintain_order="left",
        )
        .with_columns((pl.col("last") - pl.col("from")).alias("delta"))
        .sort("at", maintain_order=True)
    )


def _steps(p: Partition, rule: str, pairs: Pairs, ahead: bool, severity: str = "violation") -> Iterator[Result]:
    wrong = pairs.filter(pl.col("delta") > 1 if ahead else pl.col("delta") < 1)
    offsets = {row["value"]: row["offset"] for row in log(p).iter_rows(named=True)} if len(wrong) else {}
    verb = "sent" if "send" in rule else "polled"
    for row in wrong.iter_rows(named=True):
        first, second = row["before"], row["value"]
        how = f"passing over {plural(row['delta'] - 1, 'value')}" if ahead else "going back"
        yield _finding(
            p,
            rule,
            f"{row['process']} {verb} {first} and then {second} of key {p.topic}, {how}",
            min(offsets[first], offsets[second]),
            [first, second],
            row["process"],
            (f"{row['process']} {verb} {first}", row["before_at"]),
            (f"{row['process']} {verb} {second}", row["at"]),
            last=max(offsets[first], offsets[second]),
            severity=severity,
        )


def _finding(
    p: Partition,
    rule: str,
    sentence: str,
    offset: int | None,
    values: list[object],
    process: str | None,
    *evidence: tuple[str, int | None],
    last: int | None = None,
    severity: str = "violation",
    processes: list[str] | None = None,
) -> Finding:
    who = [process] if processes is None else processes
    offsets = (offset, offset if last is None else last)
    return finding(p, rule, sentence, offsets, evidence, values=values, processes=who, severity=severity)
