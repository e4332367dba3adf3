"""Records one run: against a cluster of the user's, or a scenario in a lab of its own."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import LogjudgeError, UsageError
from .collect import collect, sources_of
from .final_reads import FINAL, abort_transactions, read_to_the_end
from .kafka_clients import ClientSettings, admin_client, confluent_kafka
from .lab.cluster import Plan
from .lab.handle import Lab
from .lab.releases import fetch_kafka
from .nemesis import Nemesis
from .recorder import Recorder
from .scenarios import LabScenario
from .session import Load, Progress, Session
from .workloads import WORKLOADS, topics_of

Report = Callable[[Progress, float | None], None]  # what was done so far, and the seconds left
Notice = Callable[[str], None]


@dataclass
class Recorded:
    """A bundle, and what it lacks."""

    folder: Path
    progress: Progress
    problem: str = ""  # why there are no final reads, or why the recording ended early


@dataclass(frozen=True)
class Request:
    """The workload to record, where, and for how long."""

    folder: Path
    workload: str
    seconds: float
    load: Load
    settings: ClientSettings
    version: str = ""  # of Kafka, where it is known


def record_scenario(scenario: LabScenario, folder: Path, report: Report, notice: Notice) -> Recorded:
    """Start a cluster, record a workload under faults, and add the brokers' files. Raises LogjudgeError."""
    _need_new(folder)
    confluent_kafka()  # without it a cluster would start for nothing
    lab_folder = folder.absolute().with_name(folder.name + "-lab")
    if lab_folder.exists():
        left = "the lab of a recording that failed or still runs; its logs say why"
        raise UsageError(f"{lab_folder}: found {left}, expected no such folder: remove it, or name another --out")
    kafka = fetch_kafka(scenario.kafka)
    plan = Plan(
        str(lab_folder),
        kafka.version,
        str(kafka.jars),
        scenario.brokers,
        settings=scenario.settings,
        broker_settings=scenario.broker_settings,
        features=scenario.features,
        controllers=scenario.controllers,
    )
    notice(f"starting Kafka {kafka.version}: {scenario.brokers} brokers in {lab_folder}")
    with contextlib.ExitStack() as useless, Lab.start(plan) as lab:
        load = Load(**{"topic": "orders", **scenario.load, "topic_config": scenario.topic})
        producer = {} if kafka.release.has_idempotence else {"enable.idempotence": "false"}
        settings = ClientSettings(lab.bootstrap, {}, {**producer, **scenario.producer}, dict(scenario.consumer))
        request = Request(folder, scenario.workload, 0.0, load, settings, lab.version)
        useless.callback(shutil.rmtree, lab_folder, ignore_errors=True)
        done = record(request, report, notice, lambda session: Nemesis(session, lab, scenario))
        useless.pop_all()  # now its files are evidence
        collect(sources_of([str(lab.folder)]), folder)
    shutil.rmtree(lab_folder, ignore_errors=True)
    return done


def _need_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: found files, expected a new or empty folder for the run")


def record(
    request: Request, report: Report, notice: Notice, make_nemesis: Callable[[Session], Nemesis] | None = None
) -> Recorded:
    """Record a workload against a running cluster. Raises LogjudgeError if nothing could be recorded."""
    _need_new(request.folder)
    workload = WORKLOADS[request.workload]
    admin = admin_client(request.settings)
    system = {"name": "kafka"} | ({"version": request.version} if request.version else {})
    recorder = Recorder(request.folder, system=system)
    session = Session(recorder, request.settings, request.load, admin)
    try:
        session.make_topics(topics_of(workload, session))
    except BaseException:
        with contextlib.suppress(LogjudgeError):
            recorder.finish()
        shutil.rmtree(request.folder, ignore_errors=True)  # nothing was recorded
        raise
    done = Recorded(request.folder, session.progress)
    is_complete = False
    try:
        session.start(workload.clients(session))
        nemesis = make_nemesis(session) if make_nemesis else None
        _work(session, request, report, nemesis)
        if nemesis:
            notice("ending the faults")
            nemesis.heal()
        notice("waiting for what is on its way")
        session.stop()
        if session.error:
            raise session.error
        abort_transactions(session)
        notice("reading every partition to its end")
        read_to_the_end(session)
        is_complete = True
    except LogjudgeError as error:
        done.problem = str(error)
    except KeyboardInterrupt:
        done.problem = "interrupted before the end of the final reads"
    finally:
        session.stopping.set()
        try:
            recorder.finish(final_read=FINAL if is_complete else None)
        except LogjudgeError as error:
            done.problem = str(error)
    return done


def _work(session: Session, request: Request, report: Report, nemesis: Nemesis | None) -> None:
    """Let the clients work for the time, or until the steps of the scenario are done, or Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        if nemesis is None:
            session.wait(request.seconds, lambda left: report(session.progress, left))
            return
        thread = session.background(nemesis.run, "nemesis")
        try:
            session.wait(math.inf, lambda _: report(session.progress, None), lambda: not thread.is_alive())
        finally:
            nemesis.stop()
            thread.join()
