"""The wheel as users get it: what is in it, what it brings along, and that it works in an empty environment.

Built as a release is, in isolation, the wheel out of the sdist. Installed with pip, because pip is what knows
how this machine reaches a package index. A Python that the machine lacks is skipped and named.
"""

from __future__ import annotations

import email.message
import email.parser
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import kclient
from tests.packaging.interpreters import find_python

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
PATIENCE = 240
# Python's own settings, such as a PYTHONPATH to the source, would make the environment less than empty.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env=CLEAN, timeout=PATIENCE, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a release: one sdist, and one wheel made from it."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", directory, ROOT)
    return directory


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.parser.Parser().parsestr(archive.read(name).decode())


def sources(package: str) -> set[str]:
    """The files of a package in this checkout."""
    found = (path for path in (ROOT / package).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if path.suffix != ".pyc"}


def test_the_wheel_has_the_whole_of_each_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set().union(*map(sources, PACKAGES))
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_sdist_has_what_a_reader_needs_to_test_it(built: Path) -> None:
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}
    assert {"kclient", "tests", "tools", "examples", "docs", "Makefile", "LICENSE", "pyproject.toml"} <= top


def test_the_metadata_says_what_is_true(metadata: email.message.Message) -> None:
    assert metadata["Version"] == kclient.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata["Project-URL"] is None, "name only addresses that exist, and test them here"
    minors = re.findall(r"Python :: 3\.(\d+)", "\n".join(metadata.get_all("Classifier", [])))
    assert minors
    assert metadata["Requires-Python"] == f">=3.{min(map(int, minors))}"


def test_the_required_packages_are_these_three(metadata: email.message.Message) -> None:
    required = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert sorted(re.split(r"\W", each)[0] for each in required) == ["cramjam", "crc32c", "numpy"]


def test_the_addresses_in_the_readme_are_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_it_works_in_an_empty_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"NO PYTHON {version}: the wheel was not tried on it. Put it on the PATH, or into pyenv.")
    run(python, "-m", "venv", "--without-pip", tmp_path / "env")
    binaries = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    # Not compiled: most of numpy is never imported here.
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", binaries / "python"]
    run(*pip, "install", "--quiet", "--no-compile", "--only-binary", ":all:", wheel)

    script = Path(__file__).with_name("first_use.py")
    found = json.loads(run(binaries / "python", "-I", "-W", "error", script))
    assert found["packages"] == ["cramjam", "crc32c", "kclient-kafka", "numpy"]
    assert found["version"] == kclient.__version__
    assert Path(found["file"]).is_relative_to(tmp_path)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert found["read"] == {codec: f"compressed with {codec}" * 10 for codec in codecs}
    assert found["hint"] == "records as Arrow batches need pyarrow: pip install 'kclient-kafka[arrow]'"
    code, listed = found["command"]  # without rich, which is an extra
    assert code == 0
    assert "orders" in listed
    assert "broker" in run(binaries / "kclient", "--help")
