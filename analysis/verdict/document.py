"""The verdict of a run, of its rules and of its assumptions, from findings and summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...histories.errors import shortened
from ...histories.settings import ROLES, Settings
from ...models.internal_topics import is_internal
from ..figures import merge_figures
from ..finding_order import worst_rows_first
from ..incidents.joining import findings_in, incidents_of
from ..partitions.topic_generations import Span, in_words
from ..results import Results
from ..rules import DIALECTS, RULES, Rule, rules_assuming, rules_of
from ..wording import plural, some
from .assumptions import assumption, doubtful_unit, evidence_assumptions, naming_unknown_rules, unless_counted
from .transactional import assumptions_of, consistency_of

FORMAT = 1
# The data (as in Rule.needs) that processes of each role record.
_OF_PRODUCERS, _OF_CONSUMERS = ("acknowledged", "sends"), ("reads", "groups", "commits", "generations")
DATA_OF_ROLES = {
    "producer": _OF_PRODUCERS,
    "consumer": _OF_CONSUMERS,
    "producer+consumer": (*_OF_PRODUCERS, *_OF_CONSUMERS),
}
NO_CLIENTS = (
    "no client history: acknowledged writes are not known, so lost ones cannot be named; the acknowledgements in an"
    " application's log would show them (docs/format.md)"
)


def verdict_of(results: Results) -> dict[str, Any]:
    """The verdict, rules, assumptions and counts of verdict.json (docs/verdict.md)."""
    totals = _totals(results)
    settings = results.run.settings
    is_transactional = settings.dialect in DIALECTS
    known = rules_of(settings.dialect)
    assumptions = [_well_formed(results), *assumptions_of(results)] if is_transactional else [*_assumptions(results)]
    broken = {rule for item in assumptions if item["holds"] is not True for rule in item["touches"]}
    chosen = settings.rules
    rules = {
        name: _rule_record(rule, results, totals, name in broken)
        for name, rule in known.items()
        if not chosen or name in chosen
    }
    unknown = {name for name, rule in rules.items() if rule["verdict"] == "unknown"}
    assumptions = [naming_unknown_rules(item, unknown) for item in assumptions]
    verdicts = {rule["verdict"] for rule in rules.values()}
    all_hold = all(item["holds"] is True for item in assumptions)
    if "invalid" in verdicts:
        verdict = "invalid"
    elif "unknown" in verdicts or not all_hold or not results.counts.get("operations"):
        verdict = "unknown"
    else:
        verdict = "valid"
    return {
        "format": FORMAT,
        "verdict": verdict,
        "rules": rules,
        "skipped": [name for name in known if name not in rules],
        "allowed": [*settings.allow],
        "assumptions": assumptions,
        "counts": totals,
        **({"consistency": consistency_of(rules, settings.model)} if is_transactional else {}),
    }


MAX_FINDINGS = 100  # in verdict.json, the worst of the run


def report_of(results: Results, engine: str) -> dict[str, Any]:
    """The content of verdict.json without `provenance`: verdict, input, the worst findings, causes, incidents."""
    run = results.run
    findings, causes = results.findings(), results.causes()
    return {
        **verdict_of(results),
        "input": {
            "name": run.settings.name,
            "files": list(run.files),
            "bytes": run.bytes,
            "engine": engine,
            "dialect": run.settings.dialect,
            "system": run.settings.config.get("system"),
            "started_at": None if run.settings.is_undated else run.settings.config.get("started_at"),
            "span_ns": _span(results),
        },
        "findings": worst_rows_first(findings).head(MAX_FINDINGS).to_dicts(),
        "causes": [cause.record() for cause in causes],
        "incidents": [incident.record() for incident in incidents_of(findings_in(findings), causes)],
    }


def finds_all_losses(verdict: dict[str, Any]) -> bool:
    """Whether the evidence shows every loss; else more writes may be lost than were found."""
    return bool(verdict["rules"].get("lost-write", {}).get("complete", True))


def merged_figures(results: Results, verdict: dict[str, Any]) -> dict[str, Any]:
    """The data of the plots of a judged run."""
    settings, complete = results.run.settings, finds_all_losses(verdict)
    return merge_figures(results.records, results.context, settings, complete, results.findings())


def _span(results: Results) -> list[int] | None:
    """The first and the last time of client operations, ns."""
    spans = [summary["span"] for summary in results.summaries if summary["span"]]
    return [min(span[0] for span in spans), max(span[1] for span in spans)] if spans else None


def _totals(results: Results) -> dict[str, int]:
    totals = Counter({name: number for name, number in sorted(results.counts.items()) if name != "lines"})
    # A partition that only lines of brokers' logs name has a summary for its causes, but no rule could judge it.
    judged = [summary for summary in results.summaries if summary["span"] or summary["evidence"]]
    # Internal topics only count if clients used them, or no other partition was recorded.
    used = [summary for summary in judged if not is_internal(summary["topic"]) or summary["counts"]["records"]]
    totals["partitions"] = len({(summary["topic"], summary["partition"]) for summary in used or judged})
    totals["quarantined"] = results.left_out
    for summary in results.summaries:
        totals.update(summary["counts"])
    return dict(totals)


def _rule_record(rule: Rule, results: Results, totals: dict[str, int], rests_on_broken: bool) -> dict[str, Any]:
    """The record of a rule in verdict.json. `rests_on_broken`: an assumption of the rule does not hold."""
    counts: Counter[str] = Counter()
    for summary in results.records:
        counts.update(summary["findings"].get(rule.name, {}))
    unjudged = any(rule.name in summary["unjudged"] for summary in results.records)
    # Final reads have to cover every partition with acknowledged records.
    finals = [] if results.run.settings.dialect == "jepsen" else [one["final"] for one in _needing_final_reads(results)]
    is_final = not rule.needs_final or all(final and final["complete"] for final in finals)
    complete = is_final and not rests_on_broken and not unjudged
    if counts["violation"]:
        verdict = "invalid"
    elif results.run.settings.dialect not in rule.judges or not _has_data_for(rule, results, totals):
        verdict = "not-judged"
    else:
        verdict = "valid" if complete else "unknown"
    return {
        "verdict": verdict,
        "complete": complete,
        "count": counts["violation records"],
        "findings": counts["violation"],
        "permitted": counts["permitted"],
        "permitted_count": counts["permitted records"],
        "accepted": counts["accepted"],
        "accepted_count": counts["accepted records"],
        "notes": counts["note"],
    }


def _has_data_for(rule: Rule, results: Results, totals: dict[str, int]) -> bool:
    """Whether the run has what a rule judges; a rule on brokers' files needs it in one partition."""
    if rule.is_of_brokers:
        return any(all(summary["counts"].get(need) for need in rule.needs) for summary in results.summaries)
    return all(totals.get(need, 0) for need in rule.needs)


