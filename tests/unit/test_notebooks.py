"""The notebooks among the examples run in a kernel of their own, and print what is stored in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def printed(notebook: Any) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output["text"] for output in outputs if output["output_type"] == "stream"]


def kinds(notebook: Any) -> list[set[str]]:
    """What else cells gave: tables and pictures, by their media types."""
    return [
        set(output["data"])
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_gives_what_is_stored_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    stored = printed(notebook), kinds(notebook)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert (printed(notebook), kinds(notebook)) == stored
    assert len(stored[0]) >= 3
