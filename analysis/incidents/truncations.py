"""Explains truncations and unclean elections of a partition without recorded clients and acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from ...histories.tables import MAX_INT64, Finding
from ...models.internal_topics import is_internal
from ..causes import explain_loss
from ..causes.cases import UNKNOWN, Lost, LostRange, OffsetRange
from ..causes.prevention import no_unclean_election
from ..causes.unclean_election import CITATION
from ..partitions.partition import Partition
from ..rules.committed_loss import committed_absent
from ..timelines.changes import LogEnd
from ..timelines.facts import MS, OUT_OF_RANGE, SECOND, dated, ordered
from ..timelines.removals import high_watermark_before, removals, replaced_by_older
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import brokers, span, utc_text
from .incident import Explained

ELECTIONS = ("elected", "elected-unclean")  # kinds of facts from controllers


def is_election(explained: Explained) -> bool:
    """Whether an unclean election with an unknown truncation is explained."""
    return bool(explained.chain) and all(fact.kind in ELECTIONS for fact in explained.chain)


def explain_truncations(p: Partition, findings: Iterable[Finding] = ()) -> list[Explained]:
    """An explanation for each range of offsets that was truncated, if the partition has no sends.

    It explains the findings of committed-absent in that range. Also one for each leader that began below the start of
    an earlier epoch, with a new log, or with a log that it had cut, if no truncation shows that, and for each unclean
    election if no collected log can show what it truncated.

    An unknown cause is not reported if clients are recorded, so that the rules judge the truncation, or if the topic is
    Kafka's own, where every clean election truncates unacknowledged tails.
    """
    if p.timeline is None or len(p.sends):
        return []
    explained = [*_explain_cuts(p.timeline)]
    explained += _explain_falls(p.timeline, ranges_of(explained))
    explained += _explain_new_logs(p.timeline, ranges_of(explained))
    explained += _explain_cut_logs(p.timeline, ranges_of(explained))
    epochs = {fact.epoch for one in explained for fact in one.chain if fact.epoch is not None}
    explained += _unclean_elections(p.timeline, epochs)
    explained = _with_findings(explained, [one for one in findings if one.rule == committed_absent.name])
    is_judged = is_internal(p.topic) or p.context.height > 0
    return [one for one in explained if one.is_known or one.findings] if is_judged else explained


def _with_findings(explained: list[Explained], findings: list[Finding]) -> list[Explained]:
    """The explanations, each with the findings on committed records in its range; the first one that has a finding."""
    of_range: dict[int, list[Finding]] = {}
    for finding in findings:
        lost = LostRange.of(finding)
        ranges = enumerate(one.truncated for one in explained)
        number = next(number for number, truncated in ranges if truncated is not None and truncated.overlaps(lost))
        of_range.setdefault(number, []).append(finding)
    return [
        replace(one, findings=tuple(finding.id for finding in own), sentence=own[0].sentence, event="")
        if (own := of_range.get(number))
        else one
        for number, one in enumerate(explained)
    ]


def ranges_of(explained: Iterable[Explained]) -> list[OffsetRange]:
    """The ranges that these truncations removed, where they are known."""
    return [one.truncated for one in explained if one.truncated is not None]


def _explain_cuts(timeline: Timeline) -> Iterator[Explained]:
    # The longest first, as an incident of several is named by its first.
    for first, end, alike, _ in removals(timeline):
        written = _written(timeline, first, end - 1, alike[0])
        epoch = replaced_by_older(timeline, alike[0], end).get(first)
        lost = _lost_records(timeline, first, end, written, epoch)
        who = brokers(sorted({cut.broker for cut in alike}))
        event = f"{who} truncated {span(first, end - 1)} of {lost.name}"
        explained = _explain(timeline, lost, event, _reason_of_truncation(timeline, alike[0]))
        explained = replace(explained, cuts=tuple(cut.fact for cut in alike))
        if explained.is_known:  # its facts date it
            marks = [mark for cut in alike if (mark := high_watermark_before(timeline, cut)) and mark.offset > first]
            yield replace(explained, chain=tuple(ordered([*explained.chain, *(mark.fact for mark in marks)])))
        else:
            yield replace(explained, sentence=explained.sentence + _at(timeline, alike[0]))


def _at(timeline: Timeline, cut: LogEnd) -> str:
    """A clause with the time of a truncation; empty if it is not known."""
    if timeline.started is None or cut.time is None:
        return ""
    return f"; truncated at {utc_text(timeline.started + cut.time // MS)}"


def _explain_falls(timeline: Timeline, truncated: list[OffsetRange]) -> Iterator[Explained]:
    """An explanation for each term that began below the start of an earlier one, as after the loss of a disk.

    The log of the earlier leader ended at that start. None where the ranges of truncations overlap.
    """
    if timeline.was_deleted:
        return
    known = [t for t in timeline.terms.values() if t.leader and t.start is not None]
    for before, term in pairwise(t for t in known if not t.has_conflict):
        first, end = term.start or 0, before.start or 0
        lost = _lost_records(timeline, first, end, before.time)
        if first >= end or any(lost.overlaps(one) for one in truncated):
            continue
        event = f"broker {term.leader} began to lead {lost.name} in epoch {term.epoch} from offset {first}"
        yield _explain(timeline, lost, f"{event}, below offset {end}, where epoch {before.epoch} had begun")


class _NewLog(NamedTuple):
    """A leader that found no log of the partition when it started, and led again."""

    found: LogEnd  # the line by which it created a log
    before: Term  # that it had led with the lost log
    after: Term
    end: int  # a log end that a broker reported before it led again

    @property
    def event(self) -> str:
        """A clause on it."""
        return f"broker {self.found.broker}, which had led epoch {self.before.epoch}, found no log when it started"


def _new_logs(timeline: Timeline) -> Iterator[_NewLog]:
    """The leaders that found no log when they started, though the partition had records, and led next from offset 0."""
    led = timeline.dated_terms
    created = [end for end in dated(timeline.ends) if end.is_new]
    for found in created if not timeline.was_deleted else ():
        before, after = dated(led, until=found.when - 1)[-1:], dated(led, found.when - 1)[:1]
        if not before or not after:
            continue
        known = [end.end for end in dated(timeline.ends, until=after[0].when - 1)]
        is_own = all(term.leader == found.broker and not term.has_conflict for term in (*before, *after))
        # It also creates its first log, soon after it was elected.
        has_restarted = bool(timeline.starts_of(found.broker, before[0].when, found.when))
        if has_restarted and is_own and after[0].start == 0 and max(known, default=0) > 0:
            yield _NewLog(found, before[0], after[0], max(known))


def _explain_new_logs(timeline: Timeline, truncated: list[OffsetRange]) -> Iterator[Explained]:
    """An explanation for each leader that found no log when it started, unless the range of a truncation overlaps."""
    for new in _new_logs(timeline):
        lost = _lost_records(timeline, 0, new.end, new.before.time)
        if not any(lost.overlaps(one) for one in truncated):
            event = f"{new.event}, and led {lost.name} from offset 0 in epoch {new.after.epoch}"
            yield _explain(timeline, lost, event, f"; it had records up to offset {new.end - 1} or later")


def _explain_cut_logs(timeline: Timeline, truncated: list[OffsetRange]) -> Iterator[Explained]:
    """An explanation for each broker that found its log corrupt, cut it, and was the next leader, from there.

    How many records it cut is not known. None where the range of a truncation begins there.
    """
    name, begun = timeline.replica_logs.name, {one.first for one in truncated}
    for cut in dated(timeline.ends):
        after = dated(timeline.dated_terms, cut.when - 1)[:1] if cut.kind == "corruption" else []
        led = [term for term in after if (term.leader, term.start) == (cut.broker, cut.end) and not term.has_conflict]
        if led and cut.end not in begun:
            event = f"broker {cut.broker} found its log of {name} corrupt and truncated it to offset {cut.end}"
            sentence = f"{event}, and led from there in epoch {led[0].epoch}{_at(timeline, cut)}"
            missing = "which records it had cut (a copy of its log from before), and which of them were acknowledged"
            yield Explained(UNKNOWN, missing=(missing,), sentence=sentence, event=event)


def _explain(timeline: Timeline, lost: Lost, event: str, more: str = "") -> Explained:
    """The explanation of an event that removed records; `more` follows the event in its sentence."""
    sentence = f"{event}{more}; no acknowledgements are recorded"
    truncated = OffsetRange(lost.topic, lost.partition, lost.first, lost.last)
    return Explained(**vars(explain_loss(timeline, lost)), sentence=sentence, event=event, truncated=truncated)


def _lost_records(timeline: Timeline, first: int, end: int, written: int | None, epoch: int | None = None) -> Lost:
    """Truncated records as lost ones. Brokers write their own topics with acks=all.

    With acks=1 a leader acknowledges what it writes, so the producers' setting is enough; with acks=all it is not.
    """
    logs = timeline.replica_logs
    acks = frozenset({"all"} if is_internal(logs.topic) else timeline.acks if timeline.acks == {"1"} else ())
    return Lost(logs.topic, logs.partition, first, end - 1, end - first, acks, written=written, epoch=epoch)


def _written(timeline: Timeline, first: int, last: int, cut: LogEnd) -> int | None:
    """The time (ns) since when the truncated records were written: in their term, after the broker had created its log.

    None if the term is not known.
    """
    began = _term_of_records_began(timeline, first, last, cut)
    created = [end.when for end in timeline.dated_ends(cut.broker, "loaded", until=cut.when) if end.is_new]
    return None if began is None else max([began, *created])


def _term_of_records_began(timeline: Timeline, first: int, last: int, cut: LogEnd) -> int | None:
    """The time (ns) at which the term began that had written the last truncated records; None if it is not known.

    It began below the cut, or above it, if the broker led or followed in it before it loaded its log. For example, of
    epochs that began at offsets 0, 5 and 9, that of offset 5 wrote the offsets 7 and 8.
    """
    until = cut.when
    followed = timeline.dated_ends(cut.broker, "followed", until=until)
    loaded = max((end.when for end in timeline.dated_ends(cut.broker, "loaded", until=until)), default=0)
    own = {term.epoch for term in dated(timeline.led_terms, until=loaded - 1) if term.leader == cut.broker}
    own |= {end.fact.epoch for end in dated(followed, until=loaded - 1) if end.fact.epoch is not None}
    # It had them all when it began to follow these. An epoch in which it was before may have written them, too.
    later = [(end.fact.epoch, end.when) for end in followed if end.end > last and end.fact.epoch is not None]
    first_seen = {epoch: when for when, epoch in _times_in_epochs(timeline, cut.broker)[::-1]}
    before = min((epoch for epoch, when in later if first_seen[epoch] == when), default=MAX_INT64)
    begun = [(term.start, term) for term in timeline.terms.values() if term.start is not None and term.epoch < before]
    wrote = [term for start, term in begun if start < first or (start <= last and term.epoch in own)]
    if not wrote:
        return _last_led_since(timeline, cut.broker, loaded, until)
    return wrote[-1].time if (wrote[-1].time or 0) <= until else None


def _times_in_epochs(timeline: Timeline, broker: str) -> list[tuple[int, int]]:
    """The times (ns) at which a broker began to lead or to follow, with the epochs."""
    followed = [(end.when, end.fact.epoch) for end in timeline.dated_ends(broker, "followed")]
    led = [(term.when, term.epoch) for term in timeline.dated_terms if term.leader == broker]
    return sorted((when, epoch) for when, epoch in [*followed, *led] if epoch is not None)


def _last_led_since(timeline: Timeline, broker: str, loaded: int, until: int) -> int | None:
    """The time (ns) at which the last term began that a broker led before it loaded its log; None if it is not certain
    that the broker had the truncated records then, or appended them as the leader.

    It followed no leader since, and an unclean election came next: a clean one also removes tails that were never
    committed.
    """
    terms = timeline.dated_terms
    led = [t.when for t in dated(terms, until=loaded - 1) if t.leader == broker and not t.has_conflict]
    starts = timeline.starts_of(broker, until=until)
    ran_until = starts[-1].alive_until if starts else 0
    if not led or ran_until is None:  # its server.log begins with that start
        return None
    followed = timeline.dated_ends(broker, "followed", "truncated", since=led[-1], until=loaded - 1)
    others = [term for term in dated(terms, led[-1], ran_until) if term.leader != broker]
    next_led = min(dated(terms, led[-1]), key=lambda term: term.when, default=None)
    is_certain = not followed and not others and next_led is not None and next_led.elected_uncleanly
    return led[-1] if is_certain else None


def _unclean_elections(timeline: Timeline, explained: set[int]) -> Iterator[Explained]:
    """An explanation for each unclean election, if no file of an electable broker shows the records that it removed."""
    logs = timeline.replica_logs
    collected = {*logs.extents["broker"]}
    for term in timeline.terms.values():
        electable = term.electable or frozenset()
        elected = [fact for fact in term.facts if fact.kind in ELECTIONS][:1]
        is_shown = any(_shows_removal(timeline, broker, term) for broker in electable & collected)
        if not term.elected_uncleanly or term.epoch in explained or is_shown or not elected:
            continue
        missing = "server.log or an earlier copy of the log" if electable & collected else "log"
        in_sync = " or ".join(f"broker {name}" for name in sorted(electable)) or "a broker"
        event = f"broker {term.leader}, which was not in sync, was elected leader of {logs.name} in epoch {term.epoch}"
        text = f"{event}; the {missing} of {in_sync}, which was in sync, would show which records it lacked"
        prevented_by = tuple(no_unclean_election(timeline, term.time))
        yield Explained("unclean-election", tuple(elected), prevented_by, CITATION, sentence=text, event=event)


def _shows_removal(timeline: Timeline, broker: str, term: Term) -> bool:
    """Whether the files of an electable broker show what an unclean election removed, if it removed anything.

    Its server.log has what it truncated after the election, unless it had lost its log, as with a new disk. Without
    that, a copy of its log from before it fetched from the new leader has the records.
    """
    since = term.time or 0
    has_new_log = any(end.is_new for end in timeline.dated_ends(broker, "loaded", since=since - 1))
    if not has_new_log and timeline.dated_ends(broker, "followed", "truncated", since=since - 1):
        return True
    logs = timeline.replica_logs
    # A new log at the end has what it fetched from the new leader.
    was_before = pl.lit(True) if not has_new_log else pl.col("snapshot") != logs.last
    batches = logs.batches.filter(was_before, broker=broker)
    newest = batches.group_by("snapshot").agg(pl.col("leader_epoch").max(), pl.col("last_offset").max())
    old = newest.filter(pl.col("leader_epoch").fill_null(-1) < term.epoch)
    return logs.last in old["snapshot"] or bool((old["last_offset"] >= (term.start or 0)).any())


def _reason_of_truncation(timeline: Timeline, cut: LogEnd) -> str:
    """A clause with the leader to whose shorter log a follower truncated, if its log line records that."""
    for fact in timeline.refused_fetches:
        if fact.kind != OUT_OF_RANGE or (fact.broker, fact.offset) != (cut.broker, cut.end) or not fact.brokers:
            continue
        if cut.time is not None and fact.time is not None and abs(fact.time - cut.time) <= SECOND:
            return f", because the log of its leader, broker {min(fact.brokers)}, ended at offset {cut.end}"
    for new in _new_logs(timeline):
        if cut.end == 0 and new.found.broker != cut.broker and (cut.time or 0) >= (new.after.time or 0):
            return f", because {new.event}, and led from offset 0: what only that log had is gone, too"
    return ""
