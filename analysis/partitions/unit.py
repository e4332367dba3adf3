"""The partitions of one unit: one topic-partition, each generation of its topic, or all keys of a Jepsen history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ...histories.tables import OBSERVED, SENDS, no_rows, without_key
from ..replicas.replica_logs import replica_logs_of
from .attempts import name_attempts
from .cleanup_policies import with_recorded_policies
from .collected_copies import with_copies
from .common import Common, evidence_in
from .coordinators import confirmed_producers, final_transactions, since_creation
from .evidence import MENTIONED, collected_logs, resolved_sends, timeline_of
from .generation_parts import Recorded, parts_of
from .generation_split import Part
from .partition import Partition
from .topic_generations import TopicGeneration, without_other_changes

Tables = dict[str, list[pl.DataFrame]]
# Tables that are not split between the generations of a topic, with their fields in Partition.
BESIDE_LOGS = {name: name for name in ("groups", "aborted", "producers", "positions")} | {"transactions": "coordinated"}


def partitions_of(topic: str, partition: int, tables: Tables, common: Common) -> Iterator[Partition]:
    """The partitions of a unit, each with its observations and its collected logs."""
    whole = {name: pl.concat(frames) for name, frames in tables.items() if frames}
    if common.settings.dialect != "jepsen":
        yield from _native_partitions(topic, partition, whole, common)
        return
    full = {name: whole.get(name, no_rows(schema)) for name, schema in OBSERVED.items()}
    confirmed = _confirmed_operations(full["sends"], full["reads"])
    topics = sorted({str(name) for frame in full.values() for name in frame["topic"].unique()})
    split = {name: frame.partition_by("topic", as_dict=True, include_key=False) for name, frame in full.items()}
    for name in topics:
        own: dict[str, Any] = {table: parts[(name,)] for table, parts in split.items() if (name,) in parts}
        yield Partition(name, 0, common.settings, **own, context=common.context, confirmed=confirmed)


def _native_partitions(
    topic: str, partition: int, whole: Mapping[str, pl.DataFrame], common: Common
) -> Iterator[Partition]:
    """The partition, or one Partition for each generation of a topic that was deleted."""
    observed = {name: whole.get(name, no_rows(without_key(schema))) for name, schema in OBSERVED.items()}
    beside_logs: dict[str, Any] = {field: whole[name] for name, field in BESIDE_LOGS.items() if name in whole}
    whole = {name: frame for name, frame in whole.items() if name not in BESIDE_LOGS} | observed
    parts = parts_of(Recorded(topic, whole, common))
    if parts is None:
        yield _native(topic, partition, whole, common, **beside_logs)
        return

    def of_part(part: Part, if_deleted: Sequence[Partition] = ()) -> Partition:
        own = replace(common, shared=part.shared)
        about: dict[str, Any] = {"generation": part.generation, "ambiguous": part.ambiguous, "if_deleted": if_deleted}
        about |= since_creation(beside_logs, part.generation, common.settings)
        return _native(topic, partition, part.tables, own, **about)

    certain, uncertain = parts
    if_deleted = list(map(of_part, uncertain))
    for part in certain:
        yield of_part(part, if_deleted)


def _native(
    topic: str,
    partition: int,
    whole: Mapping[str, pl.DataFrame],
    common: Common,
    generation: TopicGeneration | None = None,
    **about: Any,
) -> Partition:
    """The partition with its evidence. Faults after the deletion of its generation are left out."""
    settings = with_recorded_policies(common.settings, topic, whole, common.shared)
    if settings is not common.settings:
        common = replace(common, settings=settings)
    context = common.context
    logs = collected_logs(topic, partition, whole, settings, common.shared)
    deleted = generation.deleted if generation is not None else None
    if logs is not None and deleted is not None:
        logs = replace(logs, at_rest=False)
    unplaced = common.unplaced.filter(topic=topic).select(list(without_key(SENDS)))
    sends, reads, marks, logs = name_attempts(whole["sends"], whole["reads"], whole["marks"], logs, unplaced)
    resolved_count = 0
    whole = {**whole, "sends": sends}
    if logs is not None:
        known = final_transactions(about["coordinated"], settings) if "coordinated" in about else None
        confirmed = () if known is None else confirmed_producers(logs, known)
        sends, resolved_count = resolved_sends(sends, logs, unplaced, confirmed)
    timeline = None
    if logs is not None or any(len(whole.get(table, ())) for table in MENTIONED):
        held = logs or replica_logs_of(topic, partition, {})
        if generation is not None:
            common = replace(common, context=without_other_changes(topic, context, generation))
        timeline = timeline_of(held, whole, common)
    if deleted is not None:
        later = pl.col("kind").is_in(["fault", "heal"]) & (pl.col("invoked") >= deleted.earliest)
        context = context.filter(~later.fill_null(False))
    judged = Partition(
        topic,
        partition,
        settings,
        sends,
        reads,
        marks,
        context=context,
        unplaced=unplaced,
        replica_logs=logs,
        timeline=timeline,
        resolved_count=resolved_count,
        state_logs=evidence_in(common.shared, "state_logs"),
        state_metadata=evidence_in(common.shared, "state_metadata"),
        generation=generation,
        **about,
    )
    return with_copies(judged)


def _confirmed_operations(sends: pl.DataFrame, reads: pl.DataFrame) -> pl.Series:
    """The `at` of indeterminate operations that took effect: an ok operation read one of their values (Jepsen)."""
    indeterminate = sends.filter(outcome="info")
    seen = reads.filter(outcome="ok").select("topic", "value").unique()
    return indeterminate.join(seen, on=["topic", "value"], how="semi")["at"].unique()
