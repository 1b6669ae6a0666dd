"""Which tests `make test` runs in one process."""

from __future__ import annotations

import pytest

from tests.conftest import group_of


@pytest.mark.parametrize(
    ("node_id", "group"),
    [
        ("tests/unit/test_clock.py::test_a[x::y]", "tests/unit/test_clock.py"),
        ("tests/spark/test_read.py::test_a", "Spark"),
        ("tests/spark/test_write.py::Some::test_b", "Spark"),
        ("tests/integration/test_security_tls.py::test_a", "secured brokers"),
        ("tests/integration/test_producer_security.py::test_a", "secured brokers"),
        ("tests/integration/test_producer_cuts.py::test_a", "tests/integration/test_producer_cuts.py"),
    ],
)
def test_modules_stay_whole_and_those_with_dear_fixtures_together(node_id: str, group: str) -> None:
    assert group_of(node_id) == group
