"""One order of findings, whether they are objects or rows."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.finding_order import SEVERITIES, worst_first, worst_rows_first
from logjudge.analysis.results import to_frame
from logjudge.analysis.rules import RULES
from logjudge.histories.tables import Finding

FINDINGS = st.builds(
    Finding,
    st.sampled_from(list(RULES)),
    st.just(""),
    severity=st.sampled_from(SEVERITIES),
    count=st.integers(1, 3),
    related=st.sampled_from([[], ["lost-write/t-0/0"]]),
)


@given(st.lists(FINDINGS, max_size=30))
def test_rows_and_findings_have_one_order(findings: list[Finding]) -> None:
    numbered = [replace(one, id=str(number)) for number, one in enumerate(findings)]
    assert worst_rows_first(to_frame(numbered))["id"].to_list() == [one.id for one in worst_first(numbered)]


def test_consequences_of_a_loss_come_after_other_findings() -> None:
    loss = "lost-write/t-0/0"
    ordered = [
        Finding("lost-write", "", count=1, related=["duplicate/t-0/0"]),
        Finding("poll-skip", "", count=5),
        Finding("poll-skip", "", count=2),
        Finding("inconsistent-offsets", "", count=9, related=[loss]),
        Finding("lost-write", "", severity="permitted", count=9),
        Finding("duplicate", "", severity="note", count=9),
    ]
    assert worst_first(reversed(ordered)) == ordered
