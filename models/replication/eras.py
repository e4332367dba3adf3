"""What differs between Kafka's releases where no variant replaces a rule: one row an era, as data.

Also the place for defaults that changed from release to release; today every era has those of 4.1 (config.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Era:
    """How the brokers and clients of some releases behave, and which wording their logs have."""

    zookeeper: bool = False  # ZooKeeper stores the cluster's state, not KRaft's quorum
    epochs_in_log: bool = True  # batches carry their leader epoch; message formats 0 and 1 had none
    raises_epoch_on_shrink: bool = True  # the controller raises the leader epoch when it removes a replica from an ISR
    fences_together: bool = False  # brokers whose sessions ended are fenced at once, not one after the other
    notifies_leaving_leader: bool = True  # a leader in controlled shutdown learns that it was replaced (KAFKA-7482)
    consumers_validate: bool = True  # consumers ask whether their position survived a truncation (KIP-320)
    hides_lagging_mark: bool = True  # a new leader reports no end before its mark reached its epoch (KIP-207)
    reads_followers: bool = False  # consumers may fetch from followers (KIP-392)


_ZOOKEEPER = {
    "zookeeper": True,
    "fences_together": True,  # KafkaController.onBrokerFailure
    "consumers_validate": False,
    "hides_lagging_mark": False,
}
ERAS: dict[str, Era] = {
    "0.10": Era(**_ZOOKEEPER, epochs_in_log=False),
    "1.0": Era(**_ZOOKEEPER),
    "2.0": Era(**_ZOOKEEPER, notifies_leaving_leader=False),  # 1.1 to 2.0.0
    "3.3": Era(),
    "3.3, follower reads": Era(reads_followers=True),
    "3.9": Era(raises_epoch_on_shrink=False),  # since 3.6 (KAFKA-15021)
}
