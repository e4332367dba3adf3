"""corruption: a broker with a damaged or missing segment led, so clients missed records; or it may lead some day.

A broker sends its segments without checking their CRC. A client that does not check it either (check.crcs=false) reads
other values at the same offsets; a client that checks it gets an error. Readers miss the record as long as that broker
leads, though other replicas hold it. A broker that starts without one of its segments skips the records in it.

Needs: damaged batches (CRC, length, magic, records that cannot be decoded) over all of the offsets in one broker's log;
this broker led after the records were written; and another log of the same snapshot has an intact copy. For a loss, a
segment that is missing between two others is damage as well; and every log, with that of the last leader, holds the
record intact or is damaged there, so only the damaged copy can have been read. For the damage itself (log-corruption)
its broker need not have led.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import polars as pl

from ...histories.tables import MAX_INT64
from ..replicas.replica_logs import in_snapshot
from ..rules.log_order import CORRUPT
from ..timelines.facts import Fact, fact_of, ordered
from ..timelines.fault_kinds import DAMAGES
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import brokers, span
from .cases import NOT_THE_CASE, Attempt, Lost, needs
from .prevention import CHECKSUMS

CITATION = (
    "check.crcs, CorruptRecordException (CRC-32C of record batches, KIP-98); Ganesan et al., Redundancy Does Not Imply"
    " Fault Tolerance, FAST 2017"
)
REMEDY = (
    "Move leadership to a replica with an intact copy, then delete the damaged replica so that its broker fetches it"
    " again; check.crcs=true in consumers."
)
PREVENTED_BY = ["check.crcs=true in consumers (an error instead of a wrong value)", CHECKSUMS]
WHOLE_LOGS = "starting a broker with all segments of its logs (kafka-delete-records.sh deletes old records)"
Row = dict[str, Any]
MISSING = "missing"  # no segment has the offsets between two others


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether acknowledged records were not read because the leader's copy of them was damaged."""
    return _attempt(timeline, lost, is_loss=True)


def explain_misread(timeline: Timeline, offset: int, *, is_read: bool = True) -> Attempt:
    """Whether a read at an offset returned a damaged copy, even if the record is not lost at the end.

    Without `is_read`, whether there is a damaged copy, which clients may have read or not.
    """
    logs = timeline.replica_logs
    return _attempt(timeline, Lost(logs.topic, logs.partition, offset, offset, 1), is_loss=False, is_read=is_read)


def _attempt(timeline: Timeline, lost: Lost, *, is_loss: bool, is_read: bool = True) -> Attempt:
    """Whether damage of the last snapshot that shows it covers the offsets, and its broker led if they were read."""
    logs = timeline.replica_logs
    if logs.damage.is_empty() and not (is_loss and logs.missing):
        return NOT_THE_CASE  # returns early, as a finding may call this once for each of its offsets
    batches = ((name, _damaged_batches(timeline, name, lost)) for name in reversed(logs.snapshots))
    # Of a loss, missing segments are damage, too.
    damage = ((name, rows + (_missing_segments(timeline, name, lost) if is_loss else [])) for name, rows in batches)
    snapshot, damaged = next((found for found in damage if found[1]), ("", []))
    if not damaged:
        return NOT_THE_CASE
    terms = [(row, _first_term_after(timeline, row["broker"], lost.last_acked)) for row in damaged]
    led = [(row, term) for row, term in terms if term is not None]
    names = sorted({row["broker"] for row in damaged})
    if not led and is_read:
        if any(term.leader is None for term in timeline.terms.values()) or not timeline.terms:
            return needs(f"the leader of {lost.name} when {span(lost.first, lost.last)} were read")
        return NOT_THE_CASE
    row, term = led[-1] if led else terms[-1]
    last = lost.last if row["last_offset"] is None else row["last_offset"]
    intact = _intact_records(timeline, snapshot, lost)
    if not intact:
        return needs(f"an intact copy of {span(row['first_offset'], last)} of {lost.name}, damaged on {brokers(names)}")
    # A log that lacks the records for another reason may be the one that was read.
    others = {*pl.concat([logs.segments, logs.batches], how="diagonal").filter(snapshot=snapshot)["broker"]}
    short = sorted(others - set(names) - {held["broker"] for held in intact})
    if is_loss and short:
        return needs(f"why {brokers(short)} had neither the records nor a damaged copy of them {in_snapshot(snapshot)}")
    if is_loss and (leader := timeline.led_terms[-1].leader) not in others.union(names):
        return needs(f"the log of broker {leader}, which led last and may have had neither {in_snapshot(snapshot)}")
    measures = PREVENTED_BY if term is not None else PREVENTED_BY[1:]
    is_missing = row["kind"] == MISSING
    return Attempt(True, _chain(timeline, snapshot, row, term, intact), [WHOLE_LOGS] if is_missing else measures)


