"""Streaming reads with limits and with AvailableNow, as PySpark has them since 4.2."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kclient.errors import ConfigurationError, KafkaError
from kclient.spark.admission import Admission, proportional
from kclient.spark.changes import begins, recreated
from kclient.spark.offsets import Mark, Offsets, from_json
from kclient.spark.reading import plainly
from kclient.spark.stream import Json, StreamReader
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class AdmittedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Says how far the next micro-batch goes."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._least = self._options["minOffsetsPerTrigger"]
        self._most = self._options["maxOffsetsPerTrigger"]
        if self._least is not None and self._most is not None and self._least > self._most:
            raise ConfigurationError(
                f"minOffsetsPerTrigger={self._least} is more than maxOffsetsPerTrigger={self._most}: no "
                "micro-batch could have as many"
            )
        self._admission = Admission(self._least, self._most, self._options["maxTriggerDelay"])
        self._frozen: Mark | None = None
        self._reported: Json | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._most is not None:
            return ReadMaxRows(self._most)
        return ReadAllAvailable() if self._least is None else ReadMinRows(self._least)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now is all that this query reads."""
        try:
            self._frozen = self._now()
        except KafkaError as error:
            raise plainly(error) from None

    def _begin(self, ids: Mapping[TopicPartition, str]) -> Offsets:
        """Not behind the end of an AvailableNow, for which Spark asks first: records may come in between."""
        found = super()._begin(ids)
        if self._frozen is None:
            return found
        ends = self._frozen.offsets
        return {
            key: min(at, ends[key]) if self._starting.place(key).asked else at
            for key, at in found.items()
            if key in ends
        }

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # type: ignore[override] # noqa: N802
        try:
            latest = self._latest_offset(start, limit)
        except KafkaError as error:
            raise plainly(error) from None
        # Spark tells of a batch's end only when the next one begins, but never asks from where it is not yet.
        # Not before the question: while no broker is there, that is what waits.
        self.commit(start)
        return latest

    def _latest_offset(self, start: Json, limit: ReadLimit) -> Json:
        latest = self._frozen or self._now()
        self._reported = latest.to_json()
        if isinstance(limit, ReadAllAvailable):
            return self._reported
        before = from_json(start)
        first = begins(before, latest, self._directory.earliest)
        if self._frozen is None:
            end = self._admission.next_end(first, latest.offsets, time.monotonic() * 1000)
        elif self._most is not None:
            end = proportional(first, latest.offsets, self._most)
        else:  # too little is all there will be
            end = latest.offsets
        # A topic made again may have as many records as the one before: that it is another one is news.
        news = any(recreated(topic, before, latest) for topic in latest.ids)
        # Ids that are left out from now on leave the checkpoint at once, by a micro-batch without records.
        forgotten = bool(before.ids) and not self._options["kclient.topicIds"]
        if end == before.offsets and not news and not forgotten:
            return start
        return Mark(end, latest.ids).to_json()

    def _now(self) -> Mark:
        ids = self._directory.partitions()
        return self._mark(self._directory.latest(ids), ids)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """The ends of the partitions when they were last asked for, whatever the limits."""
        return self._reported
