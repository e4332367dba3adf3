"""The end of `check --help`: examples, and the rules by group."""

from __future__ import annotations

import click

EXAMPLES = (
    ("logjudge check run/", "a run bundle, into logjudge-out/run"),
    ("logjudge check history.jsonl --engine local --open", "without Spark; opens the report"),
    ("zcat history.jsonl.gz | logjudge check -", "from standard input"),
    ("logjudge check run/ --state soak.state", "a growing run: judges what was appended since the last call"),
    ("logjudge check run/ --only lost-write --only unseen", "two rules"),
    ("logjudge check run/ --allow lost-write:acks=1", "accepts losses under acks=1"),
    ("logjudge check history.edn --model snapshot-isolation", "Elle's list-append or rw-register history"),
    ("logjudge check runs/* --format junit --out judged > junit.xml", "several runs, for CI"),
)


class CommandWithRules(click.Command):
    """A command whose help ends with examples and rules. It imports the rules only for the help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from ..analysis.rules import RULES

        width = max(len(command) for command, _ in EXAMPLES)
        groups: dict[str, list[str]] = {}
        for rule in RULES.values():
            groups.setdefault(f"{rule.group}:", []).append(rule.name)
        # \b keeps click from wrapping the lines.
        self.epilog = "\n".join(
            [
                *("\b", "Examples:"),
                *(f"  {command:{width}}  {about}" for command, about in EXAMPLES),
                *("", "\b", "Rules (`logjudge rules` explains them):"),
                *(f"  {group:13} {', '.join(names)}" for group, names in groups.items()),
            ]
        )
        super().format_epilog(ctx, formatter)
