"""examples/notebook.ipynb: a kernel executes it, and its results are what the stored ones say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


def texts(notebook: Any) -> list[str]:
    """The output of each cell, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.get("text") or output["data"]["text/plain"] for output in outputs]


def test_the_notebook_shows_what_it_stores() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    run = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(run, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOK.parent}}).execute()
    assert len(texts(run)) == 5
    assert texts(run) == texts(stored)  # `jupyter execute --inplace examples/notebook.ipynb` stores new ones
    shown = run.cells[1].outputs[0]["data"]["text/html"]
    assert shown.startswith("<iframe")
    assert "753 acknowledged writes of 2,999 were lost" in shown
