"""Processors: groups that copy records exactly once, or at least once, and what breaks if a rule is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from command_line import invoke, json_lines, verdict_of_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.evidence.group_log import read_group_log
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import SETTINGS, space
from logjudge.models.exploration.processing_invariants import committed_offsets, visible_copies
from logjudge.models.exploration.processing_truth import copied_ranges
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.coordinators.group_coordinator import GroupCoordinator
from logjudge.models.replication.coordinators.group_offsets import GroupOffsets
from logjudge.models.replication.coordinators.group_requests import CommittedOffset, GroupRecord
from logjudge.models.replication.event_loop import EventLoop, PausableTimer
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.transactions import MARKER

DOCS = Path(__file__).parents[2] / "docs"
ONCE, AT_LEAST = ("processing", "at-least-once")
writes = st.tuples(st.sampled_from(["plain", "pending"]), st.integers(1, 3), st.integers(0, 1), st.integers(0, 9))
markers = st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3), st.just(0), st.just(0))


@given(st.lists(st.one_of(writes, markers), max_size=30))
def test_offsets_of_transactions_count_from_their_marker_and_the_latest_record_wins(
    steps: list[tuple[str, int, int, int]],
) -> None:
    offsets = GroupOffsets()
    for at, (step, pid, partition, offset) in enumerate(steps):
        if step == "plain":
            offsets.commit(GroupRecord(1, committed=CommittedOffset(partition, offset)), at)
        elif step == "pending":
            offsets.expect(pid, [partition])
            assert not offsets.are_stable([partition])
            offsets.add_pending(pid, GroupRecord(1, committed=CommittedOffset(partition, offset)), at)
        else:
            offsets.end_transaction(pid, step == "commit")
    ends = [(at, pid, step) for at, (step, pid, _, _) in enumerate(steps) if step in ("commit", "abort")]
    expected: dict[int, int] = {}
    unstable: set[int] = set()
    for at, (step, pid, partition, offset) in enumerate(steps):
        end = next((how for marker, of_pid, how in ends if of_pid == pid and marker > at), "")
        if step == "plain" or (step == "pending" and end == "commit"):
            expected[partition] = offset
        elif step == "pending" and not end:
            unstable.add(partition)
    assert offsets.committed() == expected
    assert [offsets.are_stable([partition]) for partition in (0, 1)] == [p not in unstable for p in (0, 1)]


def test_offsets_that_were_not_written_do_not_keep_a_partition_unstable() -> None:
    offsets = GroupOffsets()
    offsets.expect(1, [0, 1])
    offsets.add_pending(1, GroupRecord(1, committed=CommittedOffset(1, 5)), 0)
    offsets.give_up(1, [0, 1])
    assert (offsets.are_stable([0]), offsets.are_stable([1])) == (True, False)


def test_timers_that_expire_in_a_pause_run_in_order_after_it() -> None:
    loop, seen = EventLoop(), []
    timer = PausableTimer(loop)
    timer.at(1, seen.append, "a")
    timer.at(2, lambda _: timer.pause())
    timer.at(4, seen.append, "c")
    timer.at(3, seen.append, "b")
    loop.at(5, lambda _: seen.append("resume"))
    loop.at(5, lambda _: timer.resume())
    loop.run(10)
    assert seen == ["a", "resume", "b", "c"]


@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_copied_once(seed: int) -> None:
    cluster = space("kip-966", ONCE).scenario(seed).run()
    assert cluster.final
    assert breaches(cluster, SETTINGS[ONCE].invariants) == {}
    offsets = committed_offsets(cluster)
    assert offsets == {p: ends[1] for p, ends in enumerate(cluster.log_ranges()[:2]) if ends}
    assert visible_copies(cluster) == Counter({(p, o): 1 for p, end in offsets.items() for o in range(end)})


def test_two_sessions_end_at_once_in_a_rebalance() -> None:
    """The removal of the first member completes the rebalance, which removes the second, too."""
    run = space("kip-966", "compacted-coordinators").scenario(7001462).run()
    assert breaches(run, SETTINGS["compacted-coordinators"].invariants) == {}


def test_an_abort_that_a_replaced_coordinator_refused_has_not_fenced_what_comes_late() -> None:
    """It was paused in the commit before. The producer takes a new epoch, which fences its late batch."""
    run = space("kip-966", "processing").scenario(7000114).run()
    assert breaches(run, SETTINGS["processing"].invariants) == {}


def test_a_marker_that_a_replaced_coordinator_repeats_does_not_end_the_next_transaction() -> None:
    """It has the epoch of the next transaction, whose offsets it would commit before the timeout aborts the copies."""
    assert breaches(space("kip-966", ONCE).scenario(7001090).run(), SETTINGS[ONCE].invariants) == {}


@pytest.mark.campaign
def test_every_record_is_copied_once_in_many_schedules() -> None:
    for seed in range(1000, 2000):
        assert breaches(space("kip-966", ONCE).scenario(seed).run(), SETTINGS[ONCE].invariants) == {}, seed


def _drop(*_: object) -> None:
    """Forget offsets."""


def _apply(offsets: GroupOffsets, _: int, record: GroupRecord, at: int) -> None:
    offsets.commit(record, at)


def _replay_plain(replay: Callable[..., None]) -> Callable[..., None]:
    def without_pending(coordinator: GroupCoordinator, batch: Batch, records: object) -> None:
        if batch.pid < 0 or batch.producer == MARKER:
            replay(coordinator, batch, records)

    return without_pending


@pytest.mark.parametrize(
    ("owner", "name", "mutation", "seeds"),
    [
        pytest.param(GroupOffsets, "add_pending", _drop, range(6), id="pending offsets are dropped"),
        pytest.param(GroupOffsets, "add_pending", _apply, range(35), id="they are applied before the marker"),
        pytest.param(
            GroupCoordinator, "_replay", _replay_plain(GroupCoordinator._replay), range(20), id="a failover loses them"
        ),
        pytest.param(GroupOffsets, "are_stable", lambda *_: True, range(20), id="a new owner does not wait for them"),
    ],
)
def test_the_search_finds_a_coordinator_that_is_wrong(
    owner: type, name: str, mutation: Callable[..., object], seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mutation)
    assert any(breaches(space("kip-966", ONCE).scenario(seed).run(), ["exactly-once"]) for seed in seeds)


def zombie(variant: str) -> Counter[tuple[int, int]]:
    """The copies of each record if the only fault is that a member is paused past its session."""
    pause = Fault(4_100_000, "consumer-pause", (0,), 5 * SECOND)
    return visible_copies(space(variant, ONCE).scenario(3).with_faults((pause,)).run())


def test_a_zombie_writes_twice_unless_its_generation_fences_it() -> None:
    assert max(zombie("kip-98").values()) == 2
    assert max(zombie("kip-966").values()) == 1


def test_members_that_commit_afterwards_repeat_what_they_had_copied() -> None:
    broken = [seed for seed in range(8) if breaches(space("kip-966", AT_LEAST).scenario(seed).run(), ["exactly-once"])]
    assert broken
    assert all(breaches(space("kip-966", AT_LEAST).scenario(seed).run(), ["at-least-once"]) == {} for seed in range(8))


@pytest.mark.parametrize(("setting", "seed"), [(ONCE, 0), (ONCE, 7), (AT_LEAST, 3)])
def test_the_judge_reads_processors(setting: str, seed: int, tmp_path: Path) -> None:
    written = write_bundle(space("kip-966", setting).scenario(seed), tmp_path / "run")
    cluster = written.cluster
    assert verdict_of_run(written.folder)["verdict"] == "valid"
    lines = json_lines(written.folder / "history.jsonl")
    sends = [line for line in lines if line["f"] == "send" and "copies" in line["topic"]]
    steps = [step for line in lines if line["f"] == "txn" and line["type"] == "ok" for step in line["ops"]]
    assert bool(sends) == (setting == AT_LEAST)
    assert bool(steps) == (setting == ONCE)
    keys = Counter(send["key"] for send in [*sends, *steps] if send["f"] == "send" and send.get("type") != "ok")
    copies = Counter({f"orders-{p}@{offset}": number for (p, offset), number in visible_copies(cluster).items()})
    assert keys == copies
    leader = cluster.quorum.states[cluster.config.group_log].leader
    log, damage = read_group_log(written.folder / f"brokers/{leader}/data/__consumer_offsets-0")
    assert damage.is_empty()
    last = log.filter(pl.col("kind") == "committed").sort("at").group_by("partition").last()
    assert dict(last.select("partition", "offset").iter_rows()) == committed_offsets(cluster)
    producers = {batch.pid for batch in cluster.leader_log(cluster.config.group_log).batches()}
    assert (producers > {-1}) == (setting == ONCE)


def test_a_member_that_dies_in_its_commit_has_skipped_nothing(tmp_path: Path) -> None:
    """Its offsets are committed, but it could not record that it handled the records."""
    written = write_bundle(space("kip-966", ONCE).scenario(377), tmp_path / "run")
    assert breaches(written.cluster, ["exactly-once"]) == {}
    assert any(one.decision == "commit" and not one.outcome for one in written.cluster.transactions.transactions)
    assert verdict_of_run(written.folder)["verdict"] == "valid"


def test_exactly_once_against_at_least_once(tmp_path: Path) -> None:
    """The page has the numbers that the command prints, and the picture has each copy."""
    path = tmp_path / "x.svg"
    output = invoke("scenarios", "processing", "--picture", path).output
    assert output.startswith("The same application copies the same records")
    numbers = [line.split("|")[2:5] for line in output.splitlines() if line.startswith("| processing")]
    page = (DOCS / "transactions.md").read_text(encoding="utf-8")
    assert len(numbers) == 2
    assert all("|".join(row) in page for row in numbers)
    assert [int(row[2]) > 0 for row in numbers] == [False, True]
    texts = [re.findall(">([^<>]+)</text>", one.read_text("utf-8")) for one in (path, DOCS / "processing.svg")]
    assert texts[0] == texts[1]
    cluster = load("processing-at-least-once").run()
    ranges = copied_ranges(cluster)
    assert sum(one.high - one.low + 1 for one in ranges) == visible_copies(cluster).total()
    again = sum(one.high - one.low + 1 for one in ranges if one.is_repeated)
    assert again == visible_copies(cluster).total() - len(visible_copies(cluster))
