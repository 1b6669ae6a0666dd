"""Certificates that are renewed while a client runs: the next connection has the new ones."""

from __future__ import annotations

import logging
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kclient.config import ClientConfig
from kclient.net.settings import dial_settings
from kclient.net.tls_files import TlsFiles
from tools.kafka.certificates import Certificates


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("new"))


@pytest.fixture
def place(tmp_path: Path, old: Certificates) -> Path:
    """Where a client finds its certificate and whom it trusts: ca.pem, client.pem, client.key."""
    install(old, tmp_path)
    return tmp_path


def install(made: Certificates, place: Path, *names: str) -> None:
    for name in names or ("ca.pem", "client.pem", "client.key"):
        shutil.copy(made.ca.parent / name, place / name)


def files_of(place: Path) -> TlsFiles:
    """As a client has them."""
    config = ClientConfig(
        security_protocol="SSL",
        ssl_cafile=place / "ca.pem",
        ssl_certfile=place / "client.pem",
        ssl_keyfile=place / "client.key",
    )
    made = dial_settings(config, random=Random(0)).tls
    assert made is not None
    return made


def trusts(files: TlsFiles, made: Certificates) -> bool:
    """Whether the next connection believes the broker that has these certificates."""
    [authority] = files.context().get_ca_certs(binary_form=True)
    return bool(authority == ssl.PEM_cert_to_DER_cert(made.ca.read_text()))


def test_as_long_as_nothing_changes_there_is_one_context(place: Path) -> None:
    files = files_of(place)
    assert files.context() is files.context()


@pytest.mark.parametrize("way", ["written over", "moved in", "another target of a link"])
def test_files_that_are_replaced_are_read_for_the_next_connection(
    tmp_path: Path, old: Certificates, new: Certificates, way: str
) -> None:
    if way == "another target of a link":  # as Kubernetes does
        for made, name in ((old, "1"), (new, "2")):
            (tmp_path / name).mkdir()
            install(made, tmp_path / name)
        (tmp_path / "now").symlink_to("1")
        place = tmp_path / "now"
    else:
        place = tmp_path
        install(old, place)
    files = files_of(place)
    before = files.context()
    assert trusts(files, old)
    if way == "another target of a link":
        (tmp_path / "next").symlink_to("2")
        os.replace(tmp_path / "next", place)  # noqa: PTH105 - of the link, not of what it leads to
    elif way == "moved in":
        (tmp_path / "incoming").mkdir()
        install(new, tmp_path / "incoming")
        for name in ("ca.pem", "client.pem", "client.key"):
            (tmp_path / "incoming" / name).rename(place / name)
    else:
        install(new, place)
    assert trusts(files, new)
    assert files.context() is not before
    assert files.context() is files.context()


def test_what_is_half_replaced_is_not_used_and_warned_of_once(
    place: Path, new: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_of(place)
    before = files.context()
    install(new, place, "client.pem")  # its key is on the way
    for _ in range(3):
        assert files.context() is before
    [warning] = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "does not belong to the certificate" in warning
    install(new, place, "client.key")
    assert files.context() is not before


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["gone", "empty"])
def test_a_file_that_is_missing_for_a_moment_fails_no_connection(
    place: Path, old: Certificates, loss: Callable[[Path], object]
) -> None:
    files = files_of(place)
    before = files.context()
    loss(place / "ca.pem")
    assert files.context() is before
    install(old, place)
    assert trusts(files, old)


def test_a_context_of_ones_own_stays_as_it_is() -> None:
    own = ssl.create_default_context()
    config = ClientConfig(security_protocol="SSL", ssl_context=own)
    files = dial_settings(config, random=Random(0)).tls
    assert files is not None
    assert files.context() is own


def test_the_authorities_of_the_system_are_looked_at_too(
    place: Path, new: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(place / "ca.pem"))
    config = ClientConfig(security_protocol="SSL")
    files = dial_settings(config, random=Random(0)).tls
    assert files is not None
    before = files.context()
    install(new, place, "ca.pem")
    assert files.context() is not before
    assert trusts(files, new)
