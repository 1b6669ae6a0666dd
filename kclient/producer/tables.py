"""`send_arrow` and `send_pandas` take tables: columns `value`, and where they are there `key`, `partition`,
`timestamp` and `headers`, as `AsyncConsumer.getarrow` and Spark name them.

Only the way in, for clients, which do not import pyarrow. The work is `table_rows`'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kclient.errors import ConfigurationError

if TYPE_CHECKING:
    from kclient.producer.config import ProducerConfig
    from kclient.producer.many import Source


def records_from(
    topic: str, table: Any, config: ProducerConfig, check_size: Callable[[str, int, str], None]
) -> Source:
    """The records of a pandas frame, or of whatever speaks Arrow.

    `check_size` is given a topic, the size of a record and what to call it, and raises if that is too large.
    """
    try:
        from kclient.producer.table_rows import Rows  # noqa: PLC0415 - only those who have tables pay for pyarrow
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise ConfigurationError("tables need pyarrow: pip install 'kclient-kafka[arrow]'") from error
    return Rows(topic, config, check_size).source(table)
