"""Differences between Kafka's releases that are not the subject of a variant: one row for each era.

Defaults that an era does not list are those of 4.1 (config.py). Simplification: eras from 3.3 on list none, though
linger.ms became 5 only in 4.0 (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Era:
    """The behavior of the brokers and clients of some releases, and the wording of their logs."""

    zookeeper: bool = False  # ZooKeeper stores the cluster's state, not KRaft's quorum
    epochs_in_log: bool = True  # batches carry their leader epoch; message formats 0 and 1 had none
    raises_epoch_on_shrink: bool = True  # the controller raises the leader epoch when it removes a replica from an ISR
    fences_together: bool = False  # brokers whose sessions ended are fenced at once, not one after the other
    notifies_leaving_leader: bool = True  # a leader in controlled shutdown is notified of its successor (KAFKA-7482)
    consumers_validate: bool = True  # consumers check whether their position survived a truncation (KIP-320)
    # A new leader's ListOffsets has no end before its high watermark reached the start of its epoch (KIP-207).
    hides_lagging_high_watermark: bool = True
    # Committed offsets expire after their commit, not after the group became empty, as since 2.1 (KIP-211).
    expires_active_offsets: bool = False
    reads_followers: bool = False  # consumers may fetch from followers (KIP-392)
    # A move of a partition ends when all its target replicas are in the ISR, not just those added (KAFKA-15665).
    moves_into_full_isr: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)  # settings with another default than in 4.1
    absent: tuple[str, ...] = ()  # settings and faults that did not exist yet


_OLD_DEFAULTS = {
    "acks": "1",  # all since 3.0 (KIP-679), like idempotence
    "enable.idempotence": False,
    "retries": 0,  # since 2.1 limited by delivery.timeout.ms alone (KIP-91)
    "linger.ms": 0,
    "replica.lag.time.max.ms": 10_000,  # 30 s since 2.5 (KIP-537), like the 18 s of the session
    "zookeeper.session.timeout.ms": 6000,
}
_LATER = ("delivery.timeout.ms", "group.protocol")  # since 2.1 (KIP-91) and 3.7 (KIP-848)
_ZOOKEEPER: dict[str, Any] = {
    "zookeeper": True,
    "fences_together": True,  # KafkaController.onBrokerFailure
    "consumers_validate": False,
    "hides_lagging_high_watermark": False,
    "expires_active_offsets": True,
}
ERAS: dict[str, Era] = {
    "0.10": Era(
        **_ZOOKEEPER,
        epochs_in_log=False,
        defaults={**_OLD_DEFAULTS, "unclean.leader.election.enable": True},  # false since 0.11 (KIP-106)
        absent=("enable.idempotence", "delete-records", *_LATER),  # since 0.11 (KIP-98, KIP-107)
    ),
    "1.0": Era(**_ZOOKEEPER, defaults=_OLD_DEFAULTS, absent=_LATER),
    "2.0": Era(  # 1.1 to 2.0.0
        **_ZOOKEEPER, notifies_leaving_leader=False, defaults=_OLD_DEFAULTS, absent=_LATER
    ),
    "3.3": Era(moves_into_full_isr=False, absent=("group.protocol",)),
    "3.3, follower reads": Era(reads_followers=True, moves_into_full_isr=False, absent=("group.protocol",)),
    "3.9": Era(raises_epoch_on_shrink=False),  # since 3.6 (KAFKA-15021)
}
