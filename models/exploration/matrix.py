"""Which variant breaks which invariant in which setting; the tests and the nightly run check this table.

A setting is a set of faults with a configuration. No seed may break an invariant that its cell does not name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .invariants import LOSS_INVARIANTS
from .search import SURVIVABLE, Space

UNREAD = {"simulation.consumers": 0}  # for settings whose invariants do not concern reads
CLEAN = {"min.insync.replicas": 2, "unclean.leader.election.enable": False}


@dataclass(frozen=True)
class Setting:
    """Faults and configuration of a column of the matrix."""

    summary: str
    kinds: tuple[str, ...]
    options: dict[str, Any]
    invariants: tuple[str, ...]


LOG = (
    "no-acknowledged-loss",
    "no-committed-loss",
    "no-divergence",
    "one-leader-per-epoch",
    "no-duplicates",
    "no-reordering",
)

GROUP = ("one-owner", "no-fenced-commit", "no-commit-loss")
TRANSACTIONS = ("atomic-transactions", "no-aborted-read", "no-hanging-transaction", "one-producer-epoch")
MEMBERS = ("consumer-crash", "consumer-pause", "crash", "pause", "partition", "loss", "slow-disk", "controller-crash")
MEMBER_EPOCHS: dict[str, Any] = {
    **CLEAN,
    "num.partitions": 3,
    "simulation.consumers": 3,
    "simulation.commit": "after",
    "simulation.handle.ms": 200,
    "group.protocol": "consumer",
    "group.consumer.session.timeout.ms": 1500,
    "group.consumer.heartbeat.interval.ms": 300,
    "max.poll.interval.ms": 4000,
}
CLASSIC = {"partition.assignment.strategy": "range", "session.timeout.ms": 1500, "heartbeat.interval.ms": 300}
PROCESSING: dict[str, Any] = {
    **CLEAN,
    "num.partitions": 2,
    "isolation.level": "read_committed",
    "simulation.consumers": 2,
    "simulation.handle.ms": 200,
    **CLASSIC,
    "max.poll.interval.ms": 4000,
    "group.initial.rebalance.delay.ms": 300,
    "transaction.timeout.ms": 4000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}

SETTINGS: dict[str, Setting] = {
    "clean": Setting(
        "processes, network and controllers fail, disks do not; clean elections, min.insync.replicas=2",
        SURVIVABLE,
        CLEAN,
        (*LOG, "no-false-shrink", "no-consumer-loss"),
    ),
    "unclean": Setting(
        "unclean elections, one after the other, min.insync.replicas=1",
        ("unclean", "crash"),
        {**UNREAD, "min.insync.replicas": 1, "unclean.leader.election.enable": True},
        LOG,
    ),
    "power": Setting(
        "one machine at a time loses power; clean elections, min.insync.replicas=2",
        ("power-loss",),
        {**UNREAD, **CLEAN},
        LOG,
    ),
    "blackout": Setting(
        "all machines lose power at once; clean elections, min.insync.replicas=2",
        ("blackout",),
        {**UNREAD, **CLEAN},
        LOG,
    ),
    "zombie": Setting(
        "controllers are paused while brokers crash",
        ("controller-pause", "crash"),
        {**UNREAD, **CLEAN, "min.insync.replicas": 1},
        LOG,
    ),
    "handover": Setting(
        "leadership is handed over while a follower catches up, and two brokers die; slow links",
        ("handover",),
        {
            **UNREAD,
            **CLEAN,
            "min.insync.replicas": 1,
            "simulation.latency.us": 10000,
            "simulation.jitter.us": 40000,
            "simulation.replica.fetch.max.batches": 1,
            "simulation.batch.records": 1,
            "simulation.ops": 200,
            "simulation.send.interval.us": 60000,
        },
        LOG,
    ),
    "lagging-mark": Setting(
        "a broker leads right after its restart, with an old high watermark, and a third joins below it",
        ("lagging-mark",),
        {
            **UNREAD,
            **CLEAN,
            "min.insync.replicas": 1,
            "simulation.brokers": 4,
            "default.replication.factor": 4,
            "simulation.replica.fetch.max.batches": 1,
            "simulation.batch.records": 1,
            "simulation.ops": 200,
            "simulation.send.interval.us": 100000,
            "replica.high.watermark.checkpoint.interval.ms": 5000,
        },
        LOG,
    ),
    "flushed": Setting(
        "machines lose power, one or all, but every record is flushed at once (flush.messages=1)",
        ("power-loss", "blackout"),
        {**UNREAD, **CLEAN, "flush.messages": 1},
        LOG,
    ),
    "moving": Setting(
        "partitions move between five brokers while old and new leaders and the controller die",
        ("reassignment", "crash", "controller-crash"),
        {**UNREAD, **CLEAN, "simulation.brokers": 5},
        LOG,
    ),
    "groups": Setting(
        "the faults of clean, and two members of a group that commit what they have handled",
        SURVIVABLE,
        {
            **CLEAN,
            "num.partitions": 2,
            "simulation.consumers": 2,
            "simulation.commit": "after",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 1500,
            "heartbeat.interval.ms": 300,
            "max.poll.interval.ms": 4000,
            "group.initial.rebalance.delay.ms": 300,
        },
        GROUP,
    ),
    "member-epochs": Setting(
        "members and brokers die or are paused, in a group of KIP-848's protocol (group.protocol=consumer)",
        MEMBERS,
        MEMBER_EPOCHS,
        (*GROUP, "no-consumer-loss"),
    ),
    "static-members": Setting(
        "the faults of member-epochs, and members that close; each has a group.instance.id",
        (*MEMBERS, "consumer-shutdown"),
        {**MEMBER_EPOCHS, "simulation.static.members": "own"},
        # A leader without the producer's state takes any first batch and refuses those before it (KAFKA-15591). The
        # producer numbers them anew (KIP-360), so records are reordered or repeated in 1 of 1,000 schedules.
        (*GROUP, *sorted({*LOG} - {"no-duplicates", "no-reordering"}), "no-consumer-loss"),
    ),
    "both-protocols": Setting(
        "the faults of member-epochs, and two members of three use the classic protocol",
        MEMBERS,
        {**MEMBER_EPOCHS, **CLASSIC, "simulation.classic.members": 2},
        (*GROUP, "no-consumer-loss"),
    ),
    "migration": Setting(
        "the faults of member-epochs, and members of KIP-848's protocol replace classic ones, and some come back",
        (*["rolling-upgrade"] * 4, *MEMBERS),
        {
            **MEMBER_EPOCHS,
            **CLASSIC,
            "simulation.consumers": 4,
            "simulation.classic.members": 2,
            "simulation.standby.consumers": 2,
        },
        (*GROUP, "no-consumer-loss"),
    ),
    "transactions": Setting(
        "the faults of clean, and producers that write in transactions and give up soon",
        SURVIVABLE,
        {
            **CLEAN,
            "num.partitions": 3,
            "isolation.level": "read_committed",
            "simulation.transactions": "own",
            "transaction.timeout.ms": 4000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "delivery.timeout.ms": 2005,
            "simulation.batch.records": 1,
            "simulation.send.interval.us": 60000,
            "simulation.ops": 120,
        },
        (*TRANSACTIONS, *LOG),
    ),
    "processing": Setting(
        "members and brokers die or are paused, while members copy records in transactions with their offsets",
        MEMBERS,
        {**PROCESSING, "simulation.processing": "exactly-once"},
        # Not no-consumer-loss: a member that dies in its commit does not know that it has handled its records.
        ("exactly-once", "at-least-once", *GROUP, *TRANSACTIONS, *LOG),
    ),
    "at-least-once": Setting(
        "the faults of processing, and members that commit offsets once their copies are acknowledged",
        MEMBERS,
        {**PROCESSING, "simulation.processing": "at-least-once", "simulation.commit": "after"},
        ("exactly-once", "at-least-once", *GROUP, *LOG, "no-consumer-loss"),
    ),
    "compacted": Setting(
        "the faults of clean, and a topic with keys and tombstones that the brokers compact",
        SURVIVABLE,
        {
            **CLEAN,
            "cleanup.policy": "compact",
            "segment.ms": 500,
            "log.cleaner.backoff.ms": 1000,
            "delete.retention.ms": 1000,
            "simulation.keys": 20,
            "simulation.tombstones": 100,
        },
        (*LOG, "newest-value-stays", "no-consumer-loss"),
    ),
    "compacted-coordinators": Setting(
        "the faults of processing, and brokers that compact the coordinators' logs",
        MEMBERS,
        {
            **PROCESSING,
            "simulation.processing": "exactly-once",
            "offsets.topic.segment.bytes": 400,
            "transaction.state.log.segment.bytes": 400,
            "log.cleaner.backoff.ms": 500,
        },
        ("exactly-once", "newest-value-stays", *GROUP, *TRANSACTIONS, *LOG),
    ),
    "calm": Setting(
        "only slow links", ("delay",), {"simulation.poll.timeout.ms": 50}, ("no-stale-read", "no-false-shrink", *LOG)
    ),
}


_ALL = (*LOSS_INVARIANTS, "no-divergence")


@dataclass(frozen=True)
class Cell:
    """The invariants that a variant breaks in a setting.

    `broken`: a breach of each is found within `runs` seeds from 0 on; if breaches are rare, also soon after the seed
    `near`. `unclaimed`: they may be broken too, by the literature or by other rules of that time; nothing is asserted.
    All other invariants of the setting hold.
    """

    broken: tuple[str, ...] = ()
    runs: int = 60
    unclaimed: tuple[str, ...] = ()
    near: int | None = None


SOUND = Cell()
# The oldest protocols have every fault that later ones fixed, so their other cells are not claimed to be sound.
CELLS: dict[str, dict[str, Cell]] = {
    "clean": {
        "high-watermark": Cell(_ALL, 120),
        # A paused broker is elected, replaced, resumes and writes once in its epoch: KIP-279's fast failover without
        # an unclean election. Later a preferred election makes it leader (first in seed 16871): no-committed-loss.
        "kip-101": Cell(("no-divergence",), 2000, LOSS_INVARIANTS, near=1726),
        "kip-279": Cell(unclaimed=_ALL),
        **dict.fromkeys(("kip-320", "kraft", "kip-966", "last-known-leader"), SOUND),
        "lag-max-messages": Cell(("no-false-shrink",), 20, _ALL),
        "majority-quorum": SOUND,
        "asynchronous": Cell(LOSS_INVARIANTS, 40),
        "follower-reads": SOUND,
        # A controller that was paused elects with its old view of the ISR (KAFKA-340, KAFKA-6082).
        "no-controller-epoch": Cell(("no-committed-loss", "one-leader-per-epoch"), 120, (*_ALL, "no-consumer-loss")),
    },
    "unclean": {
        "high-watermark": Cell(_ALL, 20, ("no-duplicates", "no-reordering")),
        "kip-101": Cell(_ALL, 120, ("no-duplicates", "no-reordering")),
        **dict.fromkeys(("kip-279", "kip-320", "kraft", "kip-966", "last-known-leader"), Cell(LOSS_INVARIANTS, 20)),
        "majority-quorum": SOUND,
        "asynchronous": Cell(LOSS_INVARIANTS, 20),
    },
    "power": {
        "high-watermark": Cell(_ALL, 160),
        **dict.fromkeys(("kip-101", "kip-279"), Cell(LOSS_INVARIANTS, 80, ("no-divergence",))),
        **dict.fromkeys(("kip-320", "kraft"), Cell(LOSS_INVARIANTS, 80)),
        "kip-966": SOUND,
        **dict.fromkeys(("last-known-leader", "majority-quorum", "asynchronous"), Cell(LOSS_INVARIANTS, 80)),
    },
    "blackout": {
        "high-watermark": Cell(_ALL, 20),
        **dict.fromkeys(("kip-101", "kip-279"), Cell(LOSS_INVARIANTS, 20, ("no-divergence",))),
        **dict.fromkeys(("kip-320", "kraft"), Cell(LOSS_INVARIANTS, 20)),
        "kip-966": SOUND,
        **dict.fromkeys(("last-known-leader", "majority-quorum", "asynchronous"), Cell(LOSS_INVARIANTS, 20)),
    },
    "zombie": {
        "high-watermark": Cell(_ALL, 120),
        **dict.fromkeys(("kip-320", "kraft", "kip-966", "last-known-leader", "majority-quorum"), SOUND),
        "no-controller-epoch": Cell(("no-committed-loss",), 120, (*_ALL, "one-leader-per-epoch")),
    },
    "handover": {
        "kip-101": Cell(("no-committed-loss", "no-divergence"), 120, (*_ALL, "no-duplicates")),
        **dict.fromkeys(("kip-279", "kip-320", "kraft", "kip-966", "majority-quorum"), SOUND),
    },
    "lagging-mark": {
        "high-watermark": Cell(_ALL, 20),
        "kip-101": Cell(LOSS_INVARIANTS, 20, ("no-divergence",)),
        "kip-279": Cell(LOSS_INVARIANTS, 20),
        **dict.fromkeys(("kip-320", "kraft", "kip-966", "majority-quorum"), SOUND),
    },
    "flushed": {
        "high-watermark": Cell(_ALL, 800, near=720),
        **dict.fromkeys(("kip-320", "kraft", "kip-966", "last-known-leader", "majority-quorum"), SOUND),
        "asynchronous": Cell(LOSS_INVARIANTS, 400, near=320),
    },
    "moving": {
        "high-watermark": Cell(LOSS_INVARIANTS, 20, ("no-divergence",)),
        "kip-279": Cell(unclaimed=_ALL),
        **dict.fromkeys(("kip-320", "kraft", "kip-966", "last-known-leader"), SOUND),
    },
    "groups": {
        # A generation whose record is lost begins again, with other members.
        "high-watermark": Cell(("no-commit-loss",), 60, ("one-owner", "no-fenced-commit")),
        **dict.fromkeys(("kip-320", "kraft", "kip-966"), SOUND),
    },
    "static-members": dict.fromkeys(("kraft", "kip-966"), SOUND),
    "member-epochs": {
        "no-commit-fencing": Cell(("no-fenced-commit",), 20),
        **dict.fromkeys(("kraft", "kip-966"), SOUND),
    },
    "both-protocols": {"no-commit-fencing": Cell(("no-fenced-commit",), 20), "kip-966": SOUND},
    "migration": {"no-commit-fencing": Cell(("no-fenced-commit",), 60), "kip-966": SOUND},
    "transactions": {
        "kip-98": SOUND,
        # A batch that was given up arrives after the abort marker (KIP-890).
        "kip-320": Cell(
            ("no-hanging-transaction",), 60, ("atomic-transactions", "no-aborted-read", "one-producer-epoch")
        ),
        # A repeated EndTxn or marker arrives in the next transaction of the same epoch (KIP-890, part 2).
        "kraft": Cell(unclaimed=("atomic-transactions", "no-aborted-read")),
        "kip-966": SOUND,
    },
    "processing": {
        # A member that was paused commits after another took its partitions over (KIP-447).
        "kip-98": Cell(("exactly-once",), 20, TRANSACTIONS),
        # Late writes, as above. Offsets in transactions have no leader epoch before 4.0 (KIP-1094), so a member may
        # begin at a leader that was replaced, whose log ends before them. auto.offset.reset then repeats records.
        "kip-320": Cell(unclaimed=("exactly-once", "at-least-once", *TRANSACTIONS)),
        "kraft": Cell(unclaimed=("exactly-once", "at-least-once", "atomic-transactions", "no-aborted-read")),
        "kip-966": SOUND,
    },
    "at-least-once": {"kip-966": Cell(("exactly-once",), 20)},
    "compacted": {
        "high-watermark": Cell(("no-committed-loss",), 60, (*_ALL, "newest-value-stays", "no-consumer-loss")),
        **dict.fromkeys(("kip-320", "kraft", "kip-966"), SOUND),
    },
    "compacted-coordinators": {"kip-966": SOUND},
    "calm": {
        **dict.fromkeys(("kip-101", "kip-279", "kip-320", "kraft", "kip-966", "majority-quorum"), SOUND),
        "lag-max-messages": Cell(("no-false-shrink",), 20),
        "follower-reads": Cell(("no-stale-read",), 20),
        "no-controller-epoch": SOUND,
    },
}


def space(variant: str, setting: str) -> Space:
    """The search space of a cell."""
    return Space(variant, SETTINGS[setting].kinds, SETTINGS[setting].options)