def _needing_final_reads(results: Results) -> list[dict[str, Any]]:
    """The summaries of partitions that final reads must cover: without deleted topics, whose records cannot be read."""
    return [
        summary
        for summary in results.summaries
        if summary["counts"]["acknowledged"] and (summary["final"] or not _is_deleted(summary))
    ]


def _no_clients(results: Results) -> str:
    """That no client is recorded, and which files beside the brokers' were not read."""
    sentence = NO_CLIENTS
    for found, unread in (("of no known format", results.run.unknown_texts), ("packed", results.run.archives)):
        if unread:
            names = some([*map(shortened, unread)])
            sentence += f"; {names} {'is' if len(unread) == 1 else 'are'} {found}, and not read"
    return sentence


def _is_deleted(summary: dict[str, Any]) -> bool:
    generation = summary["topic_generation"]
    return generation is not None and generation["deleted"] is not None


def _assumptions(results: Results) -> Iterator[dict[str, Any]]:
    """The assumptions of the verdict, as records (see `assumption`)."""
    if results.counts.get("operations") or not results.run.evidence:
        yield from _about_clients(results)
        if folders := some([*map(shortened, results.run.unread_folders)]):
            sentence = f"no broker's file was found in {folders}: unpack archives, collect the files again, or"
            yield assumption("brokers' files found", False, f"{sentence} remove what is empty", ())
        if archives := [shortened(name) for name in results.run.archives if name not in results.run.unread_folders]:
            sentence = f"{some(archives)} {'is' if len(archives) == 1 else 'are'} packed, and not read"
            yield assumption("archives set aside", True, f"{sentence}: unpack what has evidence of this run", ())
    else:  # no client is recorded, so the assumptions about clients do not apply
        yield assumption("clients recorded", False, _no_clients(results), ())
        if results.left_out:
            yield _well_formed(results)
    yield from _deleted_topics(results)
    yield from _missing_settings(results)
    yield from _insufficient_evidence(results)
    has_clients, has_start = bool(results.counts.get("operations")), results.run.settings.started_ms is not None
    yield from evidence_assumptions(results.summaries, results.damage(), has_clients, has_start)


