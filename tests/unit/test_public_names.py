"""What `import kclient` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kclient


def loaded_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    command = [sys.executable, "-I", "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_kclient_loads_nothing_else_of_it() -> None:
    loaded = loaded_after("import kclient")
    assert {name for name in loaded if name.startswith("kclient")} == {"kclient"}
    assert not loaded & {"asyncio", "numpy", "ssl", "socket", "dataclasses", "typing"}


def test_the_admin_client_does_without_what_only_records_need() -> None:
    assert not loaded_after("from kclient import Admin") & {"numpy", "cramjam", "crc32c", "kclient.records"}


def test_neither_clients_nor_the_pytest_plugin_load_the_embedded_broker() -> None:
    loaded = loaded_after("from kclient import Admin, AsyncAdmin; import kclient.testing.plugin")
    assert not {name for name in loaded if name.startswith("kclient.broker")}


@pytest.mark.parametrize("name", kclient.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(kclient, name).__name__ in (name, f"kclient.{name}") or name == "Header"
    assert name in dir(kclient)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kclient' has no attribute 'Broker'"):
        kclient.Broker  # type: ignore[attr-defined]  # noqa: B018


def test_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from kclient import *", names)
    assert set(kclient.__all__) <= set(names)
