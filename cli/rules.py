"""`logjudge rules`: lists the rules, explains one, or prints docs/rules.md."""

from __future__ import annotations

import re
import textwrap

import click

from ..analysis.causes import catalogue
from ..analysis.rules import ALL_RULES, ANOMALIES, RULES, Rule
from ..histories.errors import UsageError, unknown_name
from .options import complete_names

NOTATION = (
    "An example is one line of operations in order of time. p:a@0 is p's send of a, acknowledged at offset 0 (a@?"
    " acknowledged without offset, a! failed, a~ indeterminate); p:(a@0,b@1) is a committed transaction, with ! after"
    " it an aborted one; c:<a@0,b@1 is a poll by c; c:seek=3 and c:commit=3 are calls by c; end=2 is a result of"
    " end_offsets; final is the final reader."
)


@click.command()
@click.argument("name", metavar="[RULE]", required=False, shell_complete=complete_names(lambda: ALL_RULES))
@click.option("--markdown", is_flag=True, help="Print docs/rules.md.")
def command(name: str | None, markdown: bool) -> None:
    """List the rules, or explain one with an example."""
    if markdown:
        click.echo(document(), nl=False)
    elif name is None:
        for rule in RULES.values():
            click.echo(f"{rule.name:22} {rule.summary}")
        click.echo("\nOf transactions on lists and registers (docs/transactions.md):")
        for rule in ANOMALIES.values():
            click.echo(f"{rule.name:26} {rule.summary}")
    elif name in ALL_RULES:
        rule = ALL_RULES[name]
        click.echo(f"{click.style(rule.name, bold=True)}: {rule.summary}")
        for heading, text in rule.texts:
            click.echo("\n" + _filled(f"{heading}: {text}").replace(heading, click.style(heading, bold=True), 1))
        click.echo(f"\nSource: {rule.source.title}\n  {rule.source.url}")
        if rule.example:
            click.echo(f"\nExample: {rule.example}\n")
            click.echo(textwrap.fill(NOTATION, 92))
    elif name in catalogue():
        raise UsageError(f"{name} is a cause, not a rule; `logjudge causes {name}` explains it")
    else:
        raise unknown_name("rule", name, ALL_RULES, "`logjudge rules`")


def _filled(text: str) -> str:
    """A text of paragraphs and items, each filled to lines of at most 92 letters."""
    lines = text.splitlines()
    return "\n".join(textwrap.fill(line, 92, subsequent_indent="  " * line.startswith("- ")) for line in lines)


def document() -> str:
    """docs/rules.md, from the same texts."""
    head = (
        "# The rules\n\nWritten by `logjudge rules --markdown`; a test keeps both equal. Names follow Jepsen for rules"
        " that it has.\n\nA finding is a `violation`, `permitted` (the configuration allows it) or a `note`. A rule"
        " is `invalid` when it has a violation, `unknown` when its evidence is damaged, incomplete or ambiguous,"
        f" `not-judged` when the run has no data that the rule is about, else `valid`.\n\n{NOTATION}\n\n"
    )
    return head + "\n".join(_section(rule) for rule in RULES.values()) + _LINEARIZABILITY + _DIFFERENCES


def _section(rule: Rule) -> str:
    judged = "native histories and Jepsen's" if "jepsen" in rule.judges else "native histories"
    return (
        f"## {rule.name}\n\n{rule.summary}.\n\n"
        + "".join(f"- **{heading}**: {_nested(text)}\n" for heading, text in rule.texts)
        + f"- **Source**: [{rule.source.title}]({rule.source.url})\n"
        + (f"- **Example**: `{rule.example}`\n" if rule.example else "")
        + f"- **Judges** {judged if rule.example else 'broker files'}\n"
    )


def _nested(text: str) -> str:
    """A text in Markdown within an item of a list: its own items are below that, a later paragraph has its own."""
    return re.sub(r"\n(?!- )", "\n\n  ", text).replace("\n- ", "\n  - ")


_LINEARIZABILITY = """
## Rules and linearizability

`logjudge linearize --model append-log` is the general judge of a topic-partition: is there an order of all appends,
reads and end offsets, each at a moment of its interval, in which every result is right? The rules search for certain
breaches instead, and so scale to any length. On random small histories of one topic-partition the two agree as
listed below (tests/agreement.py). There a poll reads from its consumer's position, and offsets that it skips
have no record; final reads end at the log end; unaccounted offsets may be markers and records of other clients.

- Implied by linearizability: `lost-write`, `unseen`, `inconsistent-offsets`, `duplicate`, `aborted-read`,
  `phantom-read`, `poll-skip`, `int-poll-skip`, `realtime-order`, `stale-end-offset`. A violation of any of them proves
  that the partition is not linearizable. Every partition that is not linearizable violates one of them, with the
  exceptions below.
- Stronger than linearizability, since a log guarantees each client its own order: `nonmonotonic-poll` and
  `int-nonmonotonic-poll` (a consumer that goes back reads correct records), `nonmonotonic-send` (overlapping sends may
  take effect in either order). `lost-write` is stronger if its only evidence is a consumer that read before and after
  the value, but went back or used seek to skip it.
- Weaker than linearizability: an acknowledgement without offset has no place in the log, so only `unseen` uses it; a
  value that was read but never acknowledged may be missing at the end of the log; final reads that stop before an end
  offset are incomplete evidence (the run is `unknown`), not a loss; a poll without records proves nothing, so the
  final reads last until their last record, and records that others read later are taken to be present.
- Weaker than a log with dense offsets, which `--model append-log` requires: unaccounted offsets are legal.
- Independent of linearizability: `aborted-read` and `precommitted-read` of transactions, `int-nonmonotonic-send`,
  `int-send-skip`, `consumer-loss`, `commit-regression`, and all rules that judge broker files.
"""

_DIFFERENCES = """
## Where verdicts differ from Jepsen's

- Cycles (G0, G1c) are Elle's. `--ww-deps` is Jepsen's option of this name. Of several cycles of equal length Elle and
  logjudge may show different ones, and where a step has two reasons the names of these may differ (2 of 553 cases).
- An empty transaction graph is an error to Jepsen; here the rules without evidence are `not-judged`.
- Jepsen calls a value unseen that no operation sent (its writer indeterminate); here `unseen`
  reports only acknowledged values.
- If Jepsen's checker throws (a value without writer, an index out of bounds), it reports nothing; here a value
  without writer is a phantom-read, and the other rules are judged.
- If lines of the history are left out, the rules that infer a breach from a missing operation (lost-write, unseen,
  phantom-read, poll-skip, nonmonotonic-poll) are unknown. Jepsen reads the history whole or not at all.
- A completion of `:send` with the value nil may have sent what its invocation has. To Jepsen it sent nothing. After
  one of `:txn`, phantom-read is unknown.
- An :assign with :seek-to-beginning? may return to records that were read. Jepsen's workload crashes the client
  before it, and its checker reports a nonmonotonic-poll without that.
- Where no send was acknowledged and no poll returned a record, the verdict is `unknown`.
- With several values at one offset Jepsen's index uses one of them by hash order; here the first in the history is
  used. Either way the results of lost-write, skips and order at this offset are arbitrary.
- A group may move its consumers, so poll-skip and nonmonotonic-poll are `permitted` in a history with subscriptions
  (Jepsen decides by its option sub-via).
"""
