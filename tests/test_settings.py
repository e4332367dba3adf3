"""The settings of run.json: what is refused, and what the accepted spellings mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.wording import either
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from logjudge.histories.settings import Settings, config_of


@pytest.mark.parametrize("policy", ["Compact", "not-compact", "compact;delete", 1])
def test_a_cleanup_policy_that_kafka_does_not_have_is_refused(policy: Any) -> None:
    config = {"topics": {"x": {"cleanup.policy": policy}}}
    with pytest.raises(InputError, match="expected delete, compact or both"):
        config_of(json.dumps(config).encode(), "run.json")


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", "delete, compact", ""])
def test_cleanup_policies_of_kafka_are_accepted(policy: str) -> None:
    config = config_of(json.dumps({"topics": {"x": {"cleanup.policy": policy}}}).encode(), "run.json")
    assert Settings(config=config).is_compacted("x") is ("compact" in policy)


def test_a_topic_needs_one_replica_in_sync() -> None:
    with pytest.raises(InputError, match=r"min\.insync\.replicas = -5, expected a whole number from 1"):
        config_of(b'{"topics": {"x": {"min.insync.replicas": -5}}}', "run.json")


def test_settings_in_capitals_mean_the_same() -> None:
    """librdkafka accepts the names of values in either case."""
    settings = Settings(config={"processes": {"c": {"isolation.level": "READ_UNCOMMITTED"}, "p": {"acks": "ALL"}}})
    assert settings.isolation("c") == "read_uncommitted"
    assert settings.reads_uncommitted("c")
    assert settings.acks("p") == "all"


def test_a_folder_in_place_of_the_history_is_refused(tmp_path: Path) -> None:
    """Spark writes a folder of parts. Beside brokers' files it must not count as a run without a history."""
    (tmp_path / "brokers" / "1").mkdir(parents=True)
    (tmp_path / "brokers" / "1" / "server.log").write_text("[2026-01-01 00:00:00,000] INFO started (kafka.server)\n")
    (tmp_path / "history.jsonl").mkdir()
    (tmp_path / "history.jsonl" / "part-00000.json").write_text("{}\n")
    with pytest.raises(InputError, match=r"history\.jsonl: found a folder, expected a file; .* rename it to history"):
        open_run(tmp_path)


def test_measures_with_commas_are_separated_by_semicolons() -> None:
    assert either(["a", "b", "c"]) == "a, b or c"
    assert either(["a", "b, which c", "d"]) == "a; b, which c; or d"
    assert either(["b, which c"]) == "b, which c"


def test_a_format_of_true_is_not_1() -> None:
    with pytest.raises(InputError, match="found format true, expected format 1"):
        config_of(b'{"format": true}', "run.json")
