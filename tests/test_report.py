"""report.html, report.md and plots, from saved results."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from command_line import invoke
from figure_cases import FINAL, HOSTILE, REAL, Judged, Script, judged, lossy, write_run
from logjudge.analysis.incidents.joining import saved_incidents
from logjudge.analysis.rules import ANOMALIES, RULES
from logjudge.plots import PLOTS
from logjudge.plots.report import headline, write_report
from logjudge.plots.report.incidents import worst_incidents
from logjudge.plots.report.postmortem import linked
from logjudge.plots.report.saved import load
from notation import parse
from report_pages import Page, save

WITH_PNG = "kip-101-c"  # the run whose report has all files


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with the results and the report of a recorded run; each is written once and must not be changed."""

    @cache
    def write(name: str) -> Path:
        plots = ("svg", "png") if name == WITH_PNG else ("svg",)
        return save(real(name), tmp_path_factory.mktemp("report") / name, plots)

    return write


def real(name: str) -> Judged:
    return judged(next(path for path in REAL if path.name == name))


@pytest.fixture(scope="module")
def page_text(report_of: Callable[[str], Path]) -> str:
    return (report_of(WITH_PNG) / "report.html").read_text()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tags_of(svg: Path) -> list[str]:
    return [element.tag.rsplit("}", 1)[-1] for element in ET.fromstring(svg.read_bytes()).iter()]


def assert_harmless(links: list[str], folder: Path) -> None:
    """Links lead into the page, to its own files, to the pages of Kafka's project, or to the sources of rules."""
    sources = {rule.source.url for rule in (RULES | ANOMALIES).values()}
    pages = ("https://cwiki.apache.org/confluence/", "https://issues.apache.org/jira/browse/KAFKA-", *sources)
    files = [link for link in links if not link.startswith(("#", "data:image/png;base64,", *pages))]
    assert files
    assert all(re.fullmatch(r"plots/[a-z0-9_-]+[.](png|svg)", link) and (folder / link).is_file() for link in files)


def test_a_loss_is_one_incident_with_its_consequences() -> None:
    run = real("unclean-election-a")
    listed, left_out = worst_incidents(saved_incidents(run.verdict, run.findings), run.findings)
    assert left_out == 0
    assert [entry.finding["rule"] for entry in listed] == ["lost-write", "lost-write"]
    assert listed[0].incident.headline == "377 acknowledged writes were lost: orders-1 at offsets 224 to 600"
    assert [other["rule"] for other in listed[0].others] == [
        "inconsistent-offsets",
        "nonmonotonic-poll",
        "realtime-order",
        "nonmonotonic-send",
        "nonmonotonic-send",
    ]


