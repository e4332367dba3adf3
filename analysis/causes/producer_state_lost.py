"""producer-state-lost: a leader no longer knew an idempotent producer, and appended again what its log already had.

A leader recognises a repeated batch by the producer's last sequence numbers. It forgets a producer that has appended
nothing for producer.id.expiration.ms (before KIP-854: transactional.id.expiration.ms). From then on it accepts any
sequence number from that producer. A client that retries a batch after that time writes it twice.

Needs: a log with the record at both offsets, of the same producer id, producer epoch and sequence number.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..timelines.facts import ordered
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Record
from .repeated_values import Repeated, copy_fact, sent_facts

CITATION = "KIP-854 (producer.id.expiration.ms), KIP-360 (producers that the leader does not know)"
REMEDY = "producer.id.expiration.ms longer than delivery.timeout.ms of every producer."
PREVENTED_BY = ["producer.id.expiration.ms longer than the producer's delivery.timeout.ms"]


def explain_duplicate(timeline: Timeline, repeated: Repeated, copies: Sequence[Record]) -> Attempt:
    """Whether the copies are in one log and have the same sequence number of one producer."""
    logs = {(row["snapshot"], row["broker"]) for row in copies}
    sequences = {(row["producer_id"], row["producer_epoch"], _sequence(timeline, row)) for row in copies}
    if len(copies) < 2 or len(logs) > 1 or len(sequences) > 1:
        return NOT_THE_CASE
    [(producer_id, producer_epoch, sequence)] = sequences
    if None in (producer_id, producer_epoch, sequence):
        return NOT_THE_CASE
    batch = f"of producer id {producer_id}, producer epoch {producer_epoch}; its sequence number is {sequence}"
    facts = [copy_fact(timeline, row, batch) for row in copies]
    return Attempt(True, ordered([*sent_facts(repeated), *facts]), PREVENTED_BY)


def _sequence(timeline: Timeline, row: Record) -> int | None:
    """The sequence number of a record; None if its batch has none."""
    if row["producer_id"] is None:
        return None
    batches = timeline.replica_logs.batches.filter(pl.col("file") == row["file"], byte=row["byte"])
    sequence = batches.select(pl.col("base_sequence") + row["offset"] - pl.col("base_offset")).to_series()
    return sequence[0] if len(sequence) else None
