"""Facts from the brokers' own logs: one handler for each kind of event (histories/evidence/log_patterns.py)."""

from __future__ import annotations

import re
from typing import Any

from .changes import BrokerEvent, Deletion, LogEnd, Move
from .facts import HALTED, LEADERS_LOG_START, OUT_OF_RANGE, SECOND, Fact, listed
from .terms import Election, Term, broker_names, is_last_known_leader, isr_clause, last_known_clause
from .timeline import Builder, line_fact
from .topic_settings import add_logged_settings

NO_LEADER = -1  # LeaderAndIsr.NoLeader; -2 is a topic that is being deleted
BY_REQUEST = "client delete records request"  # a LogStartOffsetIncrementReason


def _leader(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A broker reports that it leads: `starts at leader epoch 2 from offset 487`; with the ISR since 2.5."""
    term = builder.term(fields["leader_epoch"])
    broker, start = row["broker"], fields["offset"]
    isr = broker_names(fields["isr"]) if "isr" in fields else None
    if fields.get("previous") in (NO_LEADER, f"Some({NO_LEADER})"):
        builder.leaderless_epochs.add(fields["previous_epoch"])
    message = f"broker {broker} began to lead {_name(row)} in epoch {term.epoch} from offset {start}"
    message += "" if isr is None else f", ISR {fields['isr']}"
    fact = line_fact(builder, row, message, "begins", epoch=term.epoch, offset=start, isr=isr)
    # A leader that restarts reports again in the same epoch, from its log end at that time.
    again = term.leader == broker and term.start is not None
    term.name_leader(broker)
    term.claims.setdefault(broker, fact.time)
    if again:
        builder.ends.append(LogEnd(fact, broker, start, "loaded"))
    else:
        term.start = start if term.start is None else term.start
        term.begin(fact.time)
        term.start_facts.append(fact)
    term.facts.append(fact)
    if isr is not None:
        term.begin(None, isr)
        builder.isr_reports.append(fact)
    _state(builder, fields, fact, term)
    if fields.get("adding") or fields.get("removing"):
        steps = [f"added {fields['adding']}"] if fields.get("adding") else []
        steps += [f"removed {fields['removing']}"] if fields.get("removing") else []
        message = f"broker {broker} led {_name(row)} while a reassignment {' and '.join(steps)}"
        moved = line_fact(builder, row, message, "reassignment")
        builder.moves.append(Move(moved, broker_names(fields.get("adding")), broker_names(fields.get("removing"))))


def _state(builder: Builder, fields: dict[str, Any], fact: Fact, term: Term | None = None) -> None:
    """Records the ISR (and ELR) of a line's partition epoch, unless an earlier line did, and the epoch's term."""
    epoch = fields.get("partition_epoch")
    if isinstance(epoch, int) and "isr" in fields:
        builder.isr_by_partition_epoch.setdefault(epoch, fact)
    if isinstance(epoch, int) and "elr" in fields:
        builder.elr_by_partition_epoch.setdefault(epoch, broker_names(fields["elr"]))
    if isinstance(epoch, int) and term is not None:
        term.partition_epochs.append(epoch)


def _follower(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A broker reports that it follows a leader, and its log end offset."""
    leader = fields.get("leader")
    if leader is not None and leader < 0:
        builder.leaderless_epochs.add(fields["leader_epoch"])
        return
    term, led = builder.term(fields["leader_epoch"]), None
    if leader is not None:
        term.name_leader(str(leader))
        led = broker_names([leader])
    followed = "" if leader is None else f" broker {leader}"
    message = f"broker {row['broker']} followed{followed} in epoch {term.epoch} of {_name(row)}"
    message += f", with log end {fields['offset']}"
    fact = line_fact(builder, row, message, "followed", epoch=term.epoch, brokers=led, offset=fields["offset"])
    term.facts.append(fact)
    builder.ends.append(LogEnd(fact, row["broker"], fields["offset"], "followed"))
    term.begin(fact.time)


def _elected(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A controller names the leader (ZooKeeper's, or the first record of a KRaft partition)."""
    if fields["leader"] < 0:
        if fields["leader"] == NO_LEADER and "leader_epoch" in fields:
            _leader_lost(builder, row, fields)
        return
    isr, leader = broker_names(fields.get("isr")), str(fields["leader"])
    message = f"the controller elected broker {leader} leader of {_name(row)} in epoch {fields.get('leader_epoch')}"
    message += f", ISR {fields.get('isr')}"
    fact = line_fact(builder, row, message, "elected", epoch=fields.get("leader_epoch"), broker=leader, isr=isr)
    term = builder.term(fields["leader_epoch"]) if "leader_epoch" in fields else None
    _state(builder, fields, fact, term)
    if term is None:
        return
    term.name_leader(leader)
    # Requests and caches repeat a decision while it is valid: one fact for each file is enough.
    files = builder.decisions.setdefault((term.epoch, leader, isr), set())
    if not files and any(fact.about == other.about for other in term.facts):
        fact = line_fact(
            builder, row, f"the ISR of {_name(row)} became {fields.get('isr')}", "isr", broker=None, isr=isr
        )
    elif row["file"] not in files:
        term.facts.append(fact)
    if not files:
        builder.isr_reports.append(fact)
    files.add(row["file"])
    term.begin(fact.time, isr)


def _isr_removed(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """ZooKeeper's controller takes a dead broker out of the ISR: a new leader epoch, usually of the same leader."""
    if fields["leader"] < 0:
        _leader_lost(builder, row, fields)
        return
    isr, leader, name = broker_names(fields["isr"]), str(fields["leader"]), _name(row)
    message = f"the controller took broker {fields['removed']} out of the ISR of {name}, which became {listed(isr)}"
    message += f"; broker {leader} led in epoch {fields['leader_epoch']}"
    gone = broker_names([fields["removed"]])
    fact = line_fact(builder, row, message, "isr", epoch=fields["leader_epoch"], broker=leader, brokers=gone, isr=isr)
    # A new controller repeats the changes of its predecessor.
    if fields["partition_epoch"] in builder.isr_by_partition_epoch:
        return
    term = builder.term(fields["leader_epoch"])
    _state(builder, fields, fact, term)
    builder.isr_reports.append(fact)
    term.name_leader(leader)
    term.facts.append(fact)
    term.begin(fact.time, isr)


def _leader_lost(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """ZooKeeper's controller found no replica to lead; requests and caches repeat that, so the first line counts."""
    epoch, isr = fields["leader_epoch"], broker_names(fields["isr"])
    lost = "removed" in fields
    change = f"lost its leader, as broker {fields['removed']} was gone" if lost else f"had no leader in epoch {epoch}"
    message = f"{_name(row)} {change}, ISR {listed(isr)}"
    fact = line_fact(builder, row, message, "leaderless", epoch=epoch, broker=None, isr=isr)
    _state(builder, fields, fact)
    files = builder.decisions.setdefault((epoch, None, isr), set())
    if not files:
        builder.isr_reports.append(fact)
        if epoch - 1 in builder.terms:
            builder.terms[epoch - 1].ended = fact.time
    files.add(row["file"])


def _partition_change(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A KRaft controller logs its changes. Since Kafka 4.0 it logs only unclean elections at INFO."""
    if not isinstance(fields.get("leader"), int) or fields["leader"] < 0 or "leaderEpoch" not in fields:
        return
    term = builder.term(fields["leaderEpoch"])
    term.name_leader(leader := str(fields["leader"]))
    sync, elr, known = (broker_names(fields.get(f"{name}_before")) for name in ("isr", "elr", "lastKnownElr"))
    clean_only = builder.allows_only_clean_elections(builder.at(row["time"], row["broker"]))
    last_known = is_last_known_leader(clean_only, leader, sync, elr, known) if fields.get("unclean") else False
    # An unclean election leaves the leader alone in the ISR. A leader with others joined it by the same change, as a
    # reassignment that ends makes it.
    isr = broker_names(fields.get("isr"))
    joined = frozenset([leader]) if leader in isr and (isr - {leader}) & sync else frozenset()
    before = known if last_known else sync | elr | joined or known
    if before:
        term.electable = before
    # The line has only what changed, so it does not name an ISR that stays.
    shown = frozenset() if last_known else before or (frozenset() if "isr_before" in fields else None)
    message = f"the controller elected broker {leader} leader of {_name(row)} in epoch {term.epoch}"
    message += "" if shown is None else isr_clause(shown)
    if last_known is not False:
        term.was_last_known = last_known
    message += last_known_clause(last_known)
    fact = line_fact(builder, row, message, "elected", epoch=term.epoch, broker=leader, brokers=shown)
    term.facts.append(fact)
    term.elections.append(Election(before, fact))
    term.time = fact.time if term.time is None else min(term.time, fact.time or term.time)


def _unclean_zookeeper(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    leader = str(fields["leader"])
    message = f"the controller elected broker {leader} leader of {_name(row)}, as no broker of the ISR was alive"
    fact = line_fact(builder, row, message, "elected-unclean", broker=leader)
    # The line has no epoch. add_electable_replicas assigns it to the next term of this leader.
    builder.elected_outside_isr.append(fact)


def _marked_recovering(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:  # noqa: ARG001
    message = f"broker {row['broker']} was elected leader of {_name(row)}, as no in-sync or eligible broker was alive"
    builder.marked_recovering.append(line_fact(builder, row, message, "elected-unclean"))


def _isr_event(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    message = f"broker {row['broker']} reported the ISR of {_name(row)} as {fields['isr']}"
    old = None
    if row["kind"] == "isr-shrink":
        old = broker_names(fields["old"])
        message = f"broker {row['broker']} shrank the ISR of {_name(row)} from {fields['old']} to {fields['isr']}"
    isr = broker_names(fields["isr"])
    fact = line_fact(builder, row, message, "isr", isr=isr, brokers=old)
    builder.reported_by_leaders.append(fact)
    _state(builder, fields, fact)


LINES_OF_TRUNCATION = 3  # from the line of a thread that truncates to that of the log; other threads may log between

# By kind of line: the kind of log end, and the wording of its fact.
LOG_ENDS = {
    "loaded": ("loaded", "broker {} loaded {} with log end {}"),
    "created": ("loaded", "broker {} had no log of {} and created one, with log end {}"),
    "corruption": ("corruption", "broker {} found its log of {} corrupt and truncated it to offset {}"),
    **dict.fromkeys(("truncate", "truncate-fully"), ("truncated", "broker {} truncated {} to offset {}")),
    "truncate-noop": ("truncated", "broker {} truncated {} to offset {}, which changed nothing"),
    "set-aside": ("set-aside", "broker {} set its log of {} aside, with log end {}, as the metadata lack its topic id"),
}


def _log_end(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    end = 0 if row["kind"] == "created" else fields.get("end_offset", fields.get("offset"))
    if end is None or _is_of_copy(builder, row, end):
        return
    (kind, message), is_noop = LOG_ENDS[row["kind"]], row["kind"] == "truncate-noop"
    text = message.format(row["broker"], _name(row), end)
    fact = line_fact(builder, row, text, "noop" if is_noop else kind, offset=end)
    is_new = row["kind"] == "created"
    builder.ends.append(LogEnd(fact, row["broker"], end, kind, is_noop=is_noop, is_new=is_new))


def _truncate_copy(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    builder.truncated_copies[row["broker"], row["file"]] = (row["line"], fields["offset"])


def _is_of_copy(builder: Builder, row: dict[str, Any], end: int) -> bool:
    """Whether a truncation is that of the copy that the broker is moving to another disk, by the lines just before."""
    line, offset = builder.truncated_copies.get((row["broker"], row["file"]), (0, -1))
    is_next = 0 < row["line"] - line <= LINES_OF_TRUNCATION
    return row["kind"].startswith("truncate") and is_next and end == offset


def _out_of_range(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A follower reports that its leader lacks the offset from which it fetched."""
    leader, offset = str(fields["leader"]), fields["offset"]
    message = f"broker {row['broker']} fetched from offset {fields['fetched']} of {_name(row)}, which its leader,"
    message += f" broker {leader}, did not have, and continued from offset {offset}"
    fact = line_fact(builder, row, message, OUT_OF_RANGE, brokers=broker_names([leader]), offset=offset)
    builder.refused_fetches.append(fact)
    if offset < fields["fetched"]:  # else the offset is the leader's log start
        builder.ends.append(LogEnd(fact, leader, offset, "refused"))


def _fetch_refused(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A leader reports that a follower fetched from an offset that it does not have, and the range of its log."""
    broker, start, end = row["broker"], fields["start"], fields["offset"]
    held = "was empty" if start == end == 0 else f"had offsets {start} to {end}"
    message = f"broker {broker}, the leader, refused a follower's fetch from offset {fields['fetched']} of {_name(row)}"
    fact = line_fact(builder, row, f"{message}, as its log {held}", "fetch-refused", offset=end)
    builder.refused_fetches.append(fact)
    builder.ends.append(LogEnd(fact, broker, end, "refused"))


def _log_start(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    segments = f"the segment at offset {fields['base']}" if "base" in fields else "segments"
    action = "moved the log start" if "offset" in fields else f"deleted {segments}"
    to = f" to offset {fields['offset']}" if "offset" in fields else ""
    message = f"broker {row['broker']} {action} of {_name(row)}{to}"
    message += f" ({fields['reason']})" if fields.get("reason") else ""
    # Only a leader deletes records for a client (LogStartOffsetIncrementReason).
    of_leader = fields.get("reason") in ("leader offset increment", BY_REQUEST)
    kind = LEADERS_LOG_START if of_leader else "log-start"
    builder.log_starts.append(line_fact(builder, row, message, kind, offset=fields.get("offset")))
    builder.deletions += _deletion(fields.get("reason") or BY_REQUEST, fields.get("offset"))


def _deletion(reason: str, offset: int | None) -> list[Deletion]:
    """What permitted a broker to move a log start, by the reason in its line. Before 2.8 no line has a reason."""
    if "retention size" in reason:
        return [Deletion("size", 0)]
    if age := re.search(r"retention time (\d+) ?ms", reason):
        return [Deletion("age", int(age[1]))]
    return [Deletion("request", offset)] if reason == BY_REQUEST and offset is not None else []


def _cleaned(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A cleaner reads the keys of the segments that it is about to compact, up to an offset."""
    broker, first = row["broker"], fields["first"]
    message = f"broker {broker} compacted {_name(row)} below offset {fields['offset']}"
    builder.cleanings.append(line_fact(builder, row, message, "cleaned", offset=fields["offset"]))
    builder.cleaned_from[broker] = min(builder.cleaned_from.get(broker, first), first)


def _disk_failed(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A broker names the partitions in a log directory that failed."""
    name = builder.replica_logs.name
    if name in str(fields["partitions"]).split(","):
        message = f"the log directory of {name} on broker {row['broker']} failed ({fields['folder']}), so it is offline"
        builder.disk_errors.append(line_fact(builder, row, message, "disk-failed"))


def _fetched_corrupt(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A follower reports a damaged batch of its leader; it does so at each attempt, so the first is the fact."""
    broker, leader, offset = row["broker"], str(fields["leader"]), fields["offset"]
    if any(fact.broker == broker and fact.offset == offset for fact in builder.disk_errors):
        return
    message = f"broker {broker} could not replicate {_name(row)} from offset {offset} on, as the copy of its leader,"
    message += f" broker {leader}, is damaged"
    fact = line_fact(builder, row, message, "fetched-corrupt", brokers=broker_names([leader]), offset=offset)
    builder.disk_errors.append(fact)


def _boot(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    fact = line_fact(builder, row, f"broker {row['broker']} started", "started")
    alive_until = builder.at(fields.get("alive_until"), row["broker"])
    builder.events.append(BrokerEvent(fact, row["broker"], "started", alive_until))


def _clean_start(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:  # noqa: ARG001
    message = f"broker {row['broker']} found that it had been shut down cleanly, with all logs flushed"
    builder.clean_starts.append(line_fact(builder, row, message, "clean-start"))


def _unclean_start(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:  # noqa: ARG001
    message = f"broker {row['broker']} found that it had not been shut down cleanly, and recovered its logs"
    builder.unclean_starts.append(line_fact(builder, row, message, "unclean-start"))


# By kind of line: the broker's event that a controller saw, or its own last line, and the wording of its fact.
SEEN = {
    "halted": ("died", "broker {} halted, as it could not write to its log directories"),
    "fenced": ("died", "the controller fenced broker {}"),
    "failed": ("died", "the controller noticed the failure of broker {}"),
    "unfenced": ("unfenced", "the controller unfenced broker {}"),
    "returned": ("unfenced", "the controller noticed the start of broker {}"),
}


def _seen(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    kind, message = SEEN[row["kind"]]
    for broker in str(fields.get("brokers", row["subject"] or row["broker"])).split(","):
        fact = line_fact(builder, row, message.format(broker), row["kind"], broker=broker)
        if not (fact.kind == HALTED and _has_halted(builder, fact)):
            builder.events.append(BrokerEvent(fact, broker, kind))


def _has_halted(builder: Builder, fact: Fact) -> bool:
    """Whether another line reports the same halt: each thread that could not write logs one."""
    halts = [e.time for e in builder.events if (e.broker, e.fact.kind) == (fact.broker, HALTED)]
    return any(time is not None and abs(time - (fact.time or 0)) <= SECOND for time in halts)


def _active_controller(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    """A node reports that it became the active controller: without one no partition gets a new leader."""
    node, epoch = row["subject"] or row["broker"], fields.get("controller_epoch")
    message = f"node {node} became the active controller" + ("" if epoch is None else f" in controller epoch {epoch}")
    builder.controllers.append(line_fact(builder, row, message, "controller", broker=node))


def _version(builder: Builder, row: dict[str, Any], fields: dict[str, Any]) -> None:
    text = str(fields["version"])
    if builder.version is None:
        builder.version = text
        message = f"broker {row['broker']} runs Kafka {text}"
        builder.version_fact = line_fact(builder, row, message, "version")


HANDLERS = {
    "leader": _leader,
    "follower": _follower,
    "elected": _elected,
    "leadership": _elected,
    "isr-removed": _isr_removed,
    "partition-new": _elected,
    "partition-change": _partition_change,
    "elected-unclean": _unclean_zookeeper,
    "marked-recovering": _marked_recovering,
    "isr-shrink": _isr_event,
    "isr-expand": _isr_event,
    "isr-update": _isr_event,
    **dict.fromkeys(LOG_ENDS, _log_end),
    "truncate-copy": _truncate_copy,
    "out-of-range": _out_of_range,
    "fetch-refused": _fetch_refused,
    "log-start": _log_start,
    "retention": _log_start,
    "cleaned": _cleaned,
    "topic-config": add_logged_settings,
    "controller": _active_controller,
    "disk-failed": _disk_failed,
    "fetched-corrupt": _fetched_corrupt,
    "boot": _boot,
    "configured": _boot,
    "clean-start": _clean_start,
    **dict.fromkeys(("unclean-start", "recovering"), _unclean_start),
    **dict.fromkeys(SEEN, _seen),
    "version": _version,
}


def _name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"
