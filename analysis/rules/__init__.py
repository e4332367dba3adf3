"""What a log guarantees: a module a family of rules, and one RULES dict.

A new rule is one function of a Partition, one entry here and its cases in tests/rules_corpus.py. The dict's
order is the order of reports.
"""

from __future__ import annotations

from . import (
    committed_offsets,
    evidence,
    groups,
    identity,
    jepsen,
    log_order,
    loss,
    polling,
    realtime,
    replica_absent,
    replica_divergence,
    sending,
    visibility,
)
from .rule import Assumed, Judge, Rule

__all__ = ["RULES", "Judge", "Rule", "assuming"]

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "lost-write",
            "an acknowledged value is gone",
            "A send was acknowledged with acks 1 or all (acks=0 acknowledges nothing), no legal reason explains its"
            " absence (retention, delete-records, compaction by key), and its absence is proven: its offset later"
            " holds another value, or an end offset asked later is at or below it, or the final reads pass its offset"
            " without it, or come to the end without it after somebody had read it."
            " That it was read before it vanished saves nothing. In a run without final reads a value"
            " that nobody read though one consumer read before and behind it is lost too. One consumer that passes"
            " over a value is poll-skip, not a loss. A tombstone is known by its offset. Unknown is what a poll of"
            " unknown outcome may have read, what an open transaction may hide from read_committed final reads, and"
            " what a deletion may have taken that is not certain (of unknown outcome, beyond the log's end, refuted by"
            " later reads), or retention where all below is older than retention.ms or the log is limited in size;"
            " neither explains that an offset holds another value or that the end went back. Unknown is a missing"
            " tombstone too where cleanup.policy is not told, as compaction removes it, and on a compacted topic a"
            " value of whose key another record may be the later one."
            " Under acks=1 the configuration permits the loss; it stays a"
            " breach unless --allow lost-write:acks=1 accepts it. In Jepsen's histories: never read by an ok"
            " operation, though its writer must have committed and a later value was read.",
            "p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill p:x@1 end=2 final:<a@0,x@1",
            ("acknowledged",),
            loss.lost_writes,
            jepsen.lost_writes,
            needs_final=True,
            assumes=("values", "order", "partitions"),
        ),
        Rule(
            "unseen",
            "an acknowledged value was never read by anyone",
            "The run ends with final reads that reach the log's end, yet an acknowledged value appears in no read at"
            " all, no legal reason explains it, and nothing proves that it is gone: it stood at the end of the log, or"
            " its offset is not known. Unknown is what an open transaction may hide from read_committed final reads. In"
            " Jepsen's histories: sent by an ok operation and polled by none.",
            "p:a@0 p:b@? end=1 final:<a@0",
            ("acknowledged",),
            loss.unseen,
            jepsen.unseen,
            needs_final=True,
            assumes=("values", "order", "partitions"),
            follows="offset",
            of_records=True,
        ),
        Rule(
            "inconsistent-offsets",
            "one offset held two values",
            "Acknowledgements and polls tell different values for one offset. Neighbouring offsets are one finding,"
            " which belongs to the loss of the values that were replaced.",
            "p:a@0 p:b@0 c:<a@0 d:<b@0",
            ("records",),
            identity.inconsistent_offsets,
            jepsen.inconsistent_offsets,
            assumes=("partitions",),
            follows="offset",
        ),
        Rule(
            "duplicate",
            "one value stands at two offsets",
            "A value was acknowledged or polled at several offsets. A producer that is known to be without"
            " idempotence (by its configuration, by acks 0 or 1, or as brokers keep the record without a producer id)"
            " may write twice when it retries, so that is permitted; otherwise it is a breach. A value that"
            " was sent twice is none: that values are not unique is said among the assumptions.",
            "p:a@0 c:<a@0,a@1",
            ("records",),
            identity.duplicates,
            jepsen.duplicates,
            assumes=("values", "partitions"),
        ),
        Rule(
            "aborted-read",
            "a value was read that was never committed (G1a)",
            "A consumer polled a value whose send certainly failed or whose transaction aborted. Records of aborted"
            " transactions may be shown to read_uncommitted consumers: one finding a partition tells of all these;"
            " unknown where nobody told the isolation level. A timeout is no certain failure.",
            "{c.isolation.level=read_committed} p:(a@0)! c:<a@0",
            ("reads",),
            visibility.aborted_reads,
            jepsen.aborted_reads,
            assumes=("values", "outcomes"),
        ),
        Rule(
            "phantom-read",
            "a value was read that nobody had sent",
            "A consumer polled a value that no send of the history explains, or polled it before its send was"
            " invoked. Unknown where sends may be missing: lines that could not be read, or a producer that run.json"
            " names and of whom nothing is recorded. Jepsen's checker has no such rule.",
            "p:a@0 c:<a@0,b@1",
            ("reads", "sends"),
            visibility.phantom_reads,
            None,
            assumes=("values", "clock", "order"),
        ),
        Rule(
            "precommitted-read",
            "a value was read before its transaction could commit",
            "A read_committed consumer polled a value before the transaction that writes it was invoked, or a"
            " transaction polled a value that it writes itself. Between the invocation of a commit and its ok"
            " nothing can be proved, as ok arrives after the marker.",
            "{p.isolation.level=read_committed} p:(a@0,<a@0)",
            ("transactions",),
            visibility.precommitted_reads,
            jepsen.precommitted_reads,
            assumes=("values", "clock", "order"),
        ),
        Rule(
            "nonmonotonic-poll",
            "a consumer went back",
            "A consumer's next record stands before its position: one past its last record, or what a seek or an"
            " assignment set. Revocations and assignments without offset clear the position; after a rebalance of"
            " its group going back is permitted. A 4.x client that silently jumps back after a truncation is such a"
            " breach, which belongs to the loss.",
            "p:a@0 p:b@1 c:<a@0,b@1 c:<a@0",
            ("reads",),
            polling.nonmonotonic_polls,
            jepsen.nonmonotonic_polls,
            follows="offset",
        ),
        Rule(
            "poll-skip",
            "a consumer passed over records",
            "A consumer's next record stands behind its position, and records exist between: acknowledged or read by"
            " others, visible at its isolation level, and not legally absent. Offsets of markers, of aborted"
            " transactions and of records that may have been compacted or deleted by then are nothing to"
            " skip. After a rebalance of its group it is permitted.",
            "p:a@0 p:b@1 p:e@2 c:<a@0 c:<e@2 d:<a@0,b@1,e@2",
            ("reads",),
            polling.poll_skips,
            jepsen.poll_skips,
            follows="offset",
            of_records=True,
        ),
        Rule(
            "int-nonmonotonic-poll",
            "one poll returned records in the wrong order",
            "The same as nonmonotonic-poll, between neighbouring records of one operation; a repetition counts.",
            "p:a@0 p:b@1 c:<b@1,a@0",
            ("reads",),
            polling.int_nonmonotonic_polls,
            jepsen.int_nonmonotonic_polls,
        ),
        Rule(
            "int-poll-skip",
            "one poll passed over records",
            "The same as poll-skip, between neighbouring records of one operation.",
            "p:a@0 p:b@1 p:e@2 c:<a@0,e@2 d:<a@0,b@1,e@2",
            ("reads",),
            polling.int_poll_skips,
            jepsen.int_poll_skips,
        ),
        Rule(
            "nonmonotonic-send",
            "a producer's acknowledged offsets went back",
            "Of two sends of a producer to a partition, in the order of invocation, the later stands before the"
            " earlier. Permitted for a producer that is known to be without idempotence, since a retry of the first"
            " may overtake nothing but come after the second. A crash of the producer begins anew.",
            "p:a@1 p:b@0",
            ("acknowledged",),
            sending.nonmonotonic_sends,
            jepsen.nonmonotonic_sends,
            assumes=("invocations",),
            follows="value",
        ),
        Rule(
            "int-nonmonotonic-send",
            "one transaction's records stand in the wrong order",
            "The same as nonmonotonic-send, between neighbouring sends of one operation.",
            "p:(a@1,b@0)",
            ("transactions",),
            sending.int_nonmonotonic_sends,
            jepsen.int_nonmonotonic_sends,
            follows="value",
        ),
        Rule(
            "int-send-skip",
            "records of others stand between those of one transaction",
            "A note, never a breach: any second producer causes it.",
            "p:(a@0,b@2).. q:x@1 p:..(a@0,b@2)",
            ("transactions",),
            sending.int_send_skips,
            jepsen.int_send_skips,
        ),
        Rule(
            "realtime-order",
            "the log is not in the order of time",
            "What was acknowledged, read, or counted by an end offset before an append was invoked stands before it;"
            " otherwise the partition is not linearizable as a log. Where an append stands is known from its"
            " acknowledgement, or from reads of a value that was sent once. Neighbouring later appends are one finding"
            " with one witness; where the witness itself was lost, the finding belongs to that loss.",
            "p:a@5 q:b@3",
            ("acknowledged",),
            realtime.realtime_order,
            None,
            assumes=("clock", "order", "partitions", "invocations"),
            follows="value",
        ),
        Rule(
            "stale-end-offset",
            "an end offset was too small",
            "end_offsets answered less than what was acknowledged or read before the question, or less than an"
            " earlier answer. Where transactions write, a read_committed client is told the last stable offset, which"
            " may be less; unknown where nobody told the isolation level.",
            "p:a@0 p:b@1 end=1",
            ("end_offsets",),
            realtime.stale_end_offsets,
            None,
            assumes=("clock", "order"),
            follows="offset",
        ),
        Rule(
            "consumer-loss",
            "a group passed over records for good",
            "Records below the group's last committed offset that no member handled by the end of the run, those among"
            " them that took the offsets of lost ones (without"
            " any handle events a poll counts as handling, and where only other groups recorded any, nobody knows; a"
            " transaction handles what it polls and commits), and"
            " records below the first position of the group, skipped by auto.offset.reset; where a seek or a committed"
            " offset chose where the group began, nothing was skipped. Records that are older than the group itself are"
            " permitted to be skipped; what retention, delete-records or compaction took before the group came past is"
            " nothing to handle.",
            "p:a@0 p:b@1 c:<a@0 c:commit=2",
            ("groups",),
            groups.consumer_losses,
            None,
        ),
        Rule(
            "commit-regression",
            "a group's committed offset went back",
            "A later commit of the group is below an earlier one, and no member sought back (or was assigned a lower"
            " offset by the application) in between. Of two commits that overlap in time either may be the earlier.",
            "p:a@0 p:b@1 c:<a@0,b@1 c:commit=2 c:commit=1",
            ("commits",),
            groups.commit_regressions,
            None,
        ),
        Rule(
            "commit-beyond-end",
            "a group's committed offset is beyond the log's end",
            "A group committed an offset greater than the log's end, which was read after the commit: an end offset"
            " that is answered later, final reads that reach the end, or the log of the last leader. A group that"
            " starts there is reset, or passes over all that is written until then. Where the log was cut after the"
            " commit, the finding follows from the loss. A commit at the end, and one that the group took back before"
            " the end was read, are no breach; neither is one beyond an end offset that later reads refute. Unknown is"
            " a commit beyond all that is known of the log where nothing later shows its end: a last stable offset,"
            " and final reads that return nothing or read a log with transactions, show none.",
            "p:a@0 c:<a@0 c:commit=3 end=1",
            ("commits",),
            committed_offsets.commits_beyond_end,
            None,
            assumes=("clock", "order", "partitions"),
            follows="offset",
        ),
        Rule(
            "replica-divergence",
            "replicas hold different records at one offset",
            "In one snapshot two replicas have records at one offset that differ in leader epoch, key or value. Below a"
            " checkpointed high watermark the record was committed; above it, it was if it was acknowledged under"
            " acks=all or read by a consumer. A replica that is merely behind does not diverge, and damaged offsets"
            " are unknown. A divergence above the high watermark that the next election truncates is a note.",
            "",
            ("batches",),
            evidence.of_replicas("replica-divergence", replica_divergence.replica_divergence),
            None,
            assumes=("replicas",),
            follows="offset",
            of_records=True,
        ),
        Rule(
            "acknowledged-absent",
            "no replica, or not the leader's log, holds an acknowledged record",
            "An acknowledged record is in no replica of the last snapshot, or not in the log of the leader, and nothing"
            " legal explains it: log start, compaction, an aborted transaction. Where damage may hide it the rule is"
            " unknown.",
            "",
            ("batches", "acknowledged"),
            evidence.of_replicas("acknowledged-absent", replica_absent.acknowledged_absent),
            None,
            assumes=("partitions", "replicas"),
            follows="value",
            of_records=True,
        ),
        Rule(
            "epoch-order",
            "leader epochs are out of order in a log",
            "Leader epochs decrease along a log, or a batch's epoch is not that of the leader-epoch-checkpoint entry"
            " that covers its offset (KIP-101). Entries at the log end without a batch, and gaps, are none. One broker"
            " leads a leader epoch: two of which each logged of itself that it led it had two controllers.",
            "",
            ("batches",),
            evidence.of_replicas("epoch-order", log_order.epoch_order),
            None,
        ),
        Rule(
            "checkpoint-order",
            "a broker's checkpoints contradict its log or each other",
            "Log start offset <= recovery point and high watermark <= log end offset are broken, or a high watermark"
            " goes back between snapshots.",
            "",
            ("batches",),
            evidence.of_replicas("checkpoint-order", log_order.checkpoint_order),
            None,
        ),
        Rule(
            "log-corruption",
            "a segment is damaged",
            "A batch's CRC, magic or offset order is broken, at file and byte. A torn tail, as a crash leaves it, is a"
            " note: recovery cuts it off.",
            "",
            ("batches",),
            evidence.of_replicas("log-corruption", log_order.log_corruption),
            None,
        ),
    )
}


def assuming(what: Assumed) -> tuple[str, ...]:
    """The names of the rules that take something for granted."""
    return tuple(name for name, rule in RULES.items() if what in rule.assumes)
