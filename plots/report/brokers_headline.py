"""The headline and the impact of a run that has brokers' files, and no client history."""

from __future__ import annotations

from typing import Any

from ...analysis.causes.cases import offset_count
from ...analysis.incidents.incident import Explained
from ...analysis.incidents.truncations import is_election, ranges_of
from ...analysis.rules.committed_loss import committed_absent
from ...analysis.wording import plural, some


def broken_rules(verdict: dict[str, Any]) -> list[str]:
    """The rules that the run violates."""
    return [name for name, rule in verdict["rules"].items() if rule["verdict"] == "invalid"]


def headline_of_brokers(verdict: dict[str, Any]) -> str:
    """The headline of a run without a client history."""
    unknown = "Without a client history it is not known which records were acknowledged."
    if _committed_records(verdict):
        losses = [one["headline"] for one in verdict["incidents"] if committed_absent.name in _rules_of(one)]
        text = some(losses, separator="; ")
        return f"{text[:1].upper()}{text[1:]}. {unknown}"
    divergence = verdict["rules"].get("replica-divergence", {})
    if divergence.get("findings"):
        return f"Replicas hold different records at {plural(divergence['count'], 'offset')}. {unknown}"
    if broken := broken_rules(verdict):
        breaches = [one for one in verdict.get("incidents", ()) if one["severity"] == "violation"]
        is_known = broken == ["log-corruption"] and len(breaches) == 1
        what = f": {breaches[0]['headline']}" if is_known else ""
        return f"The brokers' files violate {', '.join(broken)}{what}. {unknown}"
    if not verdict["counts"].get("kept records") and not verdict["causes"]:
        return f"The brokers' logs were read, but no segments with records were given. {unknown}"
    judged = " of the rules that were judged" if verdict.get("skipped") else ""
    causes = [Explained.from_record(one) for one in verdict["causes"] if not one["findings"]]
    events = _losses_without_clients(causes)
    also = f", but {', and '.join(events)}" if events else ""
    return f"The brokers' files show no breach{judged}{also}. {unknown}"


def impact_without_clients(verdict: dict[str, Any]) -> str:
    """What is known of the impact without a client history."""
    if committed := _committed_records(verdict):
        known = f"At least {committed}. Which of them clients had acknowledged or read is not known"
        return f"{known}: no client history was given."
    return "Not known: no client history was given."


def _rules_of(incident: dict[str, Any]) -> list[str]:
    return [counts["rule"] for counts in incident["rules"]]


def _committed_records(verdict: dict[str, Any]) -> str:
    """The number of committed records that were lost, in words; empty if none is known."""
    counts = verdict["rules"].get(committed_absent.name, {})
    return plural(counts["count"], "committed record") if counts.get("findings") else ""


def _losses_without_clients(causes: list[Explained]) -> list[str]:
    """Clauses on what the brokers' files show to be gone, or may be."""
    removals = [one for one in causes if one.truncated is not None]
    # A truncation removed them, or a leader lacked them, as after the loss of its disk.
    count = offset_count(ranges_of(removals))
    was, more = "was" if count == 1 else "were", ", …" if len(removals) > 1 else ""
    examples = [f" ({one.event or one.sentence}{more})" for one in removals[:1]]
    removed = f"about {plural(count, 'record')} {was} removed in {plural(len(removals), 'place')}"
    # A producer that got no acknowledgement sends a record again, and it is at another offset.
    again = "its producer sent it" if count == 1 else "producers sent them"
    elected = sum(map(is_election, causes))
    cut = len(causes) - len(removals) - elected
    return [
        *(f"{removed}{example}, unless {again} again" for example in examples),
        *[f"{plural(elected, 'unclean election')} may have lost records"] * bool(elected),
        *[f"{plural(cut, 'leader')} with a log that was cut may have lost records"] * bool(cut),
    ]