def test_a_report_redone_from_saved_results_is_the_same(report_of: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(report_of(WITH_PNG), tmp_path / "out")
    (folder / "plots" / "stale.png").write_bytes(b"from an older version")
    result = invoke("report", folder)
    assert result.exit_code == 0
    assert contents(folder) == contents(report_of(WITH_PNG))


# These three have a loss, groups and deleted records.
@pytest.mark.parametrize("name", ["unclean-election-a", "group-rebalance-a", "retention-a"])
def test_saved_results_keep_all_that_a_report_needs(
    name: str, report_of: Callable[[str], Path], tmp_path: Path
) -> None:
    run = real(name)
    for folder, results in (("judged", (run.verdict, run.findings, run.figures)), ("saved", load(report_of(name)))):
        (tmp_path / folder).mkdir()
        write_report(tmp_path / folder, *results, plots=())
    assert contents(tmp_path / "saved") == contents(tmp_path / "judged")


def test_the_page_needs_no_network_and_is_small(report_of: Callable[[str], Path]) -> None:
    folder = report_of(WITH_PNG)
    text = (folder / "report.html").read_text()
    page = Page(text)
    assert_harmless(page.links, folder)
    assert "script" not in page.tags
    assert len(text) < 1_000_000
    assert "362 acknowledged writes of 4,122 were lost. Consumers had already read 198 of them." in page.text
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_the_summary_names_what_is_incomplete(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", lossy(), FINAL)
    with (folder / "history.jsonl").open("a") as file:
        file.write("no line\n")
    out = save(judged(folder), tmp_path / "out", plots=())
    summary = (out / "report.md").read_text().split("## ")[1]
    assert "lines well formed" in summary
    assert "1 line was left out" in summary
    head = (out / "report.html").read_text().split('<ul class="numbers"')[0]
    assert "1 line was left out" in head
    for name in ("report.md", "report.html"):  # the list of assumptions refers to the summary
        assert (out / name).read_text().count("1 line was left out") == 1


@pytest.mark.parametrize("is_incomplete", [False, True])
def test_losses_are_a_lower_bound_where_evidence_is_missing(is_incomplete: bool, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", lossy(), FINAL)
    if is_incomplete:
        with (folder / "history.jsonl").open("a") as file:
            file.write("no line\n")
    run = judged(folder)
    expected = "At least 2 acknowledged writes" if is_incomplete else "2 acknowledged writes"
    assert headline(run.verdict, run.figures["impact"]).startswith(expected)
    assert run.verdict["rules"]["lost-write"]["complete"] is not is_incomplete
    out = save(run, tmp_path / "out")
    assert ("| lost, at least | 2 |" in (out / "report.md").read_text()) is is_incomplete
    assert ("</b>lost, at least</li>" in (out / "report.html").read_text()) is is_incomplete
    assert ("at least 2 of 4" in (out / "plots" / "glance.svg").read_text()) is is_incomplete


def test_the_postmortem_has_its_sections_in_order(report_of: Callable[[str], Path]) -> None:
    folder = report_of(WITH_PNG)
    text = (folder / "report.md").read_text()
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections == [
        "Summary",
        "Impact",
        "Root causes",
        "Trigger",
        "Detection",
        "Timeline",
        "Supporting information",
    ]
    parts = re.findall(r"^### (.*)$", text[text.index("## Supporting information") :], re.MULTILINE)
    assert parts == ["Rules", "Assumptions"]
    assert "| lost after being read | 198 |" in text
    assert "| p0 | 125 | 72 | 0 |" in text
    assert "- c0 never received 198 acknowledged records at orders-0@635-832" in text.replace("\\", "")
    assert "Seek it back to offset 635." in text
    assert "| never received by a consumer that read lost ones in their place | 198 |" in text
    page = (folder / "report.html").read_text()
    assert "<b>198</b>never received" in page
    assert "c0 never received 198 acknowledged records at orders-0@635-832" in page
    assert "Unknown: a client history alone does not show the cause." in text
    assert "2026-11-21 09:51:55.771Z | fault: pause of broker 1" in text
    pictures = re.findall(r"\]\((plots/[^)]*)\)", text)
    assert pictures
    assert all((folder / name).is_file() for name in pictures)
    glance, around = text.index("![glance]"), text.index("![around")  # each next to its subject
    assert text.index("## Root causes") < glance < text.index("## Trigger")
    assert text.index("## Supporting information") < around < text.index("### Assumptions")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("group-rebalance-a", ("handled more than once (at-least-once delivery permits it) | 80 |",)),
        (
            "retention-a",
            (
                "legally gone (deleted, expired or compacted) | 3,049 |",
                "3,049 of them are legally gone (deleted, expired or compacted).",
            ),
        ),
    ],
)
def test_the_impact_includes_what_is_permitted(name: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    run = real(name)
    write_report(tmp_path, run.verdict, run.findings, run.figures, plots=())
    text = (tmp_path / "report.md").read_text().replace("\\", "")
    assert all(part in text for part in parts)


@pytest.mark.parametrize("name", [path.name for path in REAL])
def test_every_recorded_run_has_a_report_with_its_faults(name: str, report_of: Callable[[str], Path]) -> None:
    text = (report_of(name) / "report.md").read_text().replace("\\", "")
    assert PLOTS["glance"].CAPTION[:200] in text
    drawn = list((report_of(name) / "plots").glob("*.svg"))
    assert {path.stem.split("-")[0] for path in drawn} >= {"glance", "offsets"}
    assert all(tags_of(path)[0] == "svg" and path.stat().st_size < 600_000 for path in drawn)
    if name == "retention-a":
        assert "fault: delete-records: logs-0@237, logs-1@240" in text


def test_a_finding_without_values_has_no_line_for_them(tmp_path: Path) -> None:
    run = real("unclean-election-a")
    for findings, has_values in (
        (run.findings, True),
        (run.findings.with_columns(values=pl.col("values").list.head(0)), False),
    ):
        write_report(tmp_path, run.verdict, findings, run.figures, plots=())
        assert ("Values: " in (tmp_path / "report.md").read_text()) == has_values


def test_permitted_findings_of_an_incident_are_counted_apart(report_of: Callable[[str], Path]) -> None:
    run, folder = real("unclean-election-a"), report_of("unclean-election-a")
    [incident] = [one for one in run.verdict["incidents"] if one["lost"]][:1]
    severities = run.findings.filter(pl.col("id").is_in(incident["findings"]))["severity"].to_list()
    permitted = severities.count("permitted")
    assert permitted > 0
    counted = f" {len(severities) - permitted} findings and {permitted} permitted"
    for name in ("report.md", "report.html"):
        assert counted in (folder / name).read_text().replace('<span class="faint">', "")


def test_a_known_cause_is_in_the_report(tmp_path: Path) -> None:
    run = real("kip-101-c")
    loss = next(finding["id"] for finding in run.verdict["findings"] if finding["rule"] == "lost-write")
    fact = {
        "says": "broker 2 truncated to 635",
        "time": 24_300_000_000,
        "source": "server.log",
        "line": 7,
        "byte": None,
    }
    cause = {
        "findings": [loss],
        "cause": "high-watermark-truncation",
        "chain": [fact],
        "prevented_by": ["Kafka 0.11"],
        "citation": "KIP-101",
        "missing": [],
        "readings": [],
        "lost": None,
    }
    verdict = {name: value for name, value in run.verdict.items() if name != "incidents"}
    write_report(tmp_path, {**verdict, "causes": [cause]}, run.findings, run.figures, plots=())
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        for part in ("high-watermark-truncation", "broker 2 truncated to 635", "server.log", "Kafka 0.11", "KIP-101"):
            assert part.replace("-", "\\-") in text or part in text
        assert "a client history alone" not in text
        summary = text[: text.index("Impact" if name.endswith("md") else "</header>")].replace("\\", "")
        assert "Cause: high-watermark-truncation (a follower truncated to a stale high watermark" in summary
        assert "Prevented by: Kafka 0.11." in summary
    assert not (tmp_path / "plots").exists()


def test_counts_fill_their_rows(page_text: str) -> None:
    style, tiles = page_text.split('<ul class="numbers" style="')[1].split("</ul>")[0].split(">", 1)
    assert (tiles.count("<li"), style) == (7, '--columns: 7; --half: 4"')


def test_causes_come_before_pictures_and_findings(page_text: str) -> None:
    places = [page_text.index(part) for part in ("</header>", "Root causes</h2>", "<figure", "Findings</h2>")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(name: str, tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    values = (name + "1", name + "2", name + "3")
    run = judged(write_run(tmp_path / "run", lossy(name, values, name), {**FINAL, "name": name}))
    # run.json with such a start is refused; saved results may have it.
    settings = replace(run.settings, config={**run.settings.config, "started_at": name})
    about = {**run.verdict, "input": {**run.verdict["input"], "started_at": name}}
    run = run._replace(settings=settings, verdict=about)
    is_drawn = not name.isprintable() or "<" in name  # what could be harmful in a picture
    folder = save(run, tmp_path / "out", ("svg",) if is_drawn else ())
    page = Page((folder / "report.html").read_text())
    assert not page.tags & {"script", "iframe", "img", "object", "embed", "form"}
    if is_drawn:
        assert_harmless(page.links, folder)
    assert "\x00" not in page.text
    assert "\u202e" not in page.text
    text = (folder / "report.md").read_text()
    assert len(text) < 60_000
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [child for token in tokens if token.type == "inline" for child in token.children or []]
    assert not [child for child in inline if child.type == "link_open"]
    images = [child for child in inline if child.type == "image"]
    assert all(str(image.attrs["src"]).startswith("plots/") for image in images)
    assert {child.content for child in inline if child.type == "html_inline"} <= {"<!-- -->"}
    assert not [token for token in tokens if token.type == "html_block"]
    headings = [token for token in tokens if token.type == "heading_open"]
    assert len(headings) == 10
    outside = [
        path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name not in ("run", "out", "plots")
    ]
    assert outside == []
    assert (folder / "plots").exists() == is_drawn
    for path in (folder / "plots").glob("*"):
        assert re.fullmatch(r"[a-z0-9_-]+\.svg", path.name)
        assert "text" in tags_of(path)
        assert "script" not in tags_of(path)


@pytest.mark.parametrize(
    "events",
    [
        [],
        Script().poll("c", (0, "a"), (1, "b")).events,
        Script().send("p", "a", 0).send("p", "b", 1).events,
        Script().send("p", "a", None, kind="info").events,
        Script().fault("kill", "1").events,
    ],
    ids=["empty", "no sends", "no reads", "nothing acknowledged", "only a fault"],
)
def test_poor_runs_have_a_report(events: list[dict[str, object]], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", events)
    if not events:
        (folder / "history.jsonl").write_text('{"time":0,"process":"p","op":1,"type":"ok","f":"poll"}\n')
    run = judged(folder)
    out = save(run, tmp_path / "out")
    assert run.verdict["verdict"] in Page((out / "report.html").read_text()).text
    assert "## Summary" in (out / "report.md").read_text()


def test_every_link_within_the_page_has_its_target(page_text: str) -> None:
    targets = set(re.findall(r' id="([^"]*)"', page_text))
    links = {link[1:] for link in Page(page_text).links if link.startswith("#")}
    assert links <= targets
    assert {"findings", "impact", "timeline", "rules", "assumptions", "rule-lost-write"} <= links


def test_every_figure_has_an_alternative_text(page_text: str) -> None:
    figures = re.findall(r"<svg[^>]*>", page_text)
    texts = [re.search(r'role="img" aria-label="([^"]+)"', figure) for figure in figures]
    assert all(texts)
    assert "Run at a glance: 362 of 4,122 acknowledged writes lost, 198 of them after being read" in {
        found[1] for found in texts if found
    }


def test_tables_name_their_columns_and_words_stay_whole(page_text: str) -> None:
    heads = re.findall(r"<th\b[^>]*>(.*?)</th>", page_text)
    assert heads
    assert all(heads)
    assert "overflow-wrap: anywhere" not in re.search(r"body \{[^}]*\}", page_text)[0]  # type: ignore[index]
    assert '<td class="word valid">holds</td>' in page_text


def test_a_card_may_break_between_pages(page_text: str) -> None:
    """Else a long one leaves the rest of a page empty."""
    printed = page_text[page_text.index("@media print") :].split("</style>")[0]
    assert ".incident" not in re.search(r"([^}]*)\{ break-inside: avoid", printed)[1]  # type: ignore[index]


def test_captions_have_no_markup_of_markdown(page_text: str) -> None:
    assert "`" not in Page(page_text).text
    assert not any("`" in plot.CAPTION for plot in PLOTS.values())


def test_sources_become_links_and_hostile_text_does_not() -> None:
    html = str(linked("KIP-101, KAFKA-1211 and <b>KIP-x</b>", 300))
    assert html.count("<a href=") == 2
    assert 'href="https://issues.apache.org/jira/browse/KAFKA-1211">KAFKA-1211</a>' in html
    assert "&lt;b&gt;KIP-x" in html


def test_notes_stand_under_a_heading_of_their_own(tmp_path: Path) -> None:
    """A note alone is no finding; after a breach it has a heading."""
    note = "p:(a@0,b@2).. q:x@1 p:..(a@0,b@2)"
    both = f"{note} p:c@3 f:<a@0 f:<x@1 f:<b@2 f:<other@3"
    for name, text, heading in (("note", note, "Notes (no breach)"), ("both", both, "Findings")):
        folder = save(judged(parse(text).write(tmp_path / name)), tmp_path / f"{name}-report")
        page, markdown = (folder / "report.html").read_text(), (folder / "report.md").read_text()
        assert f'<h2 id="findings">{heading}</h2>' in page
        assert ("<h3>Notes (no breach)</h3>" in page) is (name == "both")
        assert markdown.count("Notes (no breach):\n\n- ") == 1
        assert "(note) " not in markdown.partition("## Impact")[0]
