"""Lost ranges, which causes explain: acknowledged records that are gone, with the times of acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ...histories.tables import Finding
from ..replicas.replica_logs import TopicPartition
from ..rules import RULES
from ..timelines.facts import Fact
from ..wording import plural, span

# Rules that find losses: lost-write from the clients' view, acknowledged-absent from the brokers' logs.
LOSSES = tuple(name for name, rule in RULES.items() if rule.explained_as == "loss")
# By kind of fact: the report to a client that its records are written.
ACKNOWLEDGEMENTS = {"acknowledged": "acknowledgement", "committed-transaction": "commit of a transaction with records"}
ACKED_BY = pl.coalesce("acked_by", "completed")  # ns, of sends with acknowledgement times


@dataclass(frozen=True)
class LostRange(TopicPartition):
    """Acknowledged records of one topic-partition that are gone."""

    first: int | None  # offsets, inclusive; None if not known
    last: int | None
    count: int
    read: int | None  # records that a consumer had read; None if not known
    first_acked: int | None = None  # ns
    last_acked: int | None = None


@dataclass(frozen=True)
class Lost(TopicPartition):
    """Acknowledged records that are gone, adjacent in one topic-partition."""

    first: int
    last: int
    count: int
    acks: frozenset[str] = frozenset()  # "all", "1"; empty if not recorded
    values: tuple[str, ...] = ()
    # ns: the records were acknowledged between these times. A client reports an acknowledgement at once, but of a send
    # in a transaction only the transaction's end (loss_ranges.py).
    first_acked: int | None = None
    last_acked: int | None = None
    place: int | None = None  # of the first acknowledgement, or end of a transaction
    last_place: int | None = None
    read: int | None = None  # records that a consumer had read
    written: int | None = None  # ns at which they had been written, if no acknowledgement is known
    replaced: int | None = None  # ns of a later acknowledgement of another record at the first lost offset
    replaced_place: int | None = None
    committed: tuple[int, int] | None = None  # ns: the first and the last end of their transactions, if any

    @property
    def reported(self) -> tuple[int | None, int | None]:
        """The times (ns) of the first and the last acknowledgement, or end of a transaction, at clients."""
        return self.committed or (self.first_acked, self.last_acked)


def lost_of(finding: Finding, sends: pl.DataFrame) -> Lost | None:
    """The lost range of a finding (acknowledged-absent, or lost-write of the client's view).

    sends: those of the finding's topic-partition, with the columns of replica_logs.SENT_RECORDS.
    """
    if finding.topic is None or finding.partition is None or finding.first_offset is None:
        return None
    gone = sends.filter(pl.col("acknowledged") & pl.col("value").is_in(finding.values)).sort("completed")
    last = finding.last_offset if finding.last_offset is not None else finding.first_offset
    if gone.height:
        return _lost(finding, gone, finding.first_offset, last, finding.count, sends)
    offsets = (finding.first_offset, last, finding.count)
    return Lost(finding.topic, finding.partition, *offsets, values=tuple(finding.values))


def lost_part(finding: Finding, gone: pl.DataFrame, sends: pl.DataFrame) -> Lost:
    """The lost range of a part of a finding's sends, all with known offsets; `sends` as in lost_of."""
    first, last = int(gone["offset"][0]), int(gone["offset"][-1])
    return _lost(finding, gone.sort("completed"), first, last, gone.height, sends)


def _lost(finding: Finding, gone: pl.DataFrame, first: int, last: int, count: int, sends: pl.DataFrame) -> Lost:
    times = gone.select(first=pl.coalesce("acked_from", "completed").min(), last=ACKED_BY.max())
    first_acked, last_acked = times.row(0)
    acked_from = pl.when(pl.col("txn").fill_null(False)).then("invoked").otherwise("completed")
    is_other = pl.col("acknowledged") & (pl.col("offset") == first) & ~pl.col("value").is_in(finding.values)
    later = sends.filter(is_other & (acked_from > last_acked)).sort("completed")
    return Lost(
        str(finding.topic),
        int(finding.partition or 0),
        first,
        last,
        count,
        frozenset(gone["acks"].drop_nulls()),
        tuple(finding.values) if count == finding.count else tuple(gone.sort("offset")["value"]),
        first_acked,
        last_acked,
        gone["place"][0],
        gone["place"][-1],
        int(gone["read"].sum()) if gone["read"].null_count() == 0 else None,
        replaced=later["completed"][0] if later.height else None,
        replaced_place=later["place"][0] if later.height else None,
        committed=(gone["completed"][0], gone["completed"][-1]) if gone["txn"].any() else None,
    )


def acknowledgement(lost: Lost) -> list[Fact]:
    """The facts of the first and the last acknowledgement of lost records; none if they are not recorded."""
    if lost.written is not None or lost.reported[0] is None:
        return []
    acks = f" with acks={next(iter(lost.acks))}" if len(lost.acks) == 1 else ""
    offsets = f"{span(lost.first, lost.last)} of {lost.name}"
    first, last = lost.reported
    kind = "acknowledged" if lost.committed is None else "committed-transaction"
    what = ACKNOWLEDGEMENTS[kind]
    which = what if last in (None, first) else f"first {what}"
    text = f"{which}{acks} of {offsets} ({plural(lost.count, 'lost record')})"
    facts = [Fact(text, kind, first, place=lost.place, partition=lost.name)]
    if last is not None and last != first:
        facts.append(Fact(f"last {what} of {offsets}", kind, last, place=lost.last_place, partition=lost.name))
    return facts
