"""KRaft without eligible leader replicas: the last replica standing (KIP-966, Motivation).

The last replica of an ISR stays in it when its broker dies. When the broker returns, it leads again with the records
that are left on its disk.
"""

from __future__ import annotations

from typing import ClassVar

from ..eras import ERAS
from .since_3_7 import Since37


class Kraft(Since37):
    """Kafka 3.9: the last replica of an ISR stays in it."""

    name = "kraft"
    summary = "the KRaft controller of 3.9, without ELR"
    source = "KIP-500, KIP-497; PartitionChangeBuilder.java; KIP-966, Motivation; KAFKA-15021; KAFKA-15583"
    version = "3.9.0"
    era = ERAS["3.9"]
    breaks: ClassVar[tuple[str, ...]] = (
        "no-acknowledged-loss",
        "no-committed-loss",
        "no-consumer-loss",
        "no-duplicates",
        "no-reordering",
    )
    needs: ClassVar[tuple[str, ...]] = ("power-loss",)
