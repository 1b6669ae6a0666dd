"""pytest in a process and a project of its own, with the plugin as an installation of kclient brings it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "kclient.testing.plugin"
ROOT = Path(__file__).parents[3]


def run_pytest(project: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Write files into a directory and run the tests there."""
    for name, text in files.items():
        (project / name).write_text(text, encoding="utf-8")
    (project / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8"
    )
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    load = [] if installed else ["-p", PLUGIN]  # not twice: pytest refuses that
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *load, *options],
        capture_output=True,
        text=True,
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
