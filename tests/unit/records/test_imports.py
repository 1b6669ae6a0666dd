"""What importing the package costs: nothing heavy before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
import kclient.records
from kclient.records import encode_batch, read_batches
{use}
print(*sorted({{"numpy", "pyarrow", "cramjam", "crc32c", "zlib"}} & set(sys.modules)))
"""

SMALL = (
    'data = encode_batch([(b"k", b"v", 1, ())] * 5); [batch.records("t", 0) for batch in read_batches(data)]'
)
LARGE = SMALL.replace("* 5", "* 500")


@pytest.mark.parametrize(
    ("use", "loaded"),
    [("", ""), (SMALL, "crc32c"), (LARGE, "crc32c numpy")],
    ids=["import", "small batches", "large batches"],
)
def test_packages_are_imported_when_they_are_needed(use: str, loaded: str) -> None:
    program = _PROGRAM.format(use=use)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [*loaded.split(), *(["zlib"] if "zlib" in run.stdout else [])]


_ARROW = """
import sys
from kclient.records import encode_batch, read_batches
from kclient.records.arrow import arrow_from_records, concat_batches, first_from
for count in (5, 500):
    records = [(None, b"v" * (1 + number % 2), 1, (("h", b"x"),) * (number % 3)) for number in range(count)]
    batch = next(read_batches(encode_batch(records)))
    table = batch.arrow("t", 0)
    assert concat_batches([table, concat_batches([])]) == arrow_from_records(batch.records("t", 0))
    assert first_from(table.slice(1), 3) == 2
print(*{"pandas", "pyarrow"} & set(sys.modules))
"""


def test_arrow_is_made_without_pandas_which_is_large() -> None:
    pytest.importorskip("pandas")
    run = subprocess.run([sys.executable, "-c", _ARROW], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["pyarrow"]
