"""The verdict of a run of transactions on lists or registers: its assumptions, and the consistency models ruled out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..results import Results
from ..rules.anomalies import ANOMALIES, models_in_words
from ..transactions.anomalies import shown
from ..transactions.consistency_models import boundary, ruled_out
from ..transactions.txn_history import UNPAIRED
from ..wording import plural
from .assumptions import assumption, unless_counted

Record = dict[str, Any]
_OF_ORDER = tuple(
    name for name in ANOMALIES if name not in ("internal", "G1a", "G1b", "garbage-read", "duplicate-elements")
)


def assumptions_of(results: Results) -> Iterator[Record]:
    """The assumptions of the verdict beside well-formed lines, each with whether it holds."""
    counts, settings = results.counts, results.run.settings
    repeated, unpaired = counts.get("repeated keys", 0), counts.get(UNPAIRED, 0)
    others = repeated - len(results.repeated_keys)
    keys = ", ".join(map(shown, results.repeated_keys)) + (f" and {others:,} more" if others else "")
    yield unless_counted(
        repeated,
        "values unique",
        "no value was written twice to a key",
        f"{plural(repeated, 'key')} not judged ({keys}), as a value was written twice to each, or nil",
        tuple(ANOMALIES),
    )
    yield unless_counted(
        unpaired,
        "invocations recorded",
        "every completion has its invocation",
        f"{plural(unpaired, 'completion')} without an invocation, or whose process had begun several operations:"
        " their order in time is not known, and lines may be missing",
        tuple(name for name in ANOMALIES if name.endswith(("-process", "-realtime")) or name == "garbage-read"),
    )
    if not counts.get("ok"):
        yield assumption("clients were served", False, "no transaction committed, so nothing was tested", ())
    if large := counts.get("keys too large", 0):
        sentence = f"{plural(large, 'key')} with too many readers and writers of one version to compare all of them"
        yield assumption("all dependencies compared", False, sentence, _OF_ORDER)
    if unwritten := counts.get("unwritten versions", 0):
        versions = plural(unwritten, "version")
        sentence = f"{versions} that no transaction wrote: initial values other than nil, or garbage"
        yield assumption("versions written", False, sentence, _OF_ORDER)
    if counts.get("orders not known"):
        sentence = (
            "the reads do not show the order of all writes to a key, and the order of time does not explain"
            f" all reads under {settings.model}: anomalies may be missed"
            + (" (--keys infers more)" if settings.dialect == "elle-register" else "")
        )
        yield assumption("order of versions known", False, sentence, _OF_ORDER)


def consistency_of(rules: Record, model: str) -> Record:
    """The consistency models that the anomalies of a run rule out: the entry `consistency` of verdict.json.

    `rules` are those of verdict.json; some may have been skipped.
    """
    found = [name for name, rule in rules.items() if rule["findings"] or rule["permitted"]]
    weakest, strongest = boundary(found)
    return {
        "demanded": model,
        "not": weakest,
        "ruled_out": ruled_out(found),
        "strongest_not_ruled_out": strongest,
        "summary": models_in_words(weakest, strongest)
        + ("" if len(rules) == len(ANOMALIES) else " by the anomalies that were not skipped"),
    }