def _about_clients(results: Results) -> Iterator[dict[str, Any]]:
    counts, summaries, is_native = results.counts, results.summaries, results.run.settings.dialect == "native"
    yield _well_formed(results)
    repeated = sum(summary["repeated_values"] for summary in summaries)
    yield unless_counted(
        repeated,
        "values unique",
        "no value was sent twice to a partition, unless offsets and outcomes distinguish the attempts",
        f"{plural(repeated, 'value')} sent more than once to a partition, and nothing distinguishes the attempts, so"
        " values do not identify records",
        rules_assuming("values"),
    )
    misreported = counts.get("called failed", 0)
    yield unless_counted(
        misreported,
        "timeouts not called failures",
        "every send recorded as fail has an error that proves the failure",
        f"{plural(misreported, 'send')} recorded as fail with an error that proves nothing: judged as info",
        rules_assuming("outcomes"),
    )
    yield _one_clock(results)
    unit = doubtful_unit(_span(results), [summary["latency"] for summary in summaries], counts.get("operations", 0))
    if unit and is_native:
        yield assumption("times in nanoseconds", False, unit, rules_assuming("clock"))
    nowhere = counts.get("acknowledged nowhere", 0)
    if nowhere:
        sentence = f"{plural(nowhere, 'acknowledged send')} without a recorded partition: not checked for loss"
        yield assumption("partitions recorded", False, sentence, rules_assuming("partitions"))
    if synthetic := sum(summary["counts"]["synthetic"] for summary in summaries):
        sentence = f"{plural(synthetic, 'send')} without an invocation: the order of sending is not known"
        yield assumption("invocations recorded", False, sentence, rules_assuming("invocations"))
    if not any(summary["counts"]["records"] for summary in summaries):
        acknowledged = "acknowledged send has a recorded partition" if nowhere else "send was acknowledged"
        sentence = f"no {acknowledged} and no poll returned a record, so no guarantee was tested"
        yield assumption("clients were served", False, sentence, ())
    yield from _silent_clients(results)
    yield from _final_reads(results)


def _one_clock(results: Results) -> dict[str, Any]:
    name, span = "one clock", _span(results)
    if backwards := results.counts.get("completed before invoked", 0):
        sentence = f"{plural(backwards, 'operation')} completed before being invoked"
        return assumption(name, False, sentence, rules_assuming("clock"))
    if span is not None and span[0] == span[1] and results.counts.get("operations", 0) > 1:
        sentence = "all completed operations have the same time, so their order is not known"
        return assumption(name, False, sentence, rules_assuming("order"))
    return assumption(name, True, "no operation completed before it was invoked", rules_assuming("clock"))


def _silent_clients(results: Results) -> Iterator[dict[str, Any]]:
    """The broken assumptions about clients without an event in the history, which run.json or an empty file names."""
    settings, recorded = results.run.settings, results.context.filter(kind="events")["process"]
    if empty := results.run.empty:
        sentence = f"{some(empty)} {'is' if len(empty) == 1 else 'are'} empty, so what was recorded there is not known"
        yield assumption("clients recorded", False, sentence, tuple(RULES))
    silent = [name for name in settings.processes if name not in recorded and settings.role(name) in DATA_OF_ROLES]
    if settings.dialect == "native" and silent:
        missing = {need for name in silent for need in DATA_OF_ROLES[settings.role(name)]}
        touched = tuple(rule.name for rule in RULES.values() if missing & {*rule.needs})
        left_out = " (lines that were left out may have some)" if results.left_out else ""
        sentence = f"run.json names {some(silent)}, but the history has no event of them{left_out}"
        sentence += ", so what they did is not known"
        yield assumption("clients recorded", False, sentence, touched)


