"""Where lost records can be copied from."""

from __future__ import annotations

from collections import Counter

from ...analysis.incidents.incident import Incident
from ...analysis.wording import plural, some

VALUES = "logjudge values DIR prints the values that their producers sent"


def rescue_of(incident: Incident) -> str:
    """A sentence without its full stop on where the lost records of an incident are; empty without any."""
    if not incident.lost:
        return ""
    found: Counter[str] = Counter()
    for lost in incident.lost:
        found.update(dict(lost.copies))
    if not found:
        return f"no collected log has a copy of the lost records; {VALUES}"
    logs = [f"{log} ({plural(count, 'record')})" for log, count in found.most_common()]
    return f"copies of lost records are in {some(logs)}; {VALUES}"
