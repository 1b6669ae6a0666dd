"""What a principal may do, as brokers say it in passing: a set of operations packed into bits."""

from __future__ import annotations

from enum import IntEnum

# What a broker answers when it was not asked, or has nothing to say.
_NOT_TOLD = -(1 << 31)


class AclOperation(IntEnum):
    """An operation that an ACL allows or denies; the numbers are Kafka's."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def read_operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations in a bit field; None where the broker did not tell.

    >>> sorted(operation.name for operation in read_operations(1 << 3 | 1 << 8))
    ['DESCRIBE', 'READ']
    """
    if bits == _NOT_TOLD:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)
