"""What the Kerberos tools say on a machine that has no Kerberos."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tools.kafka.errors import MissingSoftwareError
from tools.kafka.kerberos import Kdc, why_unavailable
from tools.kafka.workspace import Workspace


def _found(_program: str, path: str) -> str:
    return path


def test_without_a_kdc_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _program, path: None)  # noqa: ARG005
    reason = why_unavailable()
    assert reason is not None
    assert "needs krb5kdc, kdb5_util, kadmin.local, kinit" in reason
    assert "apt-get install krb5-kdc krb5-admin-server krb5-user" in reason
    with Workspace() as workspace, pytest.raises(MissingSoftwareError, match="krb5-kdc"):
        Kdc(tmp_path, workspace)


def test_without_the_gssapi_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", _found)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "pip install gssapi" in (why_unavailable() or "")


def test_with_both_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", _found)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert why_unavailable() is None
