"""kcat, where it is installed, produces to and consumes from the broker."""

from __future__ import annotations

import shutil
import subprocess

import pytest

_KCAT = shutil.which("kcat") or shutil.which("kafkacat")
_PATIENCE = 20.0

pytestmark = pytest.mark.skipif(_KCAT is None, reason="kcat is not installed")


def kcat(servers: str, *args: str, stdin: bytes = b"") -> str:
    assert _KCAT is not None
    done = subprocess.run(
        [_KCAT, "-b", servers, *args], input=stdin, capture_output=True, timeout=_PATIENCE, check=True
    )
    return done.stdout.decode()


def test_kcat_prints_what_it_read(servers: str) -> None:
    kcat(servers, "-P", "-t", "lines", "-z", "lz4", stdin=b"one\ntwo\n")

    assert kcat(servers, "-C", "-t", "lines", "-e", "-q").split() == ["one", "two"]
    assert 'topic "lines" with 1 partitions' in kcat(servers, "-L")
