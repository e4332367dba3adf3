"""What saved results tell of a partition or an offset, for `logjudge explain DIR`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..analysis.wording import some, span
from ..histories.errors import UsageError
from ..plots.report.saved import Saved
from .looking import MAX_NAMES, Where

if TYPE_CHECKING:
    from ..histories.tables import Finding

Record = dict[str, Any]


def refuse_unknown(saved: Saved, asked: Where | None) -> None:
    """Raises UsageError where the results know nothing of the partition."""
    known = known_partitions(saved)
    # Of a run with many partitions the results name some.
    if asked is None or asked.partition in known or len(known) < saved.verdict["counts"].get("partitions", 0):
        return
    expected = some(sorted(known), MAX_NAMES) or "none"
    raise UsageError(f"found {asked.partition}, of which the results know nothing, expected one of {expected}")


def known_partitions(saved: Saved) -> set[str]:
    here = saved.findings.filter(saved.findings["topic"].is_not_null()).select("topic", "partition").unique()
    named = {f"{topic}-{partition}" for topic, partition in here.iter_rows()}
    return named | {name for part in saved.figures["partitions"] for name in (part["name"], *_names_of(part))}


def _names_of(row: Record) -> tuple[str, ...]:
    """The partition's name, and that of its topic's generation, where there are several."""
    name = f"{row['topic']}-{row['partition']}"
    generation = row.get("topic_generation")
    return (name, f"{name}#{generation}") if isinstance(generation, int) else (name,)


def findings_at(saved: Saved, asked: Where | None) -> list[Finding]:
    """The findings of the run, of a partition, or that cover an offset."""
    from ..analysis.inspect.offset_story import within
    from ..histories.tables import Evidence, Finding

    found = [
        Finding(**{**row, "evidence": [Evidence(**one) for one in row["evidence"] or ()]})
        for row in saved.findings.iter_rows(named=True)
        if asked is None or asked.partition in _names_of(row)
    ]
    if asked is None or asked.offset is None:
        return found
    return [one for one in found if within(asked.offset, one)]


def causes_at(saved: Saved, asked: Where | None) -> list[Record]:
    """The same of causes."""
    causes: list[Record] = saved.verdict.get("causes", [])
    if asked is None:
        return causes
    found = {one.id for one in findings_at(saved, asked)}
    return [cause for cause in causes if _concerns(cause, asked, found)]


def _concerns(cause: Record, asked: Where, found: set[str]) -> bool:
    from ..analysis.inspect.offset_story import covers

    if "#" in asked.partition:  # one generation of a topic, which the ids of its findings name
        return not found.isdisjoint(cause["findings"])
    if asked.offset is not None:
        return covers(cause, asked.partition, asked.offset, found)
    lost = cause.get("lost")
    if lost is not None:
        return f"{lost['topic']}-{lost['partition']}" == asked.partition
    return not found.isdisjoint(cause["findings"])


def explained_beside(saved: Saved, asked: Where | None) -> str:
    """Of an offset without a cause: which losses of its partition have one."""
    if asked is None or asked.offset is None:
        return ""
    lost = [cause["lost"] for cause in causes_at(saved, Where(asked.partition, None)) if cause.get("lost")]
    spans = dict.fromkeys(span(one["first"], one["last"]) for one in lost)
    return f" (of {asked.partition} {some(list(spans))} are explained)" if spans else ""
