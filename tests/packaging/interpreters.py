"""Finds the Pythons of this machine: the one that runs, those on the PATH, those that pyenv keeps off it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def find_python(version: str) -> Path | None:
    """An interpreter of "3.12", or None. What is found is asked: shims of pyenv may lead nowhere."""
    return next((path for path in _candidates(version) if _answers(path) == version), None)


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    for directory in os.get_exec_path():
        if found := shutil.which(f"python{version}", path=directory):
            yield Path(found)
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, timeout=60, check=False)
        if root.returncode == 0:
            yield from sorted(Path(root.stdout.strip(), "versions").glob(f"{version}.*/bin/python"))


def _answers(python: Path) -> str:
    question = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-Ic", question], capture_output=True, text=True, timeout=60, check=False)
    return asked.stdout.strip()
