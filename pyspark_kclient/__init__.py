"""Where PySpark finds kclient by itself: it imports top-level packages whose names begin with `pyspark_`.

So `format("kclient")` works wherever kclient is installed. There is nothing else in here.
"""

from kclient.spark import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
