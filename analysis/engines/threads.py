"""Threads of the local engine and of Spark's workers: many small queries of polars at the cost of their work alone.

polars hands a query over to a pool of threads and waits for it. For a few rows that is most of the time: a filter takes
0.12 ms, and 0.03 ms on a thread of the pool, where polars runs it at once. So whole partitions are judged there.
Measured with polars 2.1: the 518 partitions of the rules' examples take 14 s instead of 25 s.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import numpy as np
import polars as pl

# polars imports numpy when it first needs it. If two threads do so at once, one fails: the module that polars keeps in
# numpy's place has a field `_globals`, and numpy has a module of that name.
pl.DataFrame({"first": np.zeros(0)})

Item = TypeVar("Item")
Done = TypeVar("Done")
Arguments = ParamSpec("Arguments")
_here = threading.local()


def in_pool(work: Callable[Arguments, Done], *arguments: Arguments.args, **named: Arguments.kwargs) -> Done:
    """Does the work on a thread of polars' pool. Raises what it raises.

    The caller sees no signal until then. The work must not wait for other work: the pool may have one thread only.
    """
    if is_in_pool():
        return work(*arguments, **named)
    done: Future[Done] = Future()

    def run(column: pl.Series, **_: object) -> pl.Series:  # polars gives the type, and handles a TypeError
        before, _here.is_in_pool = is_in_pool(), True  # a thread that waits in a query may take up other work
        try:
            done.set_result(work(*arguments, **named))
        except BaseException as error:
            done.set_exception(error)
        finally:
            _here.is_in_pool = before
        return column

    # With two expressions, polars runs each on a thread of the pool.
    pl.select(pl.lit(0).map_batches(run, return_dtype=pl.Int32), pl.lit(0).alias("other"))
    return done.result()


def is_in_pool() -> bool:
    """Whether this thread is one of polars' pool, at work for `in_pool`."""
    return getattr(_here, "is_in_pool", False)


def on_all_cores(work: Callable[[Item], Done], items: Iterable[Item]) -> Iterator[Done]:
    """`work` of each item, in their order. polars and the compiled loops release the interpreter's lock.

    At most one item more than there are cores is begun ahead of the caller, so that memory stays bounded. Within the
    work of an item, the items of another call are done one by one.
    """
    if is_in_pool():
        yield from map(work, items)
        return
    cores = os.cpu_count() or 1
    pool = ThreadPoolExecutor(cores)
    begun: deque[Future[Done]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(in_pool, work, item))
            if len(begun) > cores:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a signal does not wait for the work that has begun
