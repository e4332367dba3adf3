"""realtime-order and stale-end-offset: the log and its end grow in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from ...histories.references import LINEARIZABILITY
from ...histories.tables import Finding
from ..partitions.adjacent_runs import adjacent_runs
from ..partitions.foreign_clock import foreign_clock
from ..partitions.partition import Partition
from ..wording import plural, short, some_values
from .gone_sends import gone_sends
from .rule import Result, Row, Rule, Unknown, distinct, finding, missing_isolation_levels, seconds, where
from .send_evidence import known_since, placed_sends


@Rule(
    "realtime-order",
    group="order",
    summary="The log is not in the order of time",
    example="p:a@5 q:b@3",
    source=LINEARIZABILITY,
    needs=("acknowledged", "at offsets"),
    assumes=("clock", "order", "partitions", "invocations"),
    follows="value",
).judged_by
def realtime_order(p: Partition) -> Iterator[Result]:
    """One finding for each run of adjacent appends, with one witness.

    Breach: An append has a smaller offset than a record that was acknowledged, read, or counted by an end offset before
    the append was invoked. The partition is then not linearizable as a log. The offset of an append is known from its
    acknowledgement, or from reads of a value that was sent once. Where its acknowledgement has no offset, a record is
    known since its first read. Adjacent later appends are one finding with one witness. Where the witness was lost, or
    all of the appends were, the finding follows from that loss.
    Not a breach: The append was invoked before the acknowledgement, read or response: the two overlap.
    Unknown when: A process recorded its times in another unit or by another clock.
    """
    appends = placed_sends(p).with_row_index("append")
    if not len(appends):
        return
    known = pl.concat([known_since(p), _ends(p)]).sort("completed", "at", maintain_order=True)
    breaches = below_highest_known(appends, known)
    if not len(breaches):
        return
    if clock := foreign_clock(p):
        yield Unknown(clock)
        return
    # A lost record does not separate the records that took its place.
    between = appends.join(breaches, on="append", how="anti").join(gone_sends(p), on="value", how="anti")
    for run in adjacent_runs(breaches.sort("offset", "invoked"), between["offset"].sort().to_numpy()):
        yield _early_appends(p, run, known.row(run["witness"][0], named=True))


def below_highest_known(rows: pl.DataFrame, known: pl.DataFrame, by: str = "offset") -> pl.DataFrame:
    """Rows (invoked, and `by`) below the greatest `by` that was known strictly before their invocation.

    `known` (completed, and `by`) is in the order of time. `witness` is the row of it that set this greatest one.
    """
    highest = pl.col(by).cum_max()
    earlier = known.with_row_index("row").select(
        "completed", highest=highest, witness=pl.when(pl.col(by) == highest).then("row").forward_fill()
    )
    return (
        rows.sort("invoked", maintain_order=True)
        .join_asof(earlier, left_on="invoked", right_on="completed", allow_exact_matches=False, check_sortedness=False)
        .filter(pl.col(by) < pl.col("highest"))
    )


def _early_appends(p: Partition, run: pl.DataFrame, witness: Row) -> Finding:
    first = run.row(0, named=True)
    return finding(
        p,
        f"{_event(p, witness)} at {seconds(witness['completed'])}, but {plural(len(run), 'later append')}"
        f" ({some_values(run['value'].to_list())}) {'is' if len(run) == 1 else 'are'} before it, at"
        f" {where(p, first['offset'], run['offset'][-1])}{_if_clocks_agree(witness, run['process'])}",
        (first["offset"], run["offset"][-1]),
        [
            _evidence(witness),
            (f"{first['process']} sends {short(first['value'])} afterwards", first["invoked_at"]),
            (f"{short(first['value'])}{first['how']} at offset {first['offset']}", first["at"]),
        ],
        count=len(run),
        values=distinct([witness["value"], *run["value"].to_list()]),
        processes=[witness["process"], *run["process"]],
    )


def _if_clocks_agree(witness: Row, others: Iterable[str]) -> str:
    """The condition under which the times of different processes contradict each other."""
    return "" if {*others} == {witness["process"]} else ", if their clocks agree"


def _ends(p: Partition) -> pl.DataFrame:
    """End offsets and last stable offsets in the columns of `known_since`: later appends are not below this offset."""
    return p.end_offsets.select(
        "offset", pl.lit(None, pl.String).alias("value"), "process", "completed", "at", how=pl.lit("end_offsets")
    )


def _event(p: Partition, row: Row) -> str:
    if row["how"] == "end_offsets":
        return f"end_offsets returned {row['offset']}"
    return f"{short(row['value'])} was {row['how']} at {where(p, row['offset'])}"


def _evidence(row: Row) -> tuple[str, int]:
    if row["how"] == "end_offsets":
        return f"end offset {row['offset']}", row["at"]
    if row["how"] == "read":
        return f"{short(row['value'])} read by {row['process']}", row["at"]
    return f"{short(row['value'])} acknowledged at offset {row['offset']}", row["at"]


@Rule(
    "stale-end-offset",
    group="order",
    summary="An end offset was too small",
    example="p:a@0 p:b@1 end=1",
    source=LINEARIZABILITY,
    needs=("end_offsets",),
    assumes=("clock", "order"),
    follows="offset",
).judged_by
def stale_end_offset(p: Partition) -> Iterator[Result]:
    """end_offsets that are less than what was acknowledged or read before the request, or than an earlier response.

    Breach: end_offsets returned less than what was acknowledged or read before the request, or less than an earlier
    response.
    Not a breach: Where transactions write, end_offsets returns the last stable offset to a read_committed client, which
    may be less.
    Unknown when: Transactions write, and run.json does not set isolation.level of the client. A process recorded its
    times in another unit or by another clock.
    """
    if not len(p.end_offsets):
        return
    requests = pl.concat([p.log_ends.with_columns(sure=pl.lit(True)), p.unsure_ends.with_columns(sure=pl.lit(False))])
    known = pl.concat([known_since(p).with_columns(end=pl.col("offset") + 1), _ends(p).with_columns(end="offset")])
    known = known.sort("completed", "at", maintain_order=True)
    stale = below_highest_known(requests.with_columns(end="offset"), known, "end").sort("invoked", "at")
    if not len(stale):
        return
    yield from missing_isolation_levels(p, stale.filter(~pl.col("sure"))["process"])
    sure = stale.filter("sure")
    if len(sure) and (clock := foreign_clock(p)):
        yield Unknown(clock)
        return
    for row in sure.iter_rows(named=True):
        yield _stale(p, row, known.row(row["witness"], named=True))


def _stale(p: Partition, row: Row, witness: Row) -> Finding:
    return finding(
        p,
        f"end_offsets returned {row['offset']} for {p.name} to {row['process']} at {seconds(row['completed'])}, but"
        f" {_event(p, witness)} at {seconds(witness['completed'])}{_if_clocks_agree(witness, [row['process']])}",
        (row["offset"], witness["offset"] - (witness["how"] == "end_offsets")),
        [_evidence(witness), (f"end offset {row['offset']}", row["at"])],
        processes=[row["process"]],
    )
