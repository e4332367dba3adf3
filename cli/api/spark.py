"""`logjudge.spark.check`: judges runs in a user's own Spark session, classic or Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

from .analysis.request import Request
from .analysis.results import Results
from .judging import Names, Options, judge_path, library_of, paths_of, result_of
from .result import Result

if TYPE_CHECKING:
    from .analysis.engines.spark import Frame, Session

__all__ = ["SparkResult", "check"]


class SparkResult(Result):
    """The verdict on a run that Spark judged."""

    def __init__(self, spark: Session, *judged: Any) -> None:
        super().__init__(*judged)
        self._spark = spark

    @cached_property
    def findings_spark(self) -> Frame:
        """The findings as a DataFrame of the user's session, with the columns of `findings`."""
        return self._spark.createDataFrame(self.findings.to_arrow())


def check(
    spark: Session, source: Any, allow: Names = (), only: Names = (), skip: Names = (), **options: Unpack[Options]
) -> SparkResult | list[SparkResult]:
    """Judge a run in the user's Spark session. Its settings, views and active session stay as they are.

    `source` is a path or a URI that Spark reads, a list of them (which gives a list of results), or a DataFrame of
    the session with a row for each event. Row n in the order of `collect` is line n in findings. Executors judge
    the rows; the driver does not collect them. All else is as in `logjudge.check`.
    """
    request = Request.of(allow=allow, only=only, skip=skip, **options)
    if library_of(source) == "pyspark":
        about = {"name": request.name or "events", **(request.config or {})}
        return _result(spark, partial(_judge_frame, spark, source, about), replace(request, config=None))
    results = [_result(spark, partial(_judge_path, spark, path), request) for path in paths_of(source)]
    return results if isinstance(source, list | tuple) else results[0]


def _result(spark: Session, judge: Callable[[Request], Results], request: Request) -> SparkResult:
    return result_of(judge, "spark", "logjudge.spark.check", request, partial(SparkResult, spark))


def _judge_path(spark: Session, path: str, request: Request) -> Results:
    from .analysis.engines.spark import cloned_session

    with cloned_session(spark) as (own, _):
        return judge_path(path, lambda: own, request)


def _judge_frame(spark: Session, frame: Frame, config: Mapping[str, Any], request: Request) -> Results:
    from .analysis.engines.spark import cloned_session, judge_run
    from .analysis.engines.spark.frames import open_frame

    run = request.of_run(open_frame(frame, config))
    with cloned_session(spark, frame) as (own, events):
        return judge_run(run, own, events=events)
