"""CRC-32C, the checksum of record batches; message sets of magic 0 and 1 use the CRC-32 of `zlib` instead.

The package behind it costs tens of milliseconds to import, so it is imported with the first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_crc32c: Callable[[bytes | memoryview, int], int] | None = None


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """CRC-32C of `data`, continuing from `value`.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    global _crc32c  # noqa: PLW0603 - the lazily imported implementation
    if _crc32c is None:
        from crc32c import crc32c as implementation  # noqa: PLC0415 - see above

        _crc32c = implementation
    return _crc32c(data, value)
