"""What all units of judging share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ...histories.evidence.clock import Clock, Fault, clock_offsets
from ...histories.evidence.tables import CHECKPOINTS, LOG_EVENTS, METADATA, PROPERTIES, STATE_LOGS, empty
from ...histories.observations import json_object
from ...histories.settings import Settings
from ...histories.tables import CONTEXT, SENDS, no_rows
from ..cached import cached_property
from ..replicas.leaders import formatting_record, longest_copy

Frames = Mapping[str, pl.DataFrame]

_EVIDENCE = {
    **{"metadata": METADATA, "log_events": LOG_EVENTS, "properties": PROPERTIES, "checkpoints": CHECKPOINTS},
    **{"state_logs": STATE_LOGS, "state_metadata": METADATA},
}


def evidence_in(frames: Frames, name: str) -> pl.DataFrame:
    """A table of the brokers' files on the whole run or on a topic-partition; empty if it was not collected."""
    return frames[name] if name in frames else empty(_EVIDENCE[name], True)


@dataclass(frozen=True, eq=False)
class Common:
    """The settings and input that all units share: context, sends without a known partition, and evidence of brokers
    that belongs to no partition."""

    settings: Settings
    context: pl.DataFrame
    unplaced: pl.DataFrame
    shared: Frames

    @cached_property
    def faults(self) -> list[Fault]:
        """The faults and heals of the history (`faults_of`)."""
        return faults_of(self.context)

    @cached_property
    def clocks(self) -> Mapping[str, Clock]:
        """The offset of each broker's clock from the history's clock."""
        return clock_offsets(evidence_in(self.shared, "log_events"), self.faults, self.settings.started_ms)

    @cached_property
    def metadata_log(self) -> pl.DataFrame:
        """The longest copy of the metadata log: its records that belong to no partition."""
        return longest_copy(evidence_in(self.shared, "metadata"))

    @cached_property
    def metadata_began_ms(self) -> int | None:
        """The time of the first record of the metadata log at the end of the run; None if its copies begin later."""
        metadata = evidence_in(self.shared, "metadata")
        formatted = formatting_record(metadata) if len(metadata) else None
        return None if formatted is None else formatted["time"]


def common_of(tables: Mapping[str, Sequence[pl.DataFrame]], settings: Settings) -> Common:
    """Joins the rows that all units share: the tables `context` and `unplaced`, and those of brokers' evidence."""
    context = pl.concat([no_rows(CONTEXT), *tables.get("context", ())]).sort("completed", "at")
    unplaced = pl.concat([no_rows(SENDS), *tables.get("unplaced", ())])
    shared = {name: pl.concat(frames) for name, frames in tables.items() if name not in ("context", "unplaced")}
    return Common(settings, context, unplaced, shared)


def faults_of(context: pl.DataFrame) -> list[Fault]:
    """The faults and heals of a history, in the order of their completion; one without a completion by its begin."""
    faults = []
    of_faults = context.filter(pl.col("kind").is_in(["fault", "heal"]))
    for row in of_faults.sort(pl.coalesce("completed", "invoked"), "at").iter_rows(named=True):
        detail = json_object(row["detail"])
        nodes = detail.get("nodes")
        names = tuple(str(node) for node in nodes) if isinstance(nodes, list) else ()
        done = row["completed"] if row["completed"] is not None else row["invoked"]
        when = (row["invoked"], done, row["at"])
        faults.append(Fault(row["kind"], str(detail.get("kind", "")), names, *when, detail, row["outcome"]))
    return faults
