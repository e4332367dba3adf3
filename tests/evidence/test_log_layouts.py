"""Layouts of log4j other than Kafka's: lines of one real broker of Kafka 4.1 in the zone Asia/Kolkata."""

from __future__ import annotations

from pathlib import Path

import pytest
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.log_prefixes import in_kafkas_layout, split_prefix

LED = (
    "[Broker id=1] Leader orders-0 with topic id Some(gqL28klVTAyOIq5xW91q_A) starts at leader epoch 0 from offset 0"
    " with partition epoch 0, high watermark 0, ISR [1], adding replicas [] and removing replicas [] . Previous leader"
    " None and previous leader epoch was -1."
)
LOCAL, IN_UTC = "[2026-11-28 15:41:09,857]", "[2026-11-28 10:11:09,857]"
THREAD = "[kafka-1-metadata-loader-event-handler]"
# By log4j's pattern: the line, and the same in Kafka's layout.
LAYOUTS = {
    "[%d] %p %m (%c)": (f"{LOCAL} INFO {LED} (state.change.logger)", f"{LOCAL} INFO {LED} (state.change.logger)"),
    "[%d{ISO8601}] %p %m (%c)": (
        f"[2026-11-28T15:41:09,857] INFO {LED} (state.change.logger)",
        f"{LOCAL} INFO {LED} (state.change.logger)",
    ),
    "%d{ISO8601} [%t] %-5p %c - %m": (
        f"2026-11-28T15:41:09,857 {THREAD} INFO  state.change.logger - {LED}",
        f"{LOCAL} INFO {LED} (state.change.logger)",
    ),
    "%d{ISO8601_OFFSET_DATE_TIME_HHCMM} %p [%t] %c{1}:%L - %m": (
        f"2026-11-28T15:41:09,857+05:30 INFO {THREAD} logger:69 - {LED}",
        f"{IN_UTC} INFO {LED} (logger)",
    ),
    "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p [%t] %c: %m": (
        f"2026-11-28T15:41:09.857+05:30 INFO  {THREAD} state.change.logger: {LED}",
        f"{IN_UTC.replace(',', '.')} INFO {LED} (state.change.logger)",
    ),
    "%d{yyyy-MM-dd HH:mm:ss} %p %m (%c) [%t]": (
        f"2026-11-28 15:41:09 INFO {LED} (state.change.logger) {THREAD}",
        f"{LOCAL[:-4]}000] INFO {LED} (state.change.logger)",
    ),
}


@pytest.mark.parametrize("pattern", LAYOUTS)
def test_a_line_of_another_layout_has_its_time_and_its_message(pattern: str, tmp_path: Path) -> None:
    line, expected = LAYOUTS[pattern]
    assert in_kafkas_layout(line) == expected
    assert split_prefix(f"kafka-1  | {line}") == ("kafka-1", expected)
    (tmp_path / "server.log").write_text(line + "\n")
    [part] = find_parts(tmp_path)
    assert (part.kind, part.broker) == ("log", "1")


@pytest.mark.parametrize("prefix", ["2026-11-28T10:11:09.857123456Z ", "2026-11-28T10:11:09.857123456Z stdout F "])
def test_a_collectors_time_is_not_the_brokers(prefix: str) -> None:
    line, expected = LAYOUTS["[%d] %p %m (%c)"]
    assert split_prefix(prefix + line) == ("", expected)


@pytest.mark.parametrize("data", ["-", '[meta@32473 sequenceId="1"][origin ip="10.0.0.1"]', "- \ufeff"])
def test_a_line_of_syslog_has_its_host_and_program(data: str) -> None:
    line, expected = LAYOUTS["[%d] %p %m (%c)"]
    prefix = f"<30>1 2026-11-28T10:11:09.857Z host-1 kafka 7 - {data} ".replace("\ufeff ", "\ufeff")
    assert split_prefix(prefix + line) == ("host-1 kafka", expected)


def test_a_message_that_begins_with_brackets_or_a_colon_names_no_thread_and_no_logger() -> None:
    for message in ("[KafkaApi-1] Exception: x (kafka.server.KafkaApis)", "Registered: signal handlers (x)", LED):
        assert in_kafkas_layout(f"2026-11-28 15:41:09,857 INFO {message}") == f"{LOCAL} INFO {message}"
