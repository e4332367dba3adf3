"""nonmonotonic-send, int-nonmonotonic-send and int-send-skip: records are in the order of their producer's sends."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import JEPSEN
from ...histories.tables import Finding
from ..partitions.absences import lasting_offsets
from ..partitions.partition import Partition, once
from ..wording import plural, short
from .jepsen_steps import GOES_BACK, SKIPS, findings_of, steps_between, steps_within
from .rule import Result, Row, Rule, finding, where
from .send_evidence import without_idempotence


@Rule(
    "nonmonotonic-send",
    group="order",
    summary="A producer's acknowledged offsets went back",
    example="p:a@1 p:b@0",
    source=JEPSEN,
    needs=("acknowledged", "placed"),
    assumes=("invocations", "process clock"),
    follows="value",
).judged_by
def nonmonotonic_send(p: Partition) -> Iterator[Result]:
    """Sends with a smaller offset than the previous one of their producer, which did not crash in between.

    Breach: Of two sends of a producer to a partition, the one that was invoked later has the smaller offset. A send
    that was acknowledged without an offset is not judged.
    Not a breach: After a crash the producer is a new client. Permitted: the producer is certainly not idempotent, so a
    retry of the first send may come after the second.
    In Jepsen histories: The same, over ok and undecided operations, and always a violation.
    """
    yield from _steps_back(p, is_within=False)


@nonmonotonic_send.judged_in_jepsen_by
def nonmonotonic_send_in_jepsen(p: Partition) -> Iterator[Result]:
    """Operations that send at or before the last value of their process's previous one; failed ones do not count."""
    sends = p.sends.filter(pl.col("outcome") != "fail")
    steps = steps_between(p, sends, sends.clear(), counts=pl.lit(True))
    yield from findings_of(p, "sent", steps.filter(GOES_BACK))


@Rule(
    "int-nonmonotonic-send",
    group="transactions",
    summary="The records of one transaction are in the wrong order",
    example="p:(a@1,b@0)",
    source=JEPSEN,
    needs=("transactions",),
    follows="value",
).judged_by
def int_nonmonotonic_send(p: Partition) -> Iterator[Result]:
    """Sends of one transaction with a smaller offset than the previous one.

    Breach: The same as nonmonotonic-send, between adjacent sends of one operation.
    Not a breach: Permitted: the producer is certainly not idempotent.
    In Jepsen histories: The same, and always a violation.
    """
    yield from _steps_back(p, is_within=True)


int_nonmonotonic_send.judged_in_jepsen_by(lambda p: findings_of(p, "sent", steps_within(p, p.sends).filter(GOES_BACK)))


@Rule(
    "int-send-skip",
    group="transactions",
    summary="Records of other producers are between those of one transaction",
    example="p:(a@0,b@2).. q:x@1 p:..(a@0,b@2)",
    source=JEPSEN,
    needs=("transactions",),
).judged_by
def int_send_skip(p: Partition) -> Iterator[Result]:
    """Records of other producers between those of one transaction: allowed, so a note.

    Breach: None: any second producer causes this, so it is a note.
    Not a breach: Every case.
    In Jepsen histories: The same.
    """
    if not len(_odd_steps(p)):
        return
    ahead = _odd_steps(p).filter((pl.col("offset") > pl.col("previous") + 1) & (pl.col("at") == pl.col("previous_at")))
    for row in ahead.iter_rows(named=True):
        first, last = np.searchsorted(lasting_offsets(p), [row["previous"] + 1, row["offset"]], "left")
        between = np.setdiff1d(lasting_offsets(p)[first:last], p.sends.filter(at=row["at"])["offset"].to_numpy())
        if len(between):
            first, last = int(between[0]), int(between[-1])
            yield finding(
                p,
                f"{plural(len(between), 'record')} of other producers ({where(p, first, last)})"
                f" {'is' if len(between) == 1 else 'are'} between {short(row['previous_value'])} and"
                f" {short(row['value'])}, which {row['process']} wrote in one transaction",
                (first, last),
                [("the transaction", row["at"])],
                count=len(between),
                values=[row["previous_value"], row["value"]],
                processes=[row["process"]],
                severity="note",
            )


int_send_skip.judged_in_jepsen_by(lambda p: findings_of(p, "sent", steps_within(p, p.sends).filter(SKIPS), "note"))


def _steps_back(p: Partition, is_within: bool) -> Iterator[Result]:
    if not len(_odd_steps(p)):
        return
    is_same = pl.col("at") == pl.col("previous_at")
    back = _odd_steps(p).filter((pl.col("offset") < pl.col("previous")) & (is_same == is_within))
    if not len(back):
        return
    back = back if is_within else _without_crash_between(p, back)
    excused = without_idempotence(p, pl.concat([back["value"], back["previous_value"]]))
    for row in back.iter_rows(named=True):
        yield _going_back_finding(p, row, excused)


def _without_crash_between(p: Partition, back: pl.DataFrame) -> pl.DataFrame:
    """The pairs of sends whose producer did not crash between their invocations."""
    crashes = p.context.filter(kind="crash").select("process", crashed="completed")
    pairs, dated = back.sort("invoked", maintain_order=True), crashes.drop_nulls().sort("crashed")
    latest = pairs.join_asof(dated, left_on="invoked", right_on="crashed", by="process", check_sortedness=False)
    return latest.filter(pl.col("crashed").is_null() | (pl.col("crashed") <= pl.col("previous_invoked")))


def _going_back_finding(p: Partition, row: Row, excused: set[tuple[str | None, str]]) -> Finding:
    process = str(row["process"])
    permitted = bool(excused & {(process, str(row["value"])), (process, str(row["previous_value"]))})
    return finding(
        p,
        f"{process} sent {short(row['previous_value'])} before {short(row['value'])}, but their offsets are"
        f" {p.name}@{row['previous']} and @{row['offset']}"
        + (" (permitted: the producer is not idempotent)" if permitted else ""),
        (row["offset"], row["previous"]),
        [
            (f"{short(row['previous_value'])} acknowledged at {row['previous']}", row["previous_at"]),
            (f"{short(row['value'])} acknowledged at {row['offset']}", row["at"]),
        ],
        values=[row["previous_value"], row["value"]],
        processes=[process],
        severity="permitted" if permitted else "violation",
    )


@once
def _odd_steps(p: Partition) -> pl.DataFrame:
    """Acknowledged sends behind the previous one of their producer, or apart from it within one operation.

    Columns: process, invoked, at, offset, value, and the previous send's (previous is its offset). Few sends are odd,
    so only their rows are held; no columns without two sends.
    """
    known = p.acknowledged.filter(pl.col("offset").is_not_null() & ~pl.col("synthetic"))
    if len(known) < 2:
        return pl.DataFrame()
    sent = known.select("process", "invoked", "at", "offset", "value")
    row = sent.select("process").with_row_index("row").select(pl.col("row").shift(1).over("process"))["row"]
    offset, at = sent["offset"].gather(row), sent["at"].gather(row)
    is_odd = (sent["offset"] < offset) | ((sent["at"] == at) & (sent["offset"] > offset + 1))
    odd = is_odd.fill_null(False).arg_true()
    names = {"offset": "previous", "value": "previous_value", "at": "previous_at", "invoked": "previous_invoked"}
    return sent[odd].hstack(sent[row.gather(odd)].select(pl.col(name).alias(new) for name, new in names.items()))
