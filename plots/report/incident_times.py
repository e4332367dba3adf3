"""When an incident happened, in words."""

from __future__ import annotations

from ...analysis.incidents.incident import Incident
from ..time_axis import clock

DECISIVE = ("elected-unclean", "truncated")  # kinds of facts that date an incident without lost acknowledged records


def when_of(incident: Incident, started_at: str | None) -> str:
    """The time of an incident, to the second in UTC, or in seconds if the start of the run is not known; "" if undated.

    It lasts from the first acknowledgement of a lost record, or else the first decisive fact, to its last fact.
    """
    dated = [fact.time for fact in incident.chain if fact.time is not None]
    decisive = [fact.time for fact in incident.chain if fact.time is not None and fact.kind in DECISIVE]
    times = [lost.first_acked for lost in incident.lost if lost.first_acked is not None] or decisive or dated
    if not times:
        return ""
    first, last = min(times), max([min(times), *dated])
    begin, end = (clock(started_at, time)[:-5] for time in (first, last))  # without milliseconds
    if not begin:
        return f"{first / 1e9:.1f} to {last / 1e9:.1f} s" if last > first else f"{first / 1e9:.1f} s"
    if begin == end:
        return f"{begin} UTC"
    return f"{begin} to {end[11:] if begin[:10] == end[:10] else end} UTC"
