"""Which partition of `__consumer_offsets` holds a group, by the hash that Kafka uses."""

from __future__ import annotations


def partition_for(group_id: str, count: int) -> int:
    """Java's `Utils.abs(groupId.hashCode()) % count`."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    # The smallest int has no positive counterpart; Kafka takes 0 for it.
    signed = code - (1 << 32) if code & 0x8000_0000 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % count