def _well_formed(results: Results) -> dict[str, Any]:
    left = results.left_out
    sentence = "every line was read"
    if left:
        sentence = f"{plural(left, 'line')} {'was' if left == 1 else 'were'} left out (quarantine.jsonl)"
        sentence += f", {'' if left == 1 else 'the first '}{results.first_left_out()}"
    return assumption("lines well formed", left == 0, sentence, tuple(rules_of(results.run.settings.dialect)))


def _deleted_topics(results: Results) -> Iterator[dict[str, Any]]:
    """The assumption about deleted topics: their records are legally gone. Empty if no topic was deleted."""
    deleted: dict[str, dict[str, None]] = {}
    for summary in filter(_is_deleted, results.summaries):
        times = deleted.setdefault(summary["topic"], {})
        if not results.run.settings.is_undated:  # without a history, times count from 1970
            times[in_words(Span(*summary["topic_generation"]["deleted"]))] = None
    sentences = [f"{topic} was deleted{' ' if times else ''}{some([*times])}" for topic, times in deleted.items()]
    if sentences:
        effect = "its records are legally gone, and each topic id is judged as a log of its own"
        yield assumption("deleted topics judged apart", True, f"{some(sentences)}: {effect}", ())


def _missing_settings(results: Results) -> Iterator[dict[str, Any]]:
    """The assumption that run.json sets what verdicts depend on; empty if it does."""
    missing = {tuple(one) for summary in results.records for one in summary["missing settings"]}
    if missing:
        names = some(sorted({setting for _, setting in missing}))
        sentence = f"run.json does not set {names}, and verdicts depend on that"
        yield assumption("configuration recorded", False, sentence, tuple(sorted({rule for rule, _ in missing})))


def _insufficient_evidence(results: Results) -> Iterator[dict[str, Any]]:
    """The assumption that every rule had enough evidence, with the evidence that is missing; empty if it holds."""
    unjudged = [summary["unjudged"] for summary in results.records]
    reasons = dict.fromkeys(sentence for one in unjudged for sentences in one.values() for sentence in sentences)
    if reasons:
        touched = tuple(name for name in RULES if any(one.get(name) for one in unjudged))
        yield assumption("evidence sufficient", False, some([*reasons], separator="; "), touched)


def _why_no_final_reader(settings: Settings) -> str:
    """The reason why no process counts as a final reader, as a clause."""
    named, odd = settings.final_processes(), settings.unknown_roles()
    if odd and not named:
        return f"as run.json has unknown roles ({some(odd)}), expected {', '.join(ROLES)}"
    if named and settings.has_final_reads:
        return f"as {some(named)} recorded no read, or none after the last heal"
    missing = ['"final": true'] * (not settings.has_final_reads) + ["a process with the role final"] * (not named)
    has = "as run.json lacks" if settings.has_run_json else "as there is no run.json with"
    return f'{has} {" and ".join(missing)}; a Recorder writes both: recorder.finish(final_read="PROCESS")'


def _final_reads(results: Results) -> Iterator[dict[str, Any]]:
    """The assumption that final reads covered all acknowledged records; empty if there are none to read."""
    name, touched = "final reads complete", tuple(name for name, rule in RULES.items() if rule.needs_final)
    concerned = _needing_final_reads(results)
    without = [summary["label"] for summary in concerned if summary["final"] is None]
    short = [summary["label"] for summary in concerned if summary["final"] and not summary["final"]["complete"]]
    reasons = []
    if without:
        reasons.append(f"no final read of {some(without)} is recorded, {_why_no_final_reader(results.run.settings)}")
    if short:
        reasons.append(f"{some(short)}: the final reads do not cover the log from start to end")
    if results.run.settings.dialect == "jepsen":
        yield assumption(name, True, "a Jepsen history counts as final", touched)
    elif reasons:
        yield assumption(name, False, "; ".join(reasons), touched)
    elif concerned:
        readers = sorted({reader for summary in concerned for reader in summary["final"]["processes"]})
        sentence = f"{', '.join(readers)} read every partition to its end"
        finals = ((summary["label"], summary["final"]) for summary in concerned)
        if silent := [name for name, final in finals if final["start"] == final["end"] and final["requested"] is None]:
            sentence += f"; {some(silent)} returned nothing, and only run.json shows that the end was reached there:"
            sentence += " request its end offset (end_offsets)"
        yield assumption(name, True, sentence, touched)
