"""The index of the scenarios' pages: every scenario by title, and what an unclean election costs and saves."""

from __future__ import annotations

from .pages import GENERATED
from .request import with_overrides
from .scenarios import by_theme, load
from .truth_file import read_before_loss, truth

_SCENARIO = "min-insync-1"
_UNCLEAN, _LEAST = "unclean.leader.election.enable", "min.insync.replicas"
_TRADE_OFF = f"""\
## Unclean elections: availability against loss

If all in-sync replicas of a partition are dead, and another replica lives, Kafka has two choices. It waits for an
in-sync replica: until then the partition takes no writes and serves no reads, but nothing is lost. Or it elects the
other replica, uncleanly: the partition is back earlier, but without the records that this replica had not fetched, even
if they were acknowledged with acks=all and read. `{_UNCLEAN}` decides; it is off by default
since Kafka 0.11 (KIP-106). `{_LEAST}` decides how many replicas must be in sync before a leader takes
writes with acks=all: with 2, producers are refused while only one is, so that no acknowledged record has only one copy.

These runs have the same load and the same faults: both followers crash for 20 s, the leader crashes for 20 s while they
are away, and they come back first. `logjudge scenarios run {_SCENARIO} OPTIONS` runs each ([its page]({_SCENARIO}.md)).
"""
_ADVICE = """\
Accept the loss only where a later record replaces an earlier one, or where the source can send again (metrics, caches).
For all other topics leave unclean elections off and set min.insync.replicas=2 with three replicas. `logjudge check`
names the unclean election that caused a loss. [causes.md](../causes.md#unclean-election) lists what proves it, and
[examples/unclean-election](../../examples/unclean-election) is a real run of Kafka 4.1.1."""


def index_page() -> str:
    """Markdown; the same scenarios give the same text."""
    listed = [
        "\n".join([f"## {theme}\n", *(f"- [{one.name}]({one.name}.md): {one.title}" for one in scenarios)])
        for theme, scenarios in by_theme().items()
    ]
    parts = [
        GENERATED,
        "# Scenarios",
        "Each page has a story, a picture, and the outcome of one simulated run. `logjudge scenarios run NAME` runs it,"
        "\nalso with another variant (`--variant`) or other settings (`--set`). [What unclean elections cost and save]"
        "(#unclean-elections-availability-against-loss) is at the end. The [glossary](../glossary.md) explains"
        " the terms.",
        *listed,
        _TRADE_OFF + "\n" + "\n".join(_trade_off()),
        _ADVICE,
    ]
    return "\n\n".join(parts) + "\n"


def _trade_off() -> list[str]:
    """A table of the scenario with unclean elections on and off, and with one and two replicas in sync."""
    head = "longest time without an acknowledgement", "acknowledged records lost", "OPTIONS"
    lines = [f"| `{_UNCLEAN}` | `{_LEAST}` | {' | '.join(head)} |", "|---|---|--:|--:|---|"]
    for least in (1, 2):
        for unclean in (True, False):
            settings = {_UNCLEAN: unclean, _LEAST: least}
            original = load(_SCENARIO)
            scenario = with_overrides(original, variant=None, seed=None, settings=settings)
            known = truth(scenario.run(), scenario, {})
            lost = known["lost_acked_count"]
            changed = [(name, value) for name, value in settings.items() if original.options[name] != value]
            options = " ".join(f"--set {name}={str(value).lower()}" for name, value in changed)
            cells = [
                str(unclean).lower(),
                str(least),
                f"{known['longest_silence_ms'] / 1000:.1f} s",
                f"{lost}; {read_before_loss(known)}" if lost else "0",
                f"`{options}`" if options else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines
