"""The hook that docs/producer.md shows adds to the headers of the application, and replaces none."""

from __future__ import annotations

import re
from pathlib import Path

from kclient import Consumer
from tests.docs.pages import blocks
from tests.docs.programs import cluster_for, execute


def test_the_documented_hook_keeps_the_headers_of_the_application(tmp_path: Path) -> None:
    (block,) = (each for each in blocks("python") if "class Tracing" in each.code)
    with cluster_for(block, tmp_path) as code:
        execute(block, code)
        (address,) = re.findall(r'bootstrap_servers="(.*?)"', code)
        with Consumer("orders", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            record = next(consumer)
    assert record.headers == (("tenant", b"north"), ("trace", b"17"))
