"""All values of cleanup.policy that a topic had during the run; run.json has one of them."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from ...histories.evidence.clock import SLACK_MS
from ...histories.settings import Settings
from ...histories.tables import MAX_INT64
from ..timelines.facts import MS
from .common import Frames, evidence_in
from .observations import Observations

POLICY, COMPACT = "cleanup.policy", "compact"
# A broker's line has all settings that differ from the defaults, such as `cleanup.policy -> compact,delete`.
_LOGGED = re.compile(rf"{POLICY} -> ((?:compact|delete)(?:, ?(?:compact|delete))*)")


def with_recorded_policies(settings: Settings, topic: str, *sources: Frames) -> Settings:
    """The settings with all values of cleanup.policy that the topic had, if it was compacted for a while.

    Compaction removes records at any time at which the policy permits it, and the records are gone for good. `sources`
    have the tables metadata, log_events and checkpoints.
    """
    recorded = {value for source in sources for value in _recorded_policies(source, topic)}
    if not any(COMPACT in value for value in recorded):
        return settings
    known = str(settings.topic(topic).get(POLICY, ""))
    policies = sorted({one.strip() for value in (known, *recorded) for one in value.split(",")} - {""})
    topics = {**settings.config.get("topics", {}), topic: {**settings.topic(topic), POLICY: ",".join(policies)}}
    return replace(settings, config={**settings.config, "topics": topics})


def _recorded_policies(source: Frames, topic: str) -> list[str]:
    """The values of cleanup.policy that the brokers' files record; compact if the cleaner ran on a log."""
    values = evidence_in(source, "metadata").filter(kind="config", topic=topic, key=POLICY)["value"].to_list()
    lines = evidence_in(source, "log_events").filter(pl.col("kind").is_in(["topic-config", "cleaned"]), topic=topic)
    for kind, fields in lines.select("kind", "fields").rows():
        values += [COMPACT] if kind == "cleaned" else _LOGGED.findall(fields)[:1]
    if len(evidence_in(source, "checkpoints").filter(name="cleaned")):
        values.append(COMPACT)
    return [value.lower() for value in values if value is not None]


def compacted_until(p: Observations) -> int:
    """The time (ns) at which compaction of the topic ended, as its cleanup.policy was changed; MAX_INT64: it did not.

    A record that no later one of its key had replaced by then is gone for another reason.
    """
    changes = [one for one in p.timeline.settings if one.name == POLICY] if p.timeline is not None else []
    last = changes[-1] if changes else None
    # If the setting was removed, the brokers' default counts, which no source records.
    if last is None or not last.value or COMPACT in last.value or last.fact.time is None:
        return MAX_INT64
    return last.fact.time + SLACK_MS * MS
