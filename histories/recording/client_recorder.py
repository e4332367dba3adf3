"""The recorder of one client in a process of its own: into its own file of the bundle, each event at once."""

from __future__ import annotations

import itertools
from pathlib import Path

from .journal import Journal
from .recorder import Recorder

FIRST_OP = 10_000_000  # beyond the numbers of the recorder, which records the client's crash


class ClientRecorder(Recorder):
    """Has the methods of `Recorder` for clients; the recorder of the run writes run.json.

    Every event is on disk before its method returns. `start` is the other recorder's, on the same monotonic clock.
    """

    def __init__(self, file: Path, start: int) -> None:
        self._producers, self._consumers, self._configured = set(), set(), {}
        journal = Journal(file, lambda: None)
        journal.start = start
        journal.next_op = itertools.count(FIRST_OP).__next__

        def append(line: bytes) -> None:
            journal.log.append(line)
            journal.log.flush()
            journal.log.check()

        journal.append = append
        self._journal = journal
