"""`logjudge.spark.check` in a user's own session, which stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import logjudge
import polars as pl
import pytest
from event_lines import CONFIG, frame, lines
from logjudge.analysis.engines.spark import ranges, whole_run
from test_elle_examples import history_of

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "unclean-election"

pytestmark = pytest.mark.spark


def state_of(session: Any) -> dict[str, Any]:
    """The visible state of a session: settings, views, cached tables, and whether it is the active one."""
    return {
        "settings": dict(session.conf.getAll),
        "views": sorted(table.name for table in session.catalog.listTables()),
        "stored": session.sparkContext._jsc.getPersistentRDDs().size(),
        "active": session.getActiveSession()._jsparkSession,
    }


@pytest.fixture
def user_session(spark: Any) -> Any:
    """A session with its own settings, which would all change the pipeline."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    session.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    session.createDataFrame([(1,)], "a int").createTempView("mine")
    return session


@pytest.mark.sampled(1)
@pytest.mark.parametrize("small", [True, False])
def test_paths_give_the_findings_of_the_local_engine(
    user_session: Any, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_run, "MAX_BYTES", small << 30)
    before = state_of(user_session)
    (result,) = logjudge.spark.check(user_session, [EXAMPLE])
    assert state_of(user_session) == before
    expected = logjudge.check(EXAMPLE)
    assert result.findings.equals(expected.findings)
    rows = result.findings_spark
    assert rows.sparkSession._jsparkSession == user_session._jsparkSession
    assert pl.DataFrame(rows.toArrow()).equals(expected.findings)
    assert result.rules == expected.rules


def test_small_runs_of_transactions_are_judged_and_reported_by_the_local_engine(
    user_session: Any, tmp_path: Path
) -> None:
    file = tmp_path / "valid.edn"
    file.write_text("\n".join(history_of("ax1", ">rx1")) + "\n")
    saved = logjudge.spark.check(user_session, file).save(tmp_path / "out", plots=False)
    assert json.loads((saved / "verdict.json").read_text())["input"]["engine"] == "local"


def test_a_frame_is_judged_where_its_partitions_are(user_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are rows in the order of `collect`, whatever the partitions; invocations wait for other partitions.

    A frame with a small known size is not proved by ranges: planning them takes longer than judging it.
    """
    from pyspark.sql.classic.dataframe import DataFrame

    events = pl.DataFrame(frame(lost=True)).with_columns(more=pl.lit("a column of the user's"))
    expected = logjudge.check(events, config=CONFIG)
    rows = user_session.createDataFrame(events.to_arrow()).repartitionByRange(4, "time")
    before = state_of(user_session)
    with monkeypatch.context() as patch:
        patch.setattr(DataFrame, "toArrow", lambda _: pytest.fail("collected"))
        patch.setattr(ranges, "prove", lambda *_: pytest.fail("planned ranges"))
        result = logjudge.spark.check(user_session, rows, config=CONFIG, name="frame")
    assert state_of(user_session) == before
    assert result.findings.equals(expected.findings)
    assert (result.name, result.counts) == ("frame", expected.counts)
    result.assert_valid(allow="lost-write")
    in_one = logjudge.spark.check(user_session, rows.coalesce(1).filter("time < 0"), config=CONFIG, only="lost-write")
    assert (in_one.verdict, list(in_one.rules)) == ("unknown", ["lost-write"])


def test_misuse_is_one_sentence(user_session: Any, tmp_path: Path) -> None:
    before = state_of(user_session)
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, lines())) + "\n")
    for source, options, message in (
        (user_session.range(3), {}, "found a DataFrame without time, process, op, type, f"),
        (user_session.readStream.format("rate").load(), {}, "found a streaming DataFrame"),
        (3, {}, "found int as a run"),
        (tmp_path, {"config": {"final": "yes"}}, "config: found"),
        (tmp_path, {"allow": "lost"}, "there is no rule lost"),
    ):
        with pytest.raises(logjudge.LogjudgeError, match=message):
            logjudge.spark.check(user_session, source, **options)
    assert state_of(user_session) == before
