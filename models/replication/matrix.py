"""Which variant breaks which invariant, and under what: the table that the tests and the nightly run check.

A setting is a set of faults with the configuration that belongs to them. A cell that is not named as broken
is sound: no seed may break it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .search import SURVIVABLE, Space


@dataclass(frozen=True)
class Setting:
    """Faults and configuration of a column of the matrix."""

    name: str
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

SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting(
            "clean",
            "processes, network and controllers fail, disks do not; clean elections, min.insync.replicas=2",
            SURVIVABLE,
            {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
            (*LOG, "no-false-shrink", "no-consumer-loss"),
        ),
        Setting(
            "unclean",
            "unclean elections, one after the other, min.insync.replicas=1",
            ("unclean", "crash"),
            {"min.insync.replicas": 1, "unclean.leader.election.enable": True},
            LOG,
        ),
        Setting(
            "power",
            "one machine at a time loses power; clean elections, min.insync.replicas=2",
            ("power-loss",),
            {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
            LOG,
        ),
        Setting(
            "blackout",
            "all machines lose power at once; clean elections, min.insync.replicas=2",
            ("blackout",),
            {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
            LOG,
        ),
        Setting(
            "zombie",
            "controllers are paused while brokers crash",
            ("controller-pause", "crash"),
            {"min.insync.replicas": 1, "unclean.leader.election.enable": False},
            LOG,
        ),
        Setting(
            "handover",
            "leadership is handed over while a follower catches up, and two brokers die; slow links",
            ("handover",),
            {
                "min.insync.replicas": 1,
                "unclean.leader.election.enable": False,
                "simulation.latency.us": 10000,
                "simulation.jitter.us": 40000,
                "simulation.replica.fetch.max.batches": 1,
                "simulation.batch.records": 1,
                "simulation.ops": 200,
                "simulation.send.interval.us": 60000,
            },
            LOG,
        ),
        Setting(
            "lagging-mark",
            "a broker leads right after its restart, with an old high watermark, and a third joins below it",
            ("lagging-mark",),
            {
                "min.insync.replicas": 1,
                "unclean.leader.election.enable": False,
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
        Setting(
            "flushed",
            "machines lose power, one or all, but every record is flushed at once (flush.messages=1)",
            ("power-loss", "blackout"),
            {"min.insync.replicas": 2, "unclean.leader.election.enable": False, "flush.messages": 1},
            LOG,
        ),
        Setting(
            "calm",
            "only slow links",
            ("delay",),
            {"simulation.poll.timeout.ms": 50},
            ("no-stale-read", "no-false-shrink", *LOG),
        ),
    )
}


# Broken cells: variant and setting, and how many runs find each at most (seeds from 0 on).
_LOSS = ("no-acknowledged-loss", "no-committed-loss")
_LOSS_AND_DIVERGENCE = (*_LOSS, "no-divergence")
BROKEN: dict[tuple[str, str], tuple[tuple[str, ...], int]] = {
    ("high-watermark", "clean"): (_LOSS_AND_DIVERGENCE, 200),
    ("asynchronous", "clean"): (_LOSS, 50),
    ("lag-max-messages", "clean"): (("no-false-shrink",), 50),
    ("no-controller-epoch", "clean"): (("no-committed-loss",), 500),
    ("high-watermark", "unclean"): (_LOSS_AND_DIVERGENCE, 50),
    ("kip-101", "unclean"): (_LOSS_AND_DIVERGENCE, 300),
}


def space(variant: str, setting: str) -> Space:
    return Space(variant, SETTINGS[setting].kinds, SETTINGS[setting].options)
