"""The fixed parts of a record batch (magic 2): where its header fields are and what its attribute bits mean.

```
 0 base offset      8 length (of all after it)   12 leader epoch    16 magic       17 crc (of all after it)
21 attributes      23 last offset delta          27 base timestamp  35 max timestamp
43 producer id     51 producer epoch             53 base sequence   57 record count   61 records
```
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
# Base offset and length: what every format of Kafka's log begins with.
PREFIX = struct.Struct(">qi")
PREFIX_SIZE = PREFIX.size
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
CHECKED_FROM = 21
MAX_TIMESTAMP_AT = 35
PRODUCER_AT = 43
# length, attributes, timestamp, offset, key size, value size, header count: a byte each at least.
MIN_RECORD_SIZE = 7

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records, in the order of the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
