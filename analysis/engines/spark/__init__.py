"""The pipeline on Spark. Only this folder imports pyspark, and only when a session is opened.

session.py opens sessions; plan.py has the DataFrame plan of a run; judge.py runs it; remote.py opens runs at URIs.
linearize.py judges histories of general operations.
"""

from .judge import is_judged_here, judge_here, judge_run, map_payloads, needs_no_spark
from .session import Frame, Session, cloned_session, open_local_context, open_session, starts_here

__all__ = [
    "Frame",
    "Session",
    "cloned_session",
    "is_judged_here",
    "judge_here",
    "judge_run",
    "map_payloads",
    "needs_no_spark",
    "open_local_context",
    "open_session",
    "starts_here",
]
