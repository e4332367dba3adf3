"""The part of a transaction in one partition that did not end as its coordinator decided, or never ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..partitions.coordinators import source_of
from ..replicas.replica_logs import TopicPartition
from ..timelines.facts import Fact
from ..wording import span

Row = Mapping[str, Any]
ARTICLES = {"commit": "a COMMIT", "abort": "an ABORT"}


@dataclass(frozen=True)
class TransactionPart(TopicPartition):
    """Records of one transaction in the leader's last log, the marker that ended them, and the coordinator's decision.

    A marker is a row of IN_LOG (partitions/coordinators.py) with `marker_ns`, a decision one of TRANSACTIONS.
    """

    process: str | None  # the client that wrote them; None: not recorded, or not unique
    producer: int  # producer id
    first: int
    last: int
    values: tuple[str, ...]
    created: int | None  # ns, by the producer's clock
    record: Row  # the first of them (RECORDS)
    decision: Row | None  # None: `__transaction_state` has no transaction that must be theirs
    older_transaction: Row | None  # the producer's last transaction before this one, if no decision is known
    emptied_state: str | None  # the copies of __transaction_state that were emptied since; None: not proved
    own_marker: Row | None  # the marker that carries out the decision; None: the log has none
    ending_marker: Row | None  # the marker that ended them; None: they are open
    repeated_marker: Row | None  # the last marker before these records with the outcome and epoch of ending_marker
    is_whole_log: bool  # whether the log has every record and marker since offset 0

    @property
    def subject(self) -> str:
        """The transaction in words."""
        of = self.process or f"producer {self.producer}"
        known = f" (transactional.id {self.decision['transactional_id']})" if self.decision else ""
        return f"the transaction of {of}{known}"

    @property
    def them(self) -> str:
        """The pronoun of its records."""
        return "it" if self.first == self.last else "them"

    def decision_facts(self) -> list[Fact]:
        """The fact of the coordinator's decision, if it is known."""
        if self.decision is None:
            return []
        text = f"the coordinator decided to {self.decision['outcome']} {self.subject}"
        source = source_of(self.decision, "prepared")
        return [Fact(text, "decided", self.decision["prepared_ns"], **source, partition=self.name)]

    def records_fact(self, text: str) -> Fact:
        """The undated fact that these records belong to the transaction, followed by `text`."""
        source = {"source": self.record["file"], "byte": self.record["byte"]}
        are = "is" if self.first == self.last else "are"
        where = f"{span(self.first, self.last)} of {self.name} {are} of {self.subject}"
        return Fact(where + text, "records", **source, partition=self.name, offset=self.first)

    def marker_fact(self, marker: Row, text: str = "") -> Fact:
        """The fact that the leader wrote a marker; `text` follows its offset."""
        source = {"source": marker["marker_file"], "byte": marker["marker_byte"]}
        wrote = f"the leader of {self.name} wrote {ARTICLES[marker['outcome']]} marker at offset {marker['marker']}"
        return Fact(wrote + text, "marker", marker["marker_ns"], **source, partition=self.name, offset=marker["marker"])
