"""Whether a follower's truncation removed records for good, by the logs at the end."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.replicas.replica_logs import ReplicaLogs, replica_logs_of
from logjudge.analysis.timelines.removals import first_removed
from logjudge.histories.evidence.tables import BATCHES, LOCATION
from logjudge.histories.tables import complete

from .replica_texts import epochs


def logs_of(*batches: tuple[int, int, int | None], begun: tuple[tuple[str, int, int], ...] = ()) -> ReplicaLogs:
    """One replica's log of batches (first offset, last offset, leader epoch), and the `epochs` of its checkpoint."""
    schema = {name: BATCHES[name] for name in ("base_offset", "last_offset", "leader_epoch")}
    rows = pl.DataFrame(list(batches), schema, orient="row")
    place = {"broker": pl.lit("1"), "snapshot": pl.lit(""), "file": pl.lit(f"{0:020d}.log"), "crc_ok": True}
    whole = complete(rows.with_columns(**place, byte=pl.int_range(pl.len())), {**LOCATION, **BATCHES})
    return replica_logs_of("orders", 0, {"batches": whole, "epochs": epochs(*begun)})


@pytest.mark.parametrize(
    ("batches", "first"),
    [
        ([(0, 99, 0)], None),  # a follower that truncated to 50 fetched the same records again
        ([(0, 49, 0), (50, 99, 1)], 50),
        ([(0, 59, 0), (60, 99, 1)], 60),  # the records below the later epoch came back
        ([(0, 59, 0)], 60),  # the log ends there
        ([(0, 29, 0)], 50),
        ([(0, 49, 0), (50, 79, 0), (80, 99, 1)], None),  # the later epoch begins after the truncated range
        ([(0, 99, None)], None),  # batches before format v2 have no epoch
    ],
)
def test_records_are_gone_if_the_log_ends_below_them_or_a_later_epoch_wrote_there(
    batches: list[tuple[int, int, int | None]], first: int | None
) -> None:
    assert first_removed(logs_of(*batches), 50, 80) == first


@pytest.mark.parametrize(
    ("created", "first"),
    [
        ((1_000, 2_000, 3_000), None),  # all before the follower held them: it fetched the same records again
        ((1_000, 2_000, 9_000), 70),  # written after the truncation
        ((1_000, 9_000, 9_000), 50),
        ((9_000, 9_000, 9_000), None),  # the producers' clocks are ahead
    ],
)
def test_records_before_format_v2_are_gone_if_later_ones_have_their_offsets(
    created: tuple[int, int, int], first: int | None
) -> None:
    logs = logs_of((0, 49, None), (50, 69, None), (70, 99, None))
    logs = replace(logs, batches=logs.batches.with_columns(max_timestamp=pl.Series(created)))
    assert first_removed(logs, 50, 80, held_ms=5_000) == first
    assert first_removed(logs, 50, 80) is None


@pytest.mark.parametrize(("later", "first"), [((), None), ((50,), 50), ((20,), 50), ((90,), None)])
def test_the_start_of_a_log_that_retention_shortened_is_no_start_of_an_epoch(
    later: tuple[int, ...], first: int | None
) -> None:
    """Retention deleted offsets 0 to 69 since. Only the brokers' lines have where a later epoch began."""
    logs = logs_of((70, 99, 2))
    logs = replace(logs, batches=logs.batches.with_columns(file=pl.lit(f"{70:020d}.log")))
    assert first_removed(logs, 50, 80, later=later) == first


def test_records_are_gone_from_where_an_epoch_began_before_compaction() -> None:
    begun = (("1", 0, 0), ("1", 1, 55))
    assert first_removed(logs_of((0, 49, 0), (75, 99, 1), begun=begun), 50, 80) == 55
