"""The term in which a lost record was written, of which no log shows the leader epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes.writing_term import writing_term

from .replica_texts import epochs, logs
from .timelines import SECOND, fault, lost, metadata, timeline

RESTARTED = (fault("kill", "1", 5), fault("restart", "1", 6))


@pytest.mark.parametrize(
    ("leader", "start", "faults", "acked_at", "epoch"),
    [
        (1, 1, (), 10, 1),  # the leader goes on at the lost record
        (1, 2, (), 10, 0),  # the new epoch begins above it
        (1, 1, (), 8, 0),  # the last record was acknowledged before
        (2, 1, (), 10, 0),  # another broker leads
        (1, 1, RESTARTED, 10, 0),  # another process of the broker leads
    ],
)
def test_a_leader_that_goes_on_writes_in_its_new_epoch(leader, start, faults, acked_at, epoch):
    """The first acknowledgement is at 4 s, in epoch 0, and epoch 1 begins at 9 s."""
    held = " ".join(f"{offset}x@{int(offset >= start)}" for offset in range(start + 1))
    tables = {**logs(f"1: {held}\n2: {held}"), "epochs": epochs((str(leader), 0, 0), (str(leader), 1, start))}
    known = timeline(tables, meta=metadata((9, {"leader": leader, "isr": [1, 2]})), faults=faults)
    led = [term for term in known.terms.values() if term.leader is not None]
    assert [(term.epoch, term.start) for term in led] == [(0, 0), (1, start)]
    found = writing_term(known, led, replace(lost(at=acked_at), first_acked=4 * SECOND), None)
    assert found is not None
    assert found.epoch == epoch
