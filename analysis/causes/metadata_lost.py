"""metadata-lost: the cluster's metadata were lost, so its brokers set the topic's logs aside and began empty ones.

A topic is its id in the metadata log. If the controllers begin anew (a lost volume, disks that were formatted again)
while brokers keep their disks, a broker that starts finds no topic with the id of its log. It renames the log's folder
to `<topic>-<partition>.<32 hex digits>-stray`. A topic that is created under the same name begins at offset 0. As long
as the folder is kept, `kafka-dump-log.sh --print-data-log --files` prints its records.

Needs: a metadata log at the end of the run that was formatted after the records had been acknowledged; and the
partition's folders `-stray` of as many brokers as it had replicas (replication.factor in run.json). One of them has the
records. None of them shows a leader that wrote without them: those that lack them have no later leader epoch.
"""

from __future__ import annotations

import polars as pl

from ...histories.evidence.leftover_folders import is_stray
from ..timelines.facts import Fact, chain
from ..timelines.timeline import Timeline
from ..wording import plural
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs

CITATION = "KIP-516 (topic ids), KIP-858 (stray logs); LogManager"
REMEDY = (
    "A metadata.log.dir that outlives the controller's process and machine, three controllers or more, and no"
    " kafka-storage.sh format of a cluster that has data. Before the folders -stray are deleted: copy the records from"
    " them."
)
PREVENTED_BY = ["controllers that keep their metadata log (metadata.log.dir), or others that still have it"]
FOLDER = pl.col("file").str.extract("^(.*)/")  # of a segment


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether brokers set aside logs with the records, as the cluster's metadata had begun anew."""
    began = timeline.formatted
    if began is None or began.time is None or lost.last_acked is None or began.time <= lost.last_acked:
        return NOT_THE_CASE
    leftovers = timeline.replica_logs.leftovers.with_columns(folder=FOLDER)
    strays = leftovers.filter(pl.col("folder").map_elements(lambda name: is_stray(name.rpartition("/")[2]), pl.Boolean))
    ends = _lost_records(strays, lost).filter(pl.col("offset").is_in([lost.first, lost.last]))
    holding = ends.filter(pl.col("offset").n_unique().over("folder") == len({lost.first, lost.last}))
    if not len(holding):
        return needs(f"the folders {lost.name}.<32 hex digits>-stray with the records, if brokers set their logs aside")
    factor = timeline.config.get("replication.factor")
    if not isinstance(factor, int) or strays["broker"].n_unique() < factor:
        return needs(f"the folders {lost.name}.<32 hex digits>-stray of all replicas (replication.factor in run.json)")
    others = strays.join(holding, on="folder", how="anti")
    wrote = holding.filter(offset=lost.last)["leader_epoch"].min()
    if len(others) and others.select((pl.col("leader_epoch") > wrote).fill_null(True).any()).item():
        return needs(f"whether {lost.name} had lost the records already when the metadata were lost")
    set_aside = [end for end in timeline.ends if end.kind == "set-aside" and end.end > lost.last]
    aside = [end.fact for end in set_aside if end.broker in {*holding["broker"]} and (end.time or 0) > lost.last_acked]
    return Attempt(True, chain(acknowledgement_facts(lost), [began], aside), PREVENTED_BY)


def facts_of_leftovers(timeline: Timeline, lost: Lost) -> list[Fact]:
    """The facts that folders beside the brokers' logs (leftover_folders.py) still have lost records."""
    return [
        Fact(
            f"the folder {folder} of broker {broker} still has {_how_many(records, lost)} (kafka-dump-log.sh"
            " --print-data-log)",
            "leftover",
            source=file,
            byte=byte,
            partition=lost.name,
            broker=broker,
            offset=offset,
        )
        for folder, broker, file, byte, offset, records in _lost_records(timeline.replica_logs.leftovers, lost)
        .group_by("folder", maintain_order=True)
        .agg(pl.col("broker", "file", "byte", "offset").first(), records=pl.col("offset").n_unique())
        .iter_rows()
    ]


def _how_many(records: int, lost: Lost) -> str:
    return "the records" if records >= lost.count else f"{records:,} of these {plural(lost.count, 'record')}"


def _lost_records(leftovers: pl.DataFrame, lost: Lost) -> pl.DataFrame:
    """The rows of lost records, by broker and folder."""
    is_lost = pl.col("value").is_in(list(lost.values)) & pl.col("offset").is_between(lost.first, lost.last)
    return leftovers.with_columns(folder=FOLDER).filter(is_lost).sort("broker", "folder", "offset")
