"""metadata-lost: the cluster's metadata were lost, so its brokers set the topic's logs aside and began empty ones.

A topic is its id in the metadata log. If the controllers begin anew (a lost volume, disks that were formatted again)
while brokers keep their disks, a broker that starts finds no topic with the id of its log. It renames the log's folder
to `<topic>-<partition>.<32 hex digits>-stray`. A topic that is created under the same name begins at offset 0. As long
as the folder is kept, `kafka-dump-log.sh --print-data-log --files` prints its records.

Needs: a metadata log at the end of the run that was formatted after the records had been acknowledged; and the
partition's folders `-stray` of as many brokers as it had replicas (replication.factor in run.json). One of them has the
records. None of them shows a leader that wrote without them: those that lack them have no later leader epoch. If all
members of the last ISR have the records, a replica that was dead since needs no folder.
"""

from __future__ import annotations

import polars as pl

from ...histories.evidence.leftover_folders import is_stray
from ..timelines.changes import LogEnd
from ..timelines.facts import Fact, chain
from ..timelines.timeline import Timeline
from ..wording import plural
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs
from .outages import is_process_dead

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
    began = _new_metadata(timeline, lost)
    if began is None:
        origin = "whether the controllers began anew, or with an older metadata log (their __cluster_metadata)"
        return needs(origin) if _ends_set_aside(timeline, lost) else NOT_THE_CASE
    strays, holding = _strays(timeline), _whole(timeline, lost)
    if not len(holding):
        return needs(f"the folders {lost.name}.<32 hex digits>-stray with the records, if brokers set their logs aside")
    factor = timeline.config.get("replication.factor")
    known = {*strays["broker"], *_dead_since_last_isr(timeline, lost, {*holding["broker"]}, began)}
    if not isinstance(factor, int) or len(known) < factor:
        return needs(f"the folders {lost.name}.<32 hex digits>-stray of all replicas (replication.factor in run.json)")
    others = strays.join(holding, on="folder", how="anti")
    wrote = holding.filter(offset=lost.last)["leader_epoch"].min()
    if others.select((pl.col("leader_epoch") > wrote).fill_null(True).any()).item():
        return needs(f"whether {lost.name} had lost the records already when the metadata were lost")
    aside = [end.fact for end in _ends_set_aside(timeline, lost) if end.broker in {*holding["broker"]}]
    return Attempt(True, chain(acknowledgement_facts(lost), [began], aside), PREVENTED_BY)


def _dead_since_last_isr(timeline: Timeline, lost: Lost, holding: set[str], began: Fact) -> set[str]:
    """The brokers that were dead from the last ISR of the old metadata on, if all members of it have the records."""
    reports, until = timeline.isr_between(until=began.time or 0), began.time or 0
    if not reports or not reports[-1].isr <= holding:
        return set()
    since = max(reports[-1].when, lost.last_acked or 0)
    return {broker for broker in timeline.members if is_process_dead(timeline, broker, since, until)}


def were_set_aside(timeline: Timeline, lost: Lost) -> bool:
    """Whether a broker set a log aside that may have the records, as the metadata lacked its topic id."""
    is_new = _new_metadata(timeline, lost) is not None
    return bool(_ends_set_aside(timeline, lost)) or (is_new and len(_whole(timeline, lost)) > 0)


def _new_metadata(timeline: Timeline, lost: Lost) -> Fact | None:
    """The fact that the metadata log of the end began after the records were acknowledged; None if it did not."""
    began = timeline.formatted
    is_later = began is not None and lost.last_acked is not None and (began.time or 0) > lost.last_acked
    return began if is_later else None


def _ends_set_aside(timeline: Timeline, lost: Lost) -> list[LogEnd]:
    """The ends above the records of logs that brokers set aside after the records were acknowledged."""
    ends = [end for end in timeline.ends if end.kind == "set-aside" and end.end > lost.last]
    return [end for end in ends if (end.time or 0) > (lost.last_acked or 0)]


def _strays(timeline: Timeline) -> pl.DataFrame:
    """The records of folders that brokers set aside, with their `folder`."""
    leftovers = timeline.replica_logs.leftovers.with_columns(folder=FOLDER)
    stray = [folder for folder in leftovers["folder"].unique() if is_stray(folder.rpartition("/")[2])]
    return leftovers.filter(pl.col("folder").is_in(stray))


def _whole(timeline: Timeline, lost: Lost) -> pl.DataFrame:
    """The first and the last lost record of each folder that was set aside and has both."""
    ends = _lost_records(_strays(timeline), lost).filter(pl.col("offset").is_in([lost.first, lost.last]))
    return ends.filter(pl.col("offset").n_unique().over("folder") == len({lost.first, lost.last}))


def facts_of_leftovers(timeline: Timeline, lost: Lost) -> list[Fact]:
    """The facts that folders beside the brokers' logs (leftover_folders.py) still have lost records."""
    folders = _lost_records(timeline.replica_logs.leftovers, lost).group_by("folder", maintain_order=True)
    first = pl.col("broker", "file", "byte", "offset").first()
    facts = []
    for folder, broker, file, byte, offset, count in folders.agg(first, pl.col("offset").n_unique().alias("n")).rows():
        records = "the records" if count >= lost.count else f"{count:,} of these {plural(lost.count, 'record')}"
        text = f"the folder {folder} of broker {broker} still has {records} (kafka-dump-log.sh --print-data-log)"
        about = {"partition": lost.name, "broker": broker, "offset": offset}
        facts.append(Fact(text, "leftover", source=file, byte=byte, **about))
    return facts


def _lost_records(leftovers: pl.DataFrame, lost: Lost) -> pl.DataFrame:
    """The rows of lost records, by broker and folder."""
    is_lost = pl.col("value").is_in(list(lost.values)) & pl.col("offset").is_between(lost.first, lost.last)
    return leftovers.with_columns(folder=FOLDER).filter(is_lost).sort("broker", "folder", "offset")
