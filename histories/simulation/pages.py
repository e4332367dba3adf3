"""A scenario's page, generated from its file and its run: what happens, the outcome, and the command."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

from ...models.exploration.group_truth import group_truth
from ...models.exploration.invariants import INVARIANTS
from ...models.exploration.message_trace import markdown_parts, trace_messages
from ...models.exploration.narrative import narrate_scenario
from ...models.exploration.truth import losses
from ...models.replication.cluster import Cluster
from ...models.replication.config import SECOND
from ...models.replication.scenario import Scenario
from ..references import markdown_link, with_links
from .outcome import Outcome, outcome
from .scenario_file import dump
from .scenarios import names
from .truth_file import handled_again, read_before_loss, truth

GENERATED = "<!-- Written by `logjudge scenarios pages`; change the scenario file instead. -->"


def page(scenario: Scenario, arguments: str = "") -> str:
    """The page in Markdown, always the same for a scenario. `arguments`: of `scenarios run`, if not just its name."""
    narrative, cluster = narrate_scenario(scenario)
    parts = [
        GENERATED,
        f"# {scenario.title or scenario.name}",
        *([scenario.story if arguments else _with_scenario_links(scenario)] if scenario.story else []),
        f"![{scenario.picture} of {scenario.name}]({scenario.name}.svg)",
        f"    logjudge scenarios run {arguments or scenario.name}\n"
        f"    logjudge plot {scenario.name}-judged {scenario.picture}",
        "## Outcome",
        _outcome(cluster, scenario, outcome(cluster, scenario)),
        "## Sequence of events",
        "Times are simulated. `broker 1` and so on are the brokers of the bundle.",
        "\n".join(narrative),
        *_messages(scenario),
        "## The scenario",
        "\n".join(f"    {line}".rstrip() for line in dump(_bare(scenario)).splitlines()),
        with_links(
            (f"Source: {scenario.source}. " if scenario.source else "")
            + f"The protocol is the variant `{scenario.variant}`: {cluster.rules.summary} ({cluster.rules.source}).",
            markdown_link,
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _with_scenario_links(scenario: Scenario) -> str:
    """The story, with links to the scenarios that it names. A name without a hyphen gets none: it may be a word."""
    named = (name for name in names() if name != scenario.name and "-" in name)
    others = "|".join(sorted(named, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])({others})(?![\w-])", r"[\1](\1.md)", scenario.story)


def _messages(scenario: Scenario) -> list[str]:
    """The section with the messages between the times of `trace`, if the scenario has them."""
    if scenario.trace is None:
        return []
    return ["## Message by message", *markdown_parts(trace_messages(scenario, 0, *scenario.trace))]


def digest(text: str) -> str:
    """A hash of a page, stored in its picture, by which a test detects a page and a picture of different runs."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bare(scenario: Scenario) -> Scenario:
    """The scenario without the parts that the page shows elsewhere."""
    return replace(
        scenario, title="", story="", source="", theme="", picture="swimlane", breaks=(), causes=(), trace=None
    )


def _outcome(cluster: Cluster, scenario: Scenario, result: Outcome) -> str:
    known = truth(cluster, scenario, {})
    latency, lost = known["ack_latency_ms"], str(known["lost_acked_count"])
    if known["lost_acked_count"]:
        lost += f", {read_before_loss(known)}"
    repeats = (str(sum(one["count"] for one in known[name])) for name in ("duplicates", "reordered"))
    rows = [
        ("records acknowledged", str(known["acknowledged"])),
        *_availability(known),
        ("acknowledged records that are lost", lost),
        ("cause", _causes(cluster) or "nothing was lost"),
        ("elections, unclean elections", f"{known['elections']}, {known['unclean_elections']}"),
        ("ISR shrinks", str(known["isr_shrinks"])),
        ("duplicates, reordered records", ", ".join(repeats)),
    ]
    if known["handled"]:
        rows.append(("records handled again", str(handled_again(known))))
    if group := group_truth(cluster):
        rows += [
            ("generations of the group", str(group["generations"])),
            ("longest time of a partition without an owner", f"{group['longest_without_owner'] / SECOND:.1f} s"),
        ]
        if "behind" in group:
            rows.append(("records that the group is behind at the end", str(group["behind"])))
    if transactions := known.get("transactions"):
        ends = ", ".join(str(transactions[name]) for name in ("committed", "aborted", "undecided"))
        rows += [
            ("transactions committed, aborted, open", ends),
            ("transactions timed out, fenced", f"{transactions['timed_out']}, {transactions['fenced']}"),
        ]
    if processing := known.get("processing"):
        rows += [
            ("records below the group's committed offsets", str(processing["handled"])),
            ("records with one committed copy", str(processing["copied"] - processing["copied_twice"])),
            ("records with more than one", str(processing["copied_twice"])),
        ]
    if latency:
        times = ", ".join(f"{latency[name]:.1f} ms" for name in ("median", "p99", "max"))
        rows.append(("acknowledgement latency (median, 99 %, longest)", times))
    table = ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)]
    broken = [f"**{name}** ({INVARIANTS[name].text}) is broken: {text}." for name, text in result.breaks.items()]
    return "\n\n".join(["\n".join(table), *(broken or ["Every invariant holds."])])


def _availability(known: dict[str, Any]) -> list[tuple[str, str]]:
    if known["not_acknowledged"] is None:
        return []
    return [
        ("records refused or given up", str(known["not_acknowledged"])),
        ("longest time without an acknowledgement", f"{known['longest_silence_ms'] / 1000:.1f} s"),
    ]


def _causes(cluster: Cluster) -> str:
    """The causes of the losses, or a description where a cause has no name."""
    found = [one.loss for one in losses(cluster)]
    named = (loss.cause if loss.cause != "unknown" else f"unknown: {loss.detail}" for loss in found)
    return ", ".join(dict.fromkeys(named))
