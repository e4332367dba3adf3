"""Kafka's own jars: from `KAFKA_HOME`, from the cache, or from Maven Central by the user's Maven or pyspark's Ivy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...errors import MissingComponentError, UsageError, describe_error

FETCH_SECONDS = 900
_PROBLEM = re.compile("ERROR|module not found")  # in what Maven and Ivy print
Artifact = tuple[str, str, str]  # group, name, version
_LOG4J_2 = (
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)
_RELOAD4J = (("ch.qos.reload4j", "reload4j", "1.2.25"), ("org.slf4j", "slf4j-reload4j", "1.7.36"))
# reload4j lacks classes that ZooKeeper 3.4 uses.
_LOG4J = (("log4j", "log4j", "1.2.17"), ("org.slf4j", "slf4j-log4j12", "1.7.36"))
# Java 11 removed these two.
_JAXB = (("javax.xml.bind", "jaxb-api", "2.3.1"), ("javax.activation", "javax.activation-api", "1.2.0"))


@dataclass(frozen=True)
class Release:
    """A line of Kafka releases that the lab can start."""

    version: str  # the patch release that is started unless the user names one
    scala: str
    libraries: tuple[Artifact, ...]  # that Kafka's own list of dependencies leaves out
    has_zookeeper: bool = False
    has_log4j_2: bool = True
    has_idempotence: bool = True  # since KIP-98, Kafka 0.11


RELEASES = {
    "4.4": Release("4.4.0", "2.13", _LOG4J_2),
    "4.3": Release("4.3.1", "2.13", _LOG4J_2),
    "4.2": Release("4.2.2", "2.13", _LOG4J_2),
    "4.1": Release("4.1.1", "2.13", _LOG4J_2),
    "4.0": Release("4.0.1", "2.13", _LOG4J_2),
    "3.9": Release("3.9.1", "2.13", _RELOAD4J, has_log4j_2=False),
    "2.8": Release("2.8.2", "2.13", _RELOAD4J, has_zookeeper=True, has_log4j_2=False),
    "1.1": Release("1.1.1", "2.12", (*_JAXB, *_LOG4J), has_zookeeper=True, has_log4j_2=False),
    "0.10.2": Release("0.10.2.2", "2.12", _JAXB, has_zookeeper=True, has_log4j_2=False, has_idempotence=False),
}
DEFAULT = "4.1"


@dataclass(frozen=True)
class Kafka:
    """The jars of one version."""

    version: str
    release: Release
    jars: Path  # a folder


def release_of(version: str) -> tuple[str, Release]:
    """The full version and the line of a version such as 4.1 or 4.1.1. Raises UsageError."""
    for line, release in RELEASES.items():
        if version == line:
            return release.version, release
        if version.startswith(line + ".") and re.fullmatch(r"[0-9.]+", version):
            return version, release
    raise UsageError(f"found Kafka {version}, expected one of {', '.join(RELEASES)}, or a patch release of these")


def find_kafka(version: str = "") -> Kafka | None:
    """The jars that are on this machine, or None. Raises UsageError if KAFKA_HOME does not fit."""
    home = os.environ.get("KAFKA_HOME")
    if home:
        return _at_home(Path(home), version)
    full, release = release_of(version or DEFAULT)
    folder = cache_folder() / full
    return Kafka(full, release, folder) if folder.is_dir() else None


def fetch_kafka(version: str = "") -> Kafka:
    """The jars of a version; Maven or Ivy fetches them into the cache if they are not there. Raises LogjudgeError."""
    found = find_kafka(version)
    if found:
        return found
    full, release = release_of(version or DEFAULT)
    artifacts = (("org.apache.kafka", f"kafka_{release.scala}", full), *release.libraries)
    folder = cache_folder() / full
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
        jars = Path(scratch) / "jars"
        _fetch(_command(full, artifacts, Path(scratch), jars), jars, full)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # unless another process was first
                raise
    return Kafka(full, release, folder)


def java() -> str:
    """The path of Java. Raises MissingComponentError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        raise MissingComponentError(
            "found no Java, expected Java 17 or newer to start Kafka; "
            "install it (`apt-get install openjdk-17-jre-headless`)"
        )
    return found


def cache_folder() -> Path:
    """The folder of fetched jars: logjudge/kafka in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "logjudge" / "kafka"


def _at_home(home: Path, version: str) -> Kafka:
    jars = sorted((home / "libs").glob("kafka-clients-*.jar"))
    found = re.search(r"kafka-clients-([0-9.]+?)\.jar$", jars[0].name) if jars else None
    if not found:
        raise UsageError(f"KAFKA_HOME={home}: found no libs/kafka-clients-VERSION.jar, expected an unpacked Kafka")
    full, release = release_of(found[1])
    if version and not f"{full}.".startswith(f"{version}."):
        raise UsageError(f"KAFKA_HOME={home}: found Kafka {full}, expected {version}; unset KAFKA_HOME to fetch it")
    return Kafka(full, release, home / "libs")


def _command(version: str, artifacts: tuple[Artifact, ...], scratch: Path, jars: Path) -> list[str]:
    """The command that copies artifacts with their runtime dependencies into the folder `jars`."""
    if maven := shutil.which("mvn"):
        (scratch / "pom.xml").write_text(_pom(artifacts), encoding="utf-8")
        goal = [maven, "-q", "-B", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies"]
        return [*goal, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    if found := ivy():
        (scratch / "ivy.xml").write_text(_ivy_module(artifacts), encoding="utf-8")
        start = [java(), "-jar", str(found), "-warn", "-cache", str(scratch / "cache")]
        retrieve = ["-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
        return [*start, "-ivy", str(scratch / "ivy.xml"), "-confs", "default", *retrieve]
    raise MissingComponentError(
        f"found neither KAFKA_HOME nor Maven nor the Ivy of pyspark, expected one of them for Kafka {version}; install"
        " Maven (`apt-get install maven`), or unpack Kafka and set KAFKA_HOME to its folder"
    )


def ivy() -> Path | None:
    """Ivy's jar, which comes with pyspark."""
    spark = find_spec("pyspark")
    folders = spark.submodule_search_locations if spark else None
    return next((jar for folder in folders or () for jar in sorted(Path(folder, "jars").glob("ivy-[0-9]*.jar"))), None)


def _pom(artifacts: tuple[Artifact, ...]) -> str:
    items = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version></dependency>"
        for group, name, number in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>logjudge</groupId><artifactId>lab</artifactId><version>1</version>"
        f"<dependencies>{items}</dependencies></project>\n"
    )


def _ivy_module(artifacts: tuple[Artifact, ...]) -> str:
    items = "".join(
        f'<dependency org="{group}" name="{name}" rev="{number}" conf="default->default"/>'
        for group, name, number in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="logjudge" module="lab"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{items}</dependencies></ivy-module>\n'
    )


def _fetch(command: list[str], jars: Path, version: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingComponentError(f"Kafka {version} could not be fetched ({describe_error(error)})") from error
    if done.returncode or not list(jars.glob("kafka-clients-*.jar")):
        lines = [line for line in (done.stdout + done.stderr).splitlines() if _PROBLEM.search(line)]
        reason = re.sub(r"\x1b\[[0-9;]*m|\[ERROR\] *", "", lines[0]).strip()[:300] if lines else "no jars were fetched"
        raise MissingComponentError(f"Kafka {version} could not be fetched by {Path(command[0]).name}: {reason}")
