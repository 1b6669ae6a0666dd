"""How far bytes from strangers may grow in memory.

Not the size of a frame (that is the connection's business): only what decompression may make of it.
Passed by the consumer, Spark's readers and the embedded broker to `read_batches`; producers keep to it.
"""

from __future__ import annotations

from dataclasses import dataclass

# As many bytes as an answer may have: what can be read uncompressed can be read compressed.
DECOMPRESSED_BATCH_MAX_BYTES = 100_000_000
# An object costs hundreds of bytes: many small records must not take all that a few large ones may.
_BYTES_OF_A_RECORD = 40
_LEAST_RECORD = 7


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for the decompressed records of one batch.

    There is none for the ratio: 20 MB of one letter are 2 KB of zstd, and so is the beginning of a bomb.
    """

    max_batch_bytes: int = DECOMPRESSED_BATCH_MAX_BYTES

    @property
    def most_records(self) -> int:
        """The most records that a compressed batch may have.

        >>> Limits(max_batch_bytes=4000).most_records
        100
        """
        return self.max_batch_bytes // _BYTES_OF_A_RECORD

    @property
    def of_many(self) -> int:
        """So many bytes hold no more than `most_records`, however small they are."""
        return self.most_records * _LEAST_RECORD


DEFAULT_LIMITS = Limits()
