"""The headline of a run: what was lost, what was broken, and no more than was judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from figure_cases import judged
from logjudge.plots.report import headline
from notation import parse


@pytest.mark.parametrize(
    ("lost", "read", "expected"),
    [
        (1, 0, "1 acknowledged write of 9 was lost. No recorded consumer had read it."),
        (1, 1, "1 acknowledged write of 9 was lost. A consumer had already read it."),
        (3, 0, "3 acknowledged writes of 9 were lost. No recorded consumer had read them."),
        (3, 1, "3 acknowledged writes of 9 were lost. Consumers had already read 1 of them."),
        (3, 3, "3 acknowledged writes of 9 were lost. Consumers had already read all of them."),
    ],
)
def test_the_headline_counts_what_was_lost(lost: int, read: int, expected: str) -> None:
    impact = {"lost": lost, "lost_read": read, "acknowledged": 9}
    assert headline({"counts": {"operations": 9}}, impact) == expected


@pytest.mark.parametrize(
    ("lost", "read", "expected"),
    [
        (3, 0, "No recorded consumer had read them; 30 lines of the evidence are missing."),
        (3, 1, "Consumers had already read at least 1 of them; 30 lines of the evidence are missing."),
        (3, 3, "Consumers had already read all of them."),
    ],
)
def test_the_headline_counts_missing_lines(lost: int, read: int, expected: str) -> None:
    impact = {"lost": lost, "lost_read": read, "acknowledged": 9}
    assert headline({"counts": {"operations": 9, "quarantined": 30}}, impact).endswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "p:a@0 p:b@? p:e@? end=1 final:<a@0",
            "2 acknowledged writes of 3 were never read, although the final reads reached the end.",
        ),
        (
            "p:a@0 p:b@? c:<a@0 c:<a@0 end=1 final:<a@0",
            "1 acknowledged write of 2 was never read, although the final reads reached the end. Guarantees were"
            " broken, too: nonmonotonic-poll (1 record).",
        ),
        (
            "p:a@0 c:<a@0 c:<a@0 end=1 final:<a@0",
            "No acknowledged write was lost, but guarantees were broken: nonmonotonic-poll (1 record).",
        ),
        (
            "p:a~ p:b~ end=1 final:<a@0",
            "No breach: every guarantee that this run can show was kept. No send was acknowledged, so loss was not"
            " judged.",
        ),
    ],
)
def test_the_headline_claims_only_what_was_judged(text: str, expected: str, tmp_path: Path) -> None:
    run = judged(parse(text).write(tmp_path))
    assert headline(run.verdict, run.figures["impact"]) == expected
