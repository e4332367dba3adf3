"""`logjudge.assert_valid`: the assertion of a test, with a message that explains a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .histories.recording.recorder import Recorder
from .judging import check
from .result import Result


def assert_valid(run: Any, allow: str | Iterable[str] = (), **options: Any) -> Result:
    """Judge a run and raise an AssertionError unless it is valid; return the result.

    `run` is what `logjudge.check` takes, a Recorder (which is finished first), or a Result. `options` are those of
    `logjudge.check`.
    """
    __tracebackhide__ = True
    if isinstance(run, Result):
        run.assert_valid(allow)
        return run
    result: Result = check(run.finish() if isinstance(run, Recorder) else run, allow=allow, **options)
    result.assert_valid()
    return result
