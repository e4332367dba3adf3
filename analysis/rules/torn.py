"""torn-transaction: a transaction is committed in all of its partitions, or in none."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.references import kip
from ...histories.tables import Evidence, Finding
from ..extremes import greatest, least
from ..partitions.partition import Partition
from ..replicas.resolved_outcomes import missing_leader_log
from ..transactions.pieces import ABSENT, COMMITTED, MAX_PIECES, PIECES, is_comparable, pieces_of
from ..wording import plural, short, some
from .rule import MissingSetting, Result, Rule, Unknown


@Rule(
    "torn-transaction",
    group="transactions",
    summary="A transaction is committed in one partition, and not in another",
    unknown_when=(
        "The last leader's log was not collected, or is damaged, so that markers may be missing. The topic was deleted "
        "during the run. "
        "run.json does not set cleanup.policy, and acknowledged records are absent. "
        f"More than {MAX_PIECES:,} transactions of a partition differ from what their clients recorded."
    ),
    source=kip(98),
    needs=("transactions", "batches"),
    assumes=("values", "replicas"),
    explained_as="ending",
).judged_by
def torn_transaction(p: Partition) -> Iterator[Result]:
    """Whether all transactions of a partition can be compared with those of others; `judge_torn` compares them.

    Breach: In the leaders' last logs a record of the transaction is committed in one partition, and in another one of
    its records is aborted, or absent though the transaction was acknowledged. A finding has all such transactions of a
    partition.
    Not a breach: A transaction that is aborted everywhere, also if it was acknowledged: then lost-write reports it. A
    transaction without a marker. A record that retention, compaction or damage may have removed, or that was not
    acknowledged.
    """
    if p.has_transactions and p.replica_logs is not None:
        if missing := missing_leader_log(p.replica_logs):
            yield Unknown(f"{missing}, so its transactions cannot be compared with those of other partitions")
        elif p.replica_logs.is_leader_damaged:
            yield Unknown(f"the log of {p.name} is damaged, so markers of transactions may be missing")
        elif not is_comparable(p):
            yield Unknown(
                f"topic {p.topic} was deleted: transactions of {p.label} are not compared with other partitions"
            )
    pieces = pieces_of(p)
    if pieces.needs_policy:
        yield MissingSetting(f"cleanup.policy of {p.topic}")
    if len(pieces.unexpected) > MAX_PIECES:
        yield Unknown(f"more than {MAX_PIECES:,} transactions in {p.name} differ from what their clients recorded")


def judge_torn(unexpected: list[pl.DataFrame], beside: list[pl.DataFrame]) -> list[tuple[Finding, list[str]]]:
    """One finding for each partition and what became of transactions there that ended otherwise elsewhere.

    With each come the explanations of its pieces. `beside` are the expected pieces of the operations of the others.
    """
    known = [frame.with_columns(is_unexpected=pl.lit(True)) for frame in (pl.DataFrame(schema=PIECES), *unexpected)]
    is_committed = pl.col("is_committed")
    pieces = pl.concat([*known, *beside], how="diagonal").with_columns(
        is_committed=pl.col("state") == COMMITTED, place=pl.format("{}-{}", "topic", "partition")
    )
    torn = pieces.filter(is_committed.any().over("at"), ~is_committed.all().over("at"))
    places = torn.group_by("at", "is_committed").agg(elsewhere=pl.col("place").unique().sort())
    rows = torn.filter("is_unexpected").join(places.with_columns(~is_committed), on=["at", "is_committed"])
    rows = rows.sort("topic", "partition", "state", "first_offset", "at")
    groups = rows.partition_by("topic", "partition", "state", maintain_order=True)
    return [
        (_torn_finding(group), group["explanation"].drop_nulls().unique(maintain_order=True).to_list())
        for group in groups
    ]


def _torn_finding(rows: pl.DataFrame) -> Finding:
    first = rows.row(0, named=True)
    state, here = first["state"], first["place"]
    elsewhere = some(sorted({place for places in rows["elsewhere"] for place in places}))
    processes = rows["process"].unique(maintain_order=True).to_list()
    count = int(rows["records"].sum())
    there = "aborted or absent" if first["is_committed"] else "committed"
    them = f"a transaction of {processes[0]}" if len(rows) == 1 else f"{len(rows)} transactions of {some(processes)}"
    records = f"{plural(count, 'record')} of {them} in {here} {'is' if count == 1 else 'are'} {state}"
    others = f"others of {'it' if len(rows) == 1 else 'them'} in {elsewhere} are {there}"
    wrote = "{} writes {}; its client recorded the transaction as {}"
    first_rows = rows.head(3).select("process", "value", "outcome", "at").rows()
    evidence = [
        Evidence(wrote.format(process, short(value), outcome), at) for process, value, outcome, at in first_rows
    ]
    if state != ABSENT:
        decided = f"{short(first['value'])} at {here}@{first['first_offset']}, its marker at {here}@{first['marker']}"
        evidence.append(Evidence.in_file(decided, first))
    return Finding(
        rule="torn-transaction",
        sentence=f"{records}, but {others}",
        topic=first["topic"],
        partition=first["partition"],
        first_offset=least(rows["first_offset"], None),
        last_offset=greatest(rows["last_offset"], None),
        count=count,
        values=rows["value"].to_list(),
        processes=processes,
        evidence=evidence,
        replicas=[first["broker"]] if first["broker"] is not None else [],
    )
