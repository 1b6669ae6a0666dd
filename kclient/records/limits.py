"""How far bytes from strangers may grow in memory.

Not the size of a frame (that is the connection's business): only what decompression may make of it.
Passed by the consumer and the embedded broker to `read_batches`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for the decompressed records of one batch.

    Text that repeats itself compresses very well when there is little of it, so the ratio is only looked at
    beyond `free_bytes`.
    """

    max_batch_bytes: int = 48 * 1024 * 1024
    max_ratio: int = 256
    free_bytes: int = 16 * 1024 * 1024

    def allowance(self, compressed_size: int) -> int:
        """The most bytes that `compressed_size` compressed bytes may become.

        >>> Limits(max_batch_bytes=1000, max_ratio=10, free_bytes=50).allowance(20)
        200
        """
        return min(self.max_batch_bytes, max(self.free_bytes, compressed_size * self.max_ratio))


DEFAULT_LIMITS = Limits()
