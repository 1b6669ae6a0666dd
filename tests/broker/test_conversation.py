"""The embedded broker answers as Kafka does: one script, held with both, compared field by field."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

from kclient.broker.api import APIS
from kclient.broker.broker import Broker
from kclient.wire.api import ApiKey
from tests.broker import group_script, records_script, script
from tests.broker.conversation import Difference, Exchange, Talk, differences
from tools.kafka.fixtures import StartCluster

SETTINGS = {
    "offsets.topic.num.partitions": "3",  # as `tools.kafka` sets it
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
}

# Kafka may let a thread of its own find assignments, and answers before or after that as it happens.
PROMPT: dict[str, str | None] = {"group.consumer.assignor.offload.enable": "false"}
# Settings show where they come from: this one from nowhere, as with the embedded broker.
DEFAULT_RETENTION: dict[str, str | None] = {"log.retention.ms": None}

MIN_IN_SYNC = r".*\.configs\[min\.insync\.replicas\]\.config_source"


class Named(NamedTuple):
    """A difference that is meant, and why."""

    api: str
    path: str
    why: str

    def covers(self, difference: Difference) -> bool:
        return self.api == difference.api and re.fullmatch(self.path, difference.path) is not None


NAMED = (
    Named("API_VERSIONS", r"api_keys\[\d+\]", "APIs that come with their own issues are not spoken yet"),
    Named("API_VERSIONS", r"(supported|finalized)_features.*", "there is no KRaft quorum that has features"),
    Named("DESCRIBE_QUORUM", r".*", "there is no quorum, and the answer says so"),
    Named("UPDATE_FEATURES", r".*", "features are what they are, and the answer says so"),
    Named("CREATE_TOPICS", MIN_IN_SYNC, "Kafka sets it for the whole cluster, for eligible leader replicas"),
    Named(
        "DESCRIBE_CONFIGS", MIN_IN_SYNC, "Kafka sets it for the whole cluster, for eligible leader replicas"
    ),
    Named(
        "CONSUMER_GROUP_DESCRIBE", r"groups\[\]\.error_.*", "a group without a name is unknown, not invalid"
    ),
    Named("PRODUCE", r".*error_message", "the wording of what is wrong with a record, and the time in it"),
    Named("DESCRIBE_LOG_DIRS", r"results\[0\]\.(total|usable)_bytes", "there is no disk in memory"),
)
CHAPTERS = (
    *script.CHAPTERS,
    *records_script.CHAPTERS,
    *group_script.CHAPTERS,
    records_script.internal,
)
# Kafka cuts the last batch where the limit is; the embedded broker serves whole batches.
CUT = "fetch little"


async def hold(bootstrap: str) -> list[Exchange]:
    host, _, port = bootstrap.partition(":")
    talk = Talk(host, int(port))
    try:
        for chapter in CHAPTERS:
            await chapter(talk)
    finally:
        await talk.close()
    return talk.exchanges


async def hold_with_embedded() -> list[Exchange]:
    async with Broker(racks=("rack1",), config=SETTINGS) as broker:
        return await hold(broker.bootstrap_servers)


def test_a_conversation_with_the_embedded_broker_is_one_with_kafka(kafka_cluster: StartCluster) -> None:
    ours = asyncio.run(hold_with_embedded())
    theirs = asyncio.run(hold(kafka_cluster(config=PROMPT | DEFAULT_RETENTION).bootstrap()))
    assert len(ours) > 1000
    assert {one.api for one in ours} == {ApiKey(key).name for key in APIS}
    found = list(differences(ours, theirs))
    unexpected = [one for one in found if one.label != CUT and not any(named.covers(one) for named in NAMED)]
    assert not unexpected, "\n".join(str(one) for one in unexpected)
    # A difference that is gone must not stay on the list.
    assert [named for named in NAMED if not any(named.covers(one) for one in found)] == []
