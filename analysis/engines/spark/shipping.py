"""Ships this package to workers that lack it. They need its dependencies and the same version of Python."""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from . import worker_package
from .driver_files import driver_folder
from .worker_package import CODE, FOLDERS, digest_of, files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship_code(session: SparkSession) -> None:
    """Sends the package to workers; those that have the same files installed use their own."""
    archive = driver_folder() / "logjudge_code.zip"  # workers fetch it from there until the session ends
    write_code_archive(archive)
    session.addArtifacts(str(archive), pyfile=True)


def write_code_archive(archive: Path) -> None:
    """Writes a zip from which Python can import `logjudge`, by way of worker_package.py."""
    roots = {"": Path(str(files("logjudge"))), **{name: Path(str(files(f"logjudge.{name}"))) for name in FOLDERS}}
    sources = files_of(roots)
    start = Path(worker_package.__file__).read_text().replace('DIGEST = ""', f'DIGEST = "{digest_of(sources)}"', 1)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("logjudge/__init__.py", start)
        for name, path in sources:
            packed.write(path, f"{CODE}/{name}")
