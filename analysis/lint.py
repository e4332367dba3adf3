"""Problems that weaken every verdict on a history: malformed lines, and broken assumptions about its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import polars as pl

from ..histories.bundle import Run
from ..histories.errors import InputError
from ..histories.event_fields import Oddity, Seen, merged, odd_fields
from ..histories.files import Split
from ..histories.parsing import parse_split
from ..histories.tables import OBSERVED
from .batches import batches_of
from .engines.local import Gathered, gather, screen_small
from .engines.threads import on_all_cores
from .kernel import judge_unit
from .partitions.foreign_clock import INVOCATIONS, set_back
from .results import to_frame
from .verdict.assumptions import short_latency
from .verdict.document import verdict_of
from .wording import plural, some

# Assumptions about events need the summary of each partition, but no rule: the cheapest one is judged.
RULE = "inconsistent-offsets"
# Reported line by line, or about rules instead of events.
LEFT_TO_OTHERS = ("lines well formed", "evidence sufficient")
UNITS = "times in nanoseconds"


@dataclass(frozen=True)
class Lint:
    """The problems of one history."""

    malformed: pl.DataFrame  # source, line (from 1), byte, reason; sorted by file and line
    warnings: tuple[str, ...]  # reasons why a verdict would be unknown
    notes: tuple[str, ...]  # what is odd, but may be right


def lint(run: Run) -> Lint:
    """Read a history as `check` does, and return its problems; brokers' files are not read.

    Raises InputError if the history has no operation, or if there is none beside brokers' files.
    """
    if run.evidence and not run.splits:
        hint = "`logjudge check` judges brokers' files"
        raise InputError(str(run.path), "no events of clients, only brokers' files", "a history", hint)
    settings = replace(run.settings, rules=(RULE,), batches=batches_of(replace(run, evidence=())))
    gathered = gather(replace(run, settings=settings, evidence=()))
    silent = processes_without_completion(gathered)
    results = gathered.results
    valueless = topics_without_values(gathered)
    went_back, at_once = times_going_back(gathered), processes_with_overlapping_polls(gathered)
    unproved = screen_small(gathered)
    for unit in sorted(gathered.units):
        judged = judge_unit(*unit, gathered.units[unit], gathered.common, unproved=unproved.get(unit))
        results.add("findings", to_frame(judged.findings))
        results.add_summaries(judged.summaries)
    results.refuse_unusable()
    assumptions = verdict_of(results)["assumptions"]
    broken = [one["says"] for one in assumptions if not one["holds"] and one["name"] not in LEFT_TO_OTHERS]
    has_wrong_unit = any(not one["holds"] and one["name"] == UNITS for one in assumptions)
    fast = short_latency([summary["latency"] for summary in results.summaries])
    if went_back:
        broken.append(went_back)
    if at_once:
        broken.append(f"{some(at_once)} had two polls open at once: are these several consumers with one name?")
    if silent:
        count = plural(len(silent), "process", "processes")
        broken.append(f"no operation of {count} ever completes ({some(silent)}): are completions recorded?")
    if valueless:
        broken.append(f"no send to {some(valueless)} has a value: are all of them tombstones?")
    odd = merged(on_all_cores(odd_fields, run.splits))
    sentences = {oddity: _sentence(oddity, seen, gathered) for oddity, seen in odd.items()}
    broken += [sentence for oddity, sentence in sentences.items() if oddity.is_warning]
    notes = [sentence for oddity, sentence in sentences.items() if not oddity.is_warning]
    return Lint(results.quarantine(), tuple(broken), (*([fast] if fast and not has_wrong_unit else ()), *notes))


def _sentence(oddity: Oddity, seen: Seen, gathered: Gathered) -> str:
    """What is odd, and where."""
    source, line = gathered.results.locator()(seen.place)
    return f"{oddity.found} in {plural(seen.lines, 'line')}, first at {source}:{line}: {oddity.expected}"


def _observations(gathered: Gathered, names: Iterable[str] = OBSERVED) -> list[pl.DataFrame]:
    """All sends, reads and marks, or the tables with these names, before small partitions are screened."""
    read = [*gathered.units.values(), *gathered.small]
    return [frame for tables in read for name in names for frame in tables.get(name, ())]


def topics_without_values(gathered: Gathered) -> list[str]:
    """The topics to which no send has a value; sorted. Their values may be in a field of another name."""
    shared = [gathered.common.unplaced, *(rows for tables in gathered.small for rows in tables.get("sends", ()))]
    sends = [(unit.topic, rows) for unit in gathered.units for rows in gathered.units[unit].get("sends", ())]
    found = pl.concat(
        [
            # The rows of a unit of one partition lack its topic.
            (rows if "topic" in rows.columns else rows.with_columns(topic=pl.lit(topic)))
            .group_by("topic")
            .agg(pl.col("value").is_null().all())
            for topic, rows in [*(("", rows) for rows in shared), *sends]
        ]
    )
    return found.group_by("topic").agg(pl.col("value").all()).filter("value")["topic"].drop_nulls().sort().to_list()


def times_going_back(gathered: Gathered) -> str:
    """Processes with a clock that was set back, and the place of the first one, as a sentence; empty if none has."""
    timed = [frame.select(INVOCATIONS) for frame in _observations(gathered) if len(frame)]
    found = set_back(pl.concat(timed)).unique("process", keep="first", maintain_order=True) if timed else pl.DataFrame()
    if found.is_empty():
        return ""
    source, line = gathered.results.locator()(found["place"][0])
    by = ", ".join(f"{row['process']} by {plural(row['hours'], 'hour')}" for row in found.head(3).to_dicts())
    more = f" and {plural(len(found) - 3, 'more process', 'more processes')}" if len(found) > 3 else ""
    return f"the times of a process go back, first at {source}:{line} ({by}{more}): was a clock set back?"


def processes_with_overlapping_polls(gathered: Gathered) -> list[str]:
    """The processes that began a poll before their last one ended; sorted. Rules on consumers then find breaches."""
    columns = ("process", "at", "invoked", "completed")
    frames = [frame.filter(~pl.col("txn")).select(columns) for frame in _observations(gathered, ["reads"])]
    if not frames:
        return []
    polls = pl.concat(frames).unique().drop_nulls().sort("invoked", "at")
    ended = pl.col("completed").cum_max().shift().over("process")
    names: list[str] = polls.filter(pl.col("invoked") < ended)["process"].unique().sort().to_list()
    return names


def processes_without_completion(gathered: Gathered) -> list[str]:
    """The processes that have operations but no completion; sorted."""
    frames = [
        *_observations(gathered),
        gathered.common.unplaced,
        gathered.common.context.filter(pl.col("invoked").is_not_null()),
    ]
    completions = pl.concat(
        [frame.select("process", completed=pl.col("completed").is_not_null()) for frame in frames if len(frame)]
        or [pl.DataFrame(schema={"process": pl.String, "completed": pl.Boolean})]
    )
    by_process = completions.group_by("process").agg(pl.col("completed").any())
    silent = by_process.filter(~pl.col("completed"))["process"].drop_nulls().sort().to_list()
    if not silent:
        return []
    # Some completions leave no observation, such as that of a poll without records.
    completing = set().union(*on_all_cores(_completing_processes, gathered.results.run.splits))
    return [name for name in silent if name not in completing]


def _completing_processes(split: Split) -> set[str]:
    """The processes with a line of a completion."""
    frames = [frame for parsed in parse_split(split) for frame in (parsed.sends, parsed.others)]
    return {name for frame in frames for name in frame.filter(pl.col("type") != "invoke")["process"].unique()}