def _damaged_batches(timeline: Timeline, snapshot: str, lost: Lost) -> list[Row]:
    """The first damaged batch of each broker whose damage in the snapshot covers all lost offsets."""
    last = pl.col("last_offset").fill_null(MAX_INT64)
    here = (pl.col("snapshot") == snapshot) & pl.col("kind").is_in(CORRUPT)
    rows = timeline.replica_logs.damage.filter(here & (pl.col("first_offset") <= lost.last) & (last >= lost.first))
    covering = []
    for batches in rows.sort("broker", "first_offset", "byte").partition_by("broker", maintain_order=True):
        next_offset = lost.first  # the first one that no damaged batch covers yet
        for first, end in batches.select("first_offset", last).iter_rows():
            next_offset = max(next_offset, end + 1) if first <= next_offset else next_offset
        if next_offset > lost.last:
            covering.append(batches.row(0, named=True))
    return covering


def _missing_segments(timeline: Timeline, snapshot: str, lost: Lost) -> list[Row]:
    """The brokers that lack the segments with all lost offsets, between two others, as rows of damage.

    That clients missed the records shows that the broker lacks these segments, not only the copy of its log.
    """
    return [
        {"broker": one.broker, "kind": MISSING, "first_offset": one.first, "last_offset": one.last}
        | {"reason": f"{one.file} {one.reason}", "snapshot": snapshot, "file": one.file, "byte": None, "line": None}
        for one in timeline.replica_logs.missing
        if one.is_hole and one.snapshot == snapshot and one.first <= lost.first and lost.last <= (one.last or -1)
    ]


def _first_term_after(timeline: Timeline, broker: str, since: int | None) -> Term | None:
    """The first of a broker's terms as leader that ended after a time, or has not ended."""
    terms = [term for _, term in sorted(timeline.terms.items())]
    for term, following in zip_longest(terms, terms[1:]):
        end = following.time if following is not None else None
        if term.leader == broker and not term.has_conflict and (end is None or since is None or end > since):
            return term
    return None


def _intact_records(timeline: Timeline, snapshot: str, lost: Lost) -> list[Row]:
    """One row per broker whose log has a record at the first lost offset, with a lost value if these are known."""
    logs = timeline.replica_logs
    here = (pl.col("snapshot") == snapshot) & (pl.col("offset") == lost.first) & pl.col("control").is_null()
    held = logs.records.filter(here)
    if lost.values:
        held = held.filter(pl.col("value").is_in(list(lost.values)))
    return held.unique("broker", keep="first").sort("broker").to_dicts()


def _chain(timeline: Timeline, snapshot: str, row: Row, term: Term | None, intact: list[Row]) -> list[Fact]:
    logs, name, broker = timeline.replica_logs, timeline.replica_logs.name, row["broker"]
    first, last = row["first_offset"], row["last_offset"]
    offsets = f"{span(first, last)} of {name}" if last is not None else f"{name} from offset {first} on"
    about = {"offset": first, "snapshot": snapshot}
    text = f"{in_snapshot(snapshot)} broker {broker}'s copy of {offsets} is damaged: {row['reason']}"
    if row["kind"] == MISSING:
        text = f"{in_snapshot(snapshot)} broker {broker} has no segment with {offsets}: {row['reason']}"
    damage = fact_of(logs, text, "damaged", row, **about)
    holders = [held["broker"] for held in intact]
    first_step = "move leadership there, then let" if term is not None else "let"
    text = f"{brokers(holders)} {'has' if len(holders) == 1 else 'have'} {offsets} intact: {first_step}"
    text += f" broker {broker} fetch its replica anew"
    whole = fact_of(logs, text, "intact", intact[0], broker=None, brokers=frozenset(holders), **about)
    faults = [fact for _, fact in timeline.faults_on(broker, DAMAGES) if fact.partition in (None, name)]
    return [*ordered([*(term.facts[:1] if term is not None else ()), *faults]), damage, whole]
