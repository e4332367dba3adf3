"""The findings and causes of saved results at a place, for `explain`."""

from __future__ import annotations

from typing import Any

from ..analysis.incidents.incident import Explained
from ..analysis.inspect.offset_history import covers
from ..analysis.wording import some, span
from ..histories.errors import UsageError, close_names
from ..histories.tables import Evidence, Finding
from ..plots.report.saved import Saved
from .inspection import MAX_NAMES, TO_LOOK_UP, Place

Record = dict[str, Any]


def check_partition_exists(saved: Saved, place: Place | None) -> None:
    """Raises UsageError if the results do not contain the partition."""
    known = known_partitions(saved)
    # Results of a run with many partitions name only some of them.
    if place is None or place.partition in known or len(known) < saved.verdict["counts"].get("partitions", 0):
        return
    expected = some(sorted(known), MAX_NAMES) or "none"
    close = sorted(close_names(place.partition, known)[:2])
    hint = f"did you mean {' or '.join(str(place._replace(partition=name)) for name in close)}? " if close else ""
    found = f"found {place.partition}, which is not in the results, expected one of {expected}"
    raise UsageError(f"{found}; {hint}{TO_LOOK_UP}")


def known_partitions(saved: Saved) -> set[str]:
    """The names of all partitions that the findings or the figures mention."""
    here = saved.findings.filter(saved.findings["topic"].is_not_null()).select("topic", "partition").unique()
    named = {f"{topic}-{partition}" for topic, partition in here.iter_rows()}
    return named | {name for part in saved.figures["partitions"] for name in (part["name"], *_names_of(part))}


def _names_of(row: Record) -> tuple[str, ...]:
    """The partition's name, and the name with the topic generation if there are several."""
    name = f"{row['topic']}-{row['partition']}"
    generation = row.get("topic_generation")
    return (name, f"{name}#{generation}") if isinstance(generation, int) else (name,)


def findings_at(saved: Saved, place: Place | None) -> list[Finding]:
    """The findings of the run, of a partition, or of an offset."""
    found = [
        Finding(**{**row, "evidence": [Evidence.of(one) for one in row["evidence"] or ()]})
        for row in saved.findings.iter_rows(named=True)
        if place is None or place.partition in _names_of(row)
    ]
    if place is None or place.offset is None:
        return found
    return [one for one in found if one.covers(place.offset)]


def causes_at(saved: Saved, place: Place | None) -> list[Explained]:
    """The causes of the run, of a partition, or of an offset."""
    causes = [Explained.from_record(record) for record in saved.verdict.get("causes", ())]
    if place is None:
        return causes
    found = {one.id for one in findings_at(saved, place)}
    return [cause for cause in causes if _concerns(cause, place, found)]


def _concerns(cause: Explained, place: Place, found: set[str]) -> bool:
    if "#" in place.partition:  # one generation of a topic, known from its findings' ids
        return not found.isdisjoint(cause.findings)
    if place.offset is not None:
        return covers(cause, place.partition, place.offset, found)
    if cause.lost is not None:
        return cause.lost.name == place.partition
    return not found.isdisjoint(cause.findings)


def explained_nearby(saved: Saved, place: Place | None) -> str:
    """For an offset without a cause: the losses of its partition that have one, in parentheses."""
    if place is None or place.offset is None:
        return ""
    lost = [cause.lost for cause in causes_at(saved, Place(place.partition, None))]
    known = [(one.first, one.last) for one in lost if one is not None]
    spans = dict.fromkeys(span(first, last) for first, last in known if first is not None and last is not None)
    return f" (the results explain {some(list(spans))} of {place.partition})" if spans else ""
