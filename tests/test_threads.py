"""Work on threads of polars' pool: its results, its errors, and work within work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import polars as pl
import pytest
from logjudge.analysis.cached import cached_property
from logjudge.analysis.engines.threads import in_pool, is_in_pool, on_all_cores

NESTED = """
import polars as pl
from logjudge.analysis.engines.threads import on_all_cores

def evens(number):
    return pl.DataFrame({"n": range(number)}).filter(pl.col("n") % 2 == 0)["n"].to_list()

print([list(on_all_cores(evens, range(number))) for number in (2, 3)])
print(list(on_all_cores(lambda number: list(on_all_cores(evens, range(number))), (2, 3))))
"""


def test_work_runs_on_a_thread_of_the_pool_where_queries_work() -> None:
    def filtered() -> tuple[int, bool, list[int]]:
        frame = pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}).filter(pl.col("a") > 1)
        return threading.get_ident(), is_in_pool(), frame["a"].to_list()

    thread, was_in_pool, values = in_pool(filtered)
    assert thread != threading.get_ident()
    assert (was_in_pool, is_in_pool(), values) == (True, False, [2, 3])


def test_errors_pass_and_later_work_is_done() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        in_pool(lambda: 1 // 0)
    assert raised.value.__context__ is None  # an error of polars' own call would come first in a trace
    with pytest.raises(KeyboardInterrupt):
        in_pool(_interrupt)
    assert in_pool(lambda: 1) == 1


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_results_are_in_the_order_of_the_items() -> None:
    def slowly(number: int) -> int:
        time.sleep((10 - number) / 1000)
        return number

    assert list(on_all_cores(slowly, range(10))) == list(range(10))


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_work_within_work_ends_with_any_number_of_threads(threads: str) -> None:
    environment = {**os.environ, "POLARS_MAX_THREADS": threads}
    command = [sys.executable, "-c", NESTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[[[], [0]], [[], [0], [0]]]\n" * 2


def test_a_property_is_computed_once_and_threads_wait_for_no_other_instance() -> None:
    class Slow:
        def __init__(self, go: threading.Event) -> None:
            self.go, self.count = go, 0

        @cached_property
        def value(self) -> int:
            assert self.go.wait(60)
            self.count += 1
            return self.count

    waits, ready = Slow(threading.Event()), Slow(threading.Event())
    other = threading.Thread(target=lambda: waits.value)
    other.start()
    ready.go.set()
    assert (ready.value, ready.value, ready.count) == (1, 1, 1)
    waits.go.set()
    other.join()
    assert waits.__dict__["value"] == 1


def test_polars_has_imported_numpy_before_threads_begin() -> None:
    """Its first import in two threads at once fails: TypeError: 'module' object does not support item assignment."""
    program = "import logjudge.analysis.engines.threads, polars; print(type(polars._dependencies.numpy).__name__)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "module"
