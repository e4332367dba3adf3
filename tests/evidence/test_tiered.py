"""Tiered storage (KIP-405): what brokers deleted from their disks is in remote storage, neither lost nor deleted."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from logjudge import check as judged
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run

from .conftest import DATA

FIRST_LOCAL = 87  # of orders-0; offsets below are in remote storage
END = 240
BROKERS = ("1", "2", "3")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiered")
    shutil.unpack_archive(DATA / "tiered" / "leader-kill.tar.xz", folder)
    return folder / "tiered"


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    return shutil.copytree(recorded, tmp_path / "run")


def _without(run: Path, *offsets: int) -> None:
    """Removes records from the final reads."""
    lines = []
    for line in (run / "history.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["process"] == "final" and event.get("records"):
            event["records"] = [record for record in event["records"] if record["offset"] not in offsets]
        lines.append(json.dumps(event))
    (run / "history.jsonl").write_text("\n".join(lines) + "\n")


def _edit_topic(run: Path, **settings: object) -> None:
    config = json.loads((run / "run.json").read_text())
    config["topics"]["orders"] |= settings
    (run / "run.json").write_text(json.dumps(config))


def _sentences(result: Any) -> str:
    return " ".join(str(one["says"]) for one in result.assumptions)


LOGS = ("replica-divergence", "acknowledged-absent", "epoch-order", "checkpoint-order", "log-corruption")


def test_a_run_with_tiered_storage_is_valid(run: Path) -> None:
    result = judged(run)
    assert result.verdict == "valid"
    assert {result.rules[rule]["verdict"] for rule in LOGS} == {"valid"}
    assert len(list((run / "brokers").glob(f"*/data/orders-0/{FIRST_LOCAL:020d}.log"))) == len(BROKERS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", ["run.json", "metadata log", "server.log", "none"])
def test_each_source_shows_that_a_topic_is_tiered(source: str, run: Path) -> None:
    """Without any source the logs lack their first segments."""
    if source != "run.json":
        config = json.loads((run / "run.json").read_text())
        del config["topics"]["orders"]["remote.storage.enable"]
        (run / "run.json").write_text(json.dumps(config))
    if source != "metadata log":
        for folder in (run / "brokers").glob("*/data/__cluster_metadata-0"):
            shutil.rmtree(folder)
    if source != "server.log":
        for log in (run / "brokers").glob("*/server.log"):
            log.write_text(re.sub(r".*local log start offset.*\n", "", log.read_text()))
    result = judged(run)
    expected = "unknown" if source == "none" else "valid"
    assert [result.rules[rule]["verdict"] for rule in ("acknowledged-absent", "log-corruption")] == [expected] * 2
    assert ("leader-epoch-checkpoint begins at offset 0" in _sentences(result)) == (source == "none")


def test_a_record_that_remote_storage_lost_is_a_lost_write(run: Path) -> None:
    _without(run, 40)
    result = judged(run)
    (lost,) = result.findings.filter(rule="lost-write").to_dicts()
    assert (lost["first_offset"], lost["last_offset"]) == (40, 40)
    assert result.rules["acknowledged-absent"]["verdict"] == "unknown"
    assert "1 acknowledged record of orders-0 that may be in remote storage (KIP-405)" in _sentences(result)


def test_lost_first_records_are_not_taken_for_deleted(run: Path) -> None:
    """An ordinary log that starts at 87 would show that retention deleted them."""
    _without(run, *range(FIRST_LOCAL))
    result = judged(run)
    (lost,) = result.findings.filter(rule="lost-write").to_dicts()
    assert (lost["first_offset"], lost["last_offset"], lost["cause"]) == (0, FIRST_LOCAL - 1, None)
    (incident,) = (one for one in result.incidents if "lost" in one["headline"])
    assert incident["missing"] == ["the segments of orders-0 in remote storage (KIP-405)"]


def test_records_below_the_checkpointed_log_start_were_deleted(run: Path) -> None:
    for broker in BROKERS:
        (run / f"brokers/{broker}/data/log-start-offset-checkpoint").write_text("0\n1\norders 0 50\n")
    _without(run, *range(50))
    assert judged(run).verdict == "valid"
    _without(run, 50)
    assert judged(run).findings.filter(rule="lost-write")["first_offset"].to_list() == [50]


def test_without_a_checkpointed_log_start_nothing_is_known_to_be_deleted(run: Path) -> None:
    for broker in BROKERS:
        (run / f"brokers/{broker}/data/log-start-offset-checkpoint").unlink()
    assert judged(run).verdict == "valid"
    _without(run, *range(FIRST_LOCAL))
    assert judged(run).rules["lost-write"]["count"] == FIRST_LOCAL


def test_local_logs_are_judged_as_others(run: Path) -> None:
    """A record after the first segment that is in no log is absent."""
    for broker in BROKERS:
        log = run / f"brokers/{broker}/data/orders-0/{228:020d}.log"
        log.write_bytes(b"")
    _without(run, *range(228, END))
    result = judged(run)
    assert result.rules["acknowledged-absent"]["count"] == END - 228
    missing = run / f"brokers/1/data/orders-0/{183:020d}.log"
    missing.rename(missing.with_suffix(".index"))
    assert judged(run).rules["log-corruption"]["verdict"] == "unknown"


def test_explain_names_remote_storage(run: Path) -> None:
    explained = invoke("explain", run, "orders-0@40")
    assert explained.exit_code == 0
    assert len(re.findall("broker [123] +in remote storage alone", explained.output)) == len(BROKERS)


def test_an_unclean_election_with_tiered_storage(tmp_path: Path) -> None:
    """The new leader's first records were lost, too: the final reads got the old leader's from remote storage."""
    shutil.unpack_archive(DATA / "tiered" / "unclean-election.tar.xz", tmp_path)
    result = judged(tmp_path / "unclean")
    lost = result.findings.filter(rule="lost-write").sort("partition", "first_offset")
    assert lost.select("partition", "first_offset", "last_offset", "count").rows() == [
        (0, 208, 214, 7),
        (0, 215, 636, 422),
        (1, 198, 626, 429),
    ]
    causes = {one["cause"]: one["missing"] for one in result.incidents if "lost" in one["headline"]}
    assert causes == {"unclean-election": [], "unknown": ["the segments of orders-0 in remote storage (KIP-405)"]}
    assert result.rules["replica-divergence"]["verdict"] == "valid"


@pytest.mark.spark
def test_spark_knows_tiered_storage_from_the_metadata_log(run: Path, spark: Any) -> None:
    from logjudge.analysis.engines import spark as engine

    _edit_topic(run, **{"remote.storage.enable": False})
    _without(run, 40)
    opened = open_run(run)
    here, there = verdict_of(judge_run(opened)), verdict_of(engine.judge_run(opened, spark))
    assert here == there
    assert here["rules"]["lost-write"]["count"] == 1
