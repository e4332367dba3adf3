"""`logjudge rules`: lists the rules, explains one, or prints docs/rules.md."""

from __future__ import annotations

import textwrap

import click

from ..analysis.rules import RULES, Rule
from ..histories.errors import UsageError, did_you_mean
from .completing import completed

NOTATION = (
    "An example is one line: p:a@0 is p's send of a, acknowledged at offset 0 (a@? without offset, a! failed, a~"
    " undecided); p:(a@0,b@1) a committed transaction, with ! behind it an aborted one; c:<a@0,b@1 a poll by c;"
    " c:seek=3, c:commit=3; end=2 an answer to end_offsets; final is the final reader. Each stands after the one"
    " before it in time."
)


@click.command()
@click.argument("name", metavar="[RULE]", required=False, shell_complete=completed(lambda: RULES))
@click.option("--markdown", is_flag=True, help="Print docs/rules.md.")
def command(name: str | None, markdown: bool) -> None:
    """List the rules, or explain one with an example."""
    if markdown:
        click.echo(document(), nl=False)
    elif name is None:
        for rule in RULES.values():
            click.echo(f"{rule.name:22} {rule.summary}")
    elif name in RULES:
        rule = RULES[name]
        click.echo(f"{click.style(rule.name, bold=True)}: {rule.summary}")
        for heading, text in rule.parts:
            click.echo(
                "\n" + textwrap.fill(f"{heading}: {text}", 92).replace(heading, click.style(heading, bold=True), 1)
            )
        if rule.example:
            click.echo(f"\nBreaks it: {rule.example}\n")
            click.echo(textwrap.fill(NOTATION, 92))
    else:
        raise UsageError(f"found {name}, expected one of {', '.join(RULES)}{did_you_mean(name, RULES)}")


def document() -> str:
    """docs/rules.md, from the same texts."""
    head = (
        "# The rules\n\nWritten by `logjudge rules --markdown`; a test keeps both the same. Names follow Jepsen where"
        " it has the rule.\n\nA finding is a `violation`, `permitted` (the configuration allows it) or a `note`. A rule"
        " is `invalid` when it has a violation, `unknown` when its evidence is damaged, incomplete or ambiguous,"
        f" `not-judged` when the run carries nothing that it is about, else `valid`.\n\n{NOTATION}\n\n"
    )
    return head + "\n".join(_section(rule) for rule in RULES.values()) + _LINEARIZABILITY + _DIFFERENCES


def _section(rule: Rule) -> str:
    judged = "native histories and Jepsen's" if rule.jepsen else "native histories"
    return (
        f"## {rule.name}\n\n{rule.summary}.\n\n"
        + "".join(f"- **{heading}**: {text}\n" for heading, text in rule.parts)
        + (f"- **Example**: `{rule.example}`\n" if rule.example else "")
        + f"- **Judges** {judged if rule.example else 'what brokers kept'}\n"
    )


_LINEARIZABILITY = """
## Rules and linearizability

`logjudge linearize --model append-log` is the general judge of a topic-partition: is there an order of all appends,
reads and end offsets, each at a moment of its interval, in which every answer is right? The rules look for certain
breaches instead, and so scale to any length. On random small histories of one topic-partition the two agree as
follows (tests/agreement.py): a poll reads from its consumer's position and says that offsets which it passes over
hold nothing; final reads end at the log's end; offsets that nobody accounts for may be held by markers and records of
others.

- Implied by linearizability: `lost-write`, `unseen`, `inconsistent-offsets`, `duplicate`, `aborted-read`,
  `phantom-read`, `poll-skip`, `int-poll-skip`, `realtime-order`, `stale-end-offset`. A violation of any of them proves
  that the partition is not linearizable, and where it is not, one of them says so, but for what follows.
- Stronger than linearizability, since a log promises each client its own order: `nonmonotonic-poll` and
  `int-nonmonotonic-poll` (a consumer that goes back reads nothing wrong), `nonmonotonic-send` (sends that overlap may
  take effect in either order). `lost-write` is stronger where it rests on one consumer that read before and behind a
  value, though it went back or sought over it.
- Weaker than linearizability: an acknowledgement without offset has no place in the log, so it is held against no
  other offset or end (`unseen` alone counts it); a value that was never acknowledged, though read, may be gone from the
  end of the log; final reads that stop before an end offset are incomplete evidence (the run is `unknown`), not a
  loss; a poll without records says nothing, so that the final reads last until their last record, and what others
  read later is taken to be there.
- Weaker than a log with dense offsets, which `--model append-log` is: offsets that nobody accounts for are legal.
- About other things: `aborted-read` and `precommitted-read` of transactions, `int-nonmonotonic-send`, `int-send-skip`,
  `consumer-loss`, `commit-regression`, and all that is judged from what brokers kept.
"""

_DIFFERENCES = """
## Where verdicts differ from Jepsen's

- Transaction cycles (G0, G1c) are not judged yet, so a history whose only error is a cycle is not called invalid.
- An empty transaction graph is an error to Jepsen; here the rules without evidence are `not-judged`.
- Jepsen calls a value unseen that no operation sent (an undecided writer as last operation); here `unseen` holds
  acknowledged values only.
- Where Jepsen's checker throws (a value without writer, an index out of bounds) it reports nothing; here the other
  rules are judged.
- With several values at one offset Jepsen's index keeps one of them by the order of a hash; here the first that
  the history shows is kept, and the outcome of lost-write, skips and order there is as arbitrary.
- Consumers that subscribe may be moved by their group, so poll-skip and nonmonotonic-poll are `permitted` in a
  history with subscriptions (Jepsen decides by its option sub-via).
"""
