"""The rules by subject, for `check --help`: importing the rules themselves would take a second."""

from __future__ import annotations

RULE_GROUPS = {
    "loss": ("lost-write", "unseen", "acknowledged-absent"),
    "order": (
        *("inconsistent-offsets", "duplicate", "nonmonotonic-send", "realtime-order"),
        "stale-end-offset",
    ),
    "consumers": (
        *("phantom-read", "nonmonotonic-poll", "poll-skip", "int-nonmonotonic-poll", "int-poll-skip"),
        *("consumer-loss", "commit-regression", "commit-beyond-end"),
    ),
    "transactions": ("aborted-read", "precommitted-read", "int-nonmonotonic-send", "int-send-skip"),
    "replicas": ("replica-divergence", "epoch-order", "checkpoint-order", "log-corruption"),
}
EXAMPLES = (
    ("logjudge check run/", "a run bundle, into logjudge-out/run"),
    ("logjudge check history.jsonl --engine local --open", "without Spark; opens the report"),
    ("zcat history.jsonl.gz | logjudge check -", "from standard input"),
    ("logjudge check run/ --only lost-write --only unseen", "two rules"),
    ("logjudge check run/ --allow lost-write:acks=1", "accepts losses under acks=1"),
    ("logjudge check runs/* --format junit --out judged > junit.xml", "several runs, for CI"),
)


def epilog() -> str:
    """Examples and rules for click's help, which \\b keeps unwrapped."""
    width = max(len(command) for command, _ in EXAMPLES)
    examples = [f"  {command:{width}}  {about}" for command, about in EXAMPLES]
    rules = [f"  {group + ':':13} {', '.join(names)}" for group, names in RULE_GROUPS.items()]
    return (
        "\b\nExamples:\n" + "\n".join(examples) + "\n\n\b\nRules (`logjudge rules` explains them):\n" + "\n".join(rules)
    )
