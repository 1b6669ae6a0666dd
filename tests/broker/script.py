"""What is said to a broker about the cluster, topics and settings, chapter by chapter.

Every chapter is a coroutine that asks through a `Talk` and uses names of its own, on a cluster of one node
that nobody else talks to. Records are in `records_script`,
groups in `group_script`.
"""

from __future__ import annotations

import uuid
from typing import Any

from kclient.errors import TopicAlreadyExistsError
from kclient.wire.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kclient.wire.messages.connection import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kclient.wire.messages.fetch import ListOffsetsRequest
from kclient.wire.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from kclient.wire.messages.quorum import DescribeQuorumRequest, UpdateFeaturesRequest
from kclient.wire.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from kclient.wire.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from kclient.wire.schema import NO_UUID
from tests.broker.conversation import Talk, build

NOBODY = uuid.UUID(int=0xDEAD_BEEF_0000_4000_8000_0000_0000_0001)
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


async def make_topic(talk: Talk, name: str, partitions: int = 1, **configs: str) -> uuid.UUID:
    """A topic to talk about, there for every API before the talk goes on."""
    if "cleanup_policy" not in configs:
        configs = {"retention_ms": "-1", **configs}  # the script's records are years old
    config = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": config}
    # A controller that has just come up may know no node yet, and may take longer than it is given: the next
    # attempt then finds the topic that this one made.
    await talk.until(
        build(CreateTopicsRequest, topics=[topic], timeout_ms=30000),
        7,
        lambda answer: answer.topics[0].error_code in (0, TopicAlreadyExistsError.code),
    )
    return await settled(talk, name, partitions)


async def settled(talk: Talk, name: str, partitions: int) -> uuid.UUID:
    """The id of a topic once all its partitions have leaders."""
    request = build(MetadataRequest, topics=[{"name": name}], allow_auto_topic_creation=False)
    answer = await talk.until(
        request,
        13,
        lambda answer: (
            len(answer.topics[0].partitions) == partitions
            and all(partition.leader_id > 0 for partition in answer.topics[0].partitions)
        ),
    )
    topic_id: uuid.UUID = answer.topics[0].topic_id
    talk.names[topic_id] = f"id of {name}"
    # Metadata may name a leader that has not been told yet.
    offsets = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    await talk.until(
        build(ListOffsetsRequest, replica_id=-1, topics=[{"name": name, "partitions": offsets}]),
        7,
        lambda answer: not any(one.error_code for one in answer.topics[0].partitions),
    )
    return topic_id


async def handshakes(talk: Talk) -> None:
    for version in range(5):
        request = build(ApiVersionsRequest, client_software_name="kclient", client_software_version="1")
        await talk.ask("versions", request, version)
    bad = build(ApiVersionsRequest, client_software_name="not a name!", client_software_version="")
    await talk.ask("versions for a client whose name is not one", bad, 3)
    await talk.ask("SASL where there is none", build(SaslHandshakeRequest, mechanism="PLAIN"), 1)
    await talk.ask("a token where there is no SASL", build(SaslAuthenticateRequest, auth_bytes=b"x"), 2)


async def metadata(talk: Talk) -> None:
    topic_id = await make_topic(talk, "meta", 3)
    for version in (0, 1, 4, 5, 7, 8, 9, 10, 11, 12, 13):
        if version == 0:
            named = build(MetadataRequest, topics=[{"name": "meta"}])
        else:
            named = build(MetadataRequest, topics=[{"name": "meta"}], allow_auto_topic_creation=False)
        await talk.ask("metadata by name", named, version)
    for version in (4, 8, 10, 12, 13):
        request = build(MetadataRequest, topics=[{"name": "no-such"}], allow_auto_topic_creation=False)
        await talk.ask("metadata of an unknown topic", request, version)
        request = build(MetadataRequest, topics=[{"name": "in valid"}], allow_auto_topic_creation=False)
        await talk.ask("metadata of an invalid topic", request, version)
        await talk.ask(
            "metadata of no topics",
            build(MetadataRequest, topics=[], allow_auto_topic_creation=False),
            version,
        )
    for version in (1, 5, 9, 12, 13):
        request = build(MetadataRequest, topics=None, allow_auto_topic_creation=False)
        await talk.ask("metadata of all topics", request, version)
    await talk.ask("metadata of all topics, in the first way", build(MetadataRequest, topics=[]), 0)
    for version in (12, 13):
        request = build(
            MetadataRequest,
            topics=[{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": NOBODY}],
            allow_auto_topic_creation=False,
        )
        await talk.ask("metadata by id", request, version)
    both = build(
        MetadataRequest,
        topics=[{"name": "meta"}, {"name": "meta"}, {"name": ""}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    await talk.ask("metadata twice, of no name, with permissions", both, 13)
    for version in (0, 1, 2):
        await talk.ask("cluster", build(DescribeClusterRequest, endpoint_type=1), version)
    await talk.ask("controllers", build(DescribeClusterRequest, endpoint_type=2), 1)
    await talk.ask("cluster of a kind that is none", build(DescribeClusterRequest, endpoint_type=9), 1)
    await pages(talk)


async def pages(talk: Talk) -> None:
    """Partitions page by page."""

    def ask(names: list[str], limit: int = 2000, cursor: dict[str, Any] | None = None) -> Any:
        topics = [{"name": name} for name in names]
        return build(
            DescribeTopicPartitionsRequest, topics=topics, response_partition_limit=limit, cursor=cursor
        )

    await make_topic(talk, "pages", 4)
    await talk.ask("pages: one topic", ask(["pages"]))
    await talk.ask("pages: an unknown topic", ask(["no-such", "pages"]))
    await talk.ask("pages: an invalid name", ask(["in valid"]))
    await talk.ask("pages: short", ask(["pages"], 2))
    await talk.ask("pages: two topics, short", ask(["pages", "meta"], 4))
    await talk.ask("pages: filled exactly", ask(["pages", "meta"], 3))
    await talk.ask("pages: from a cursor", ask(["pages"], 2, {"topic_name": "pages", "partition_index": 2}))
    await talk.ask(
        "pages: from a cursor of another", ask(["pages"], 2, {"topic_name": "meta", "partition_index": 1})
    )
    await talk.ask("pages: past the end", ask(["pages"], 2, {"topic_name": "pages", "partition_index": 9}))
    await talk.ask("pages: before all", ask(["pages"], 2, {"topic_name": "pages", "partition_index": -1}))
    await talk.ask("pages: no room", ask(["pages"], 0))


def creation(**topic: Any) -> Any:
    given = {"num_partitions": 1, "replication_factor": 1, **topic}
    return build(CreateTopicsRequest, topics=[given], timeout_ms=30000)


def named_configs(**configs: str | None) -> list[dict[str, str | None]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]


async def creating(talk: Talk) -> None:
    for version in range(2, 8):
        check = creation(name=f"made-{version}", num_partitions=2, configs=named_configs(retention_ms="1000"))
        check.validate_only = True
        await talk.ask("create: only checked", check, version)
        check.validate_only = False
        if version < 7:
            await talk.ask("create", check, version)
            await settled(talk, f"made-{version}", 2)
        await talk.ask("create: it exists", creation(name="made-2"), version)
        for name in ("in valid", "", ".", "..", "x" * 250, "__made"):
            check = creation(name=name)
            check.validate_only = True
            await talk.ask(f"create: named {name:.10}", check, version)
        await talk.ask("create: too many replicas", creation(name="a", replication_factor=3), version)
        await talk.ask("create: no replicas", creation(name="a", replication_factor=0), version)
        await talk.ask("create: no partitions", creation(name="a", num_partitions=0), version)
        await talk.ask("create: minus two partitions", creation(name="a", num_partitions=-2), version)
    await creating_configured(talk)
    await creating_assigned(talk)


async def creating_configured(talk: Talk) -> None:
    defaults = creation(name="by-default", num_partitions=-1, replication_factor=-1)
    defaults.validate_only = True
    await talk.ask("create: by default", defaults, 7)
    for name, value in (
        ("no.such", "1"), ("retention.ms", "abc"), ("retention.ms", "-2"), ("retention.ms", None),
        ("cleanup.policy", "compact,delete"), ("cleanup.policy", "burn"), ("cleanup.policy", ""),
        ("segment.bytes", "13"), ("compression.type", "brotli"), ("min.insync.replicas", "0"),
        ("min.cleanable.dirty.ratio", "1.5"), ("message.timestamp.type", "Never"),
        ("max.message.bytes", "-1"), ("min.compaction.lag.ms", "-1"), ("segment.ms", "0"),
    ):  # fmt: skip
        check = creation(name="configured", configs=[{"name": name, "value": value}])
        check.validate_only = True
        await talk.ask(f"create: with {name}={value}", check, 7)
    twice = build(CreateTopicsRequest, timeout_ms=30000, topics=[
        {"name": "twice", "num_partitions": 1, "replication_factor": 1},
        {"name": "twice", "num_partitions": 2, "replication_factor": 1},
        {"name": "once", "num_partitions": 0, "replication_factor": 1},
    ])  # fmt: skip
    await talk.ask("create: twice in one request", twice, 7)
    collides = build(CreateTopicsRequest, timeout_ms=30000, validate_only=True, topics=[
        {"name": "made_2", "num_partitions": 1, "replication_factor": 1},
        {"name": "a.b", "num_partitions": 1, "replication_factor": 1},
    ])  # fmt: skip
    await talk.ask("create: names of a kind", collides, 7)


async def creating_assigned(talk: Talk) -> None:
    def assigned(*nodes: list[int], start: int = 0, **more: Any) -> Any:
        items = [{"partition_index": start + index, "broker_ids": ids} for index, ids in enumerate(nodes)]
        given = {"num_partitions": -1, "replication_factor": -1, "assignments": items, **more}
        request = creation(name="assigned", **given)
        request.validate_only = True
        return request

    for version in (4, 7):
        await talk.ask("assign", assigned([1], [1]), version)
        await talk.ask("assign: with a count", assigned([1], num_partitions=1), version)
        await talk.ask("assign: with a factor", assigned([1], replication_factor=1), version)
        await talk.ask("assign: an unknown node", assigned([7]), version)
        await talk.ask("assign: twice", assigned([1, 1]), version)
        await talk.ask("assign: nobody", assigned([]), version)
        await talk.ask("assign: from one on", assigned([1], start=1), version)
        await talk.ask("assign: different numbers", assigned([1], []), version)


async def growing(talk: Talk) -> None:
    await make_topic(talk, "grown", 2)

    def grow(name: str, count: int, assignments: list[list[int]] | None = None, check: bool = False) -> Any:
        items = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
        topic = {"name": name, "count": count, "assignments": items}
        return build(CreatePartitionsRequest, topics=[topic], timeout_ms=30000, validate_only=check)

    for version in range(4):
        await talk.ask("grow: only checked", grow("grown", 5, check=True), version)
        await talk.ask("grow: to what it is", grow("grown", 2), version)
        await talk.ask("grow: to less", grow("grown", 1), version)
        await talk.ask("grow: to nothing", grow("grown", 0), version)
        await talk.ask("grow: to a negative number", grow("grown", -1), version)
        await talk.ask("grow: an unknown topic", grow("no-such", 3), version)
        await talk.ask("grow: assigned", grow("grown", 3, [[1]], check=True), version)
        await talk.ask("grow: assigned too few", grow("grown", 4, [[1]]), version)
        await talk.ask("grow: assigned too many", grow("grown", 3, [[1], [1]]), version)
        await talk.ask("grow: assigned to nobody", grow("grown", 3, [[]]), version)
        await talk.ask("grow: assigned to an unknown node", grow("grown", 3, [[8]]), version)
        await talk.ask("grow: assigned twice", grow("grown", 3, [[1, 1]]), version)
    await talk.ask("grow", grow("grown", 4), 3)
    await settled(talk, "grown", 4)
    topics = [{"name": "grown", "count": 9}, {"name": "grown", "count": 8}]
    await talk.ask("grow: twice", build(CreatePartitionsRequest, topics=topics, timeout_ms=30000), 3)


async def deleting(talk: Talk) -> None:
    for version in range(1, 6):
        await make_topic(talk, f"gone-{version}")
        names = [f"gone-{version}", "no-such"]
        await talk.ask(
            "delete by name", build(DeleteTopicsRequest, topic_names=names, timeout_ms=30000), version
        )
    topic_id = await make_topic(talk, "gone-6")
    for label, topics in (
        ("unknown", [{"name": "no-such"}]),
        ("unknown id", [{"name": None, "topic_id": NOBODY}]),
        ("neither", [{"name": None, "topic_id": NO_UUID}]),
        ("both", [{"name": "gone-6", "topic_id": topic_id}]),
        ("twice", [{"name": "gone-6"}, {"name": "gone-6"}]),
        ("by id", [{"name": None, "topic_id": topic_id}]),
    ):
        await talk.ask(f"delete: {label}", build(DeleteTopicsRequest, topics=topics, timeout_ms=30000), 6)
    request = build(MetadataRequest, topics=[{"name": "gone-6"}], allow_auto_topic_creation=False)
    await talk.until(request, 13, lambda answer: answer.topics[0].error_code != 0)
    await talk.ask("a deleted topic", request, 13)


async def settings_of_topics(talk: Talk) -> None:
    await make_topic(talk, "set", retention_ms="1000", cleanup_policy="compact")

    def describe(name: str, keys: list[str] | None = None, kind: int = TOPIC, **more: bool) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        return build(DescribeConfigsRequest, resources=[resource], **more)

    for version in range(1, 5):
        await talk.ask("describe", describe("set"), version)
        await talk.ask(
            "describe some", describe("set", ["retention.ms", "no.such", "cleanup.policy"]), version
        )
        await talk.ask("describe nothing", describe("set", []), version)
        await talk.ask("describe synonyms", describe("set", ["retention.ms"], include_synonyms=True), version)
        await talk.ask("describe an unknown topic", describe("no-such"), version)
        await talk.ask("describe an invalid name", describe("in valid"), version)
        await talk.ask("describe an unknown node", describe("77", kind=BROKER), version)
        await talk.ask("describe a node that is no number", describe("x", kind=BROKER), version)
        await talk.ask("describe a kind that is none", describe("x", kind=99), version)
        await talk.ask(
            "describe a node",
            describe("1", ["num.partitions", "auto.create.topics.enable", "no.such"], kind=BROKER),
            version,
        )
    await altering(talk)
    await replacing(talk)


async def settings_of_brokers(talk: Talk) -> None:
    def alter(name: str, *changes: tuple[str, int, str | None]) -> Any:
        configs = [{"name": key, "config_operation": do, "value": value} for key, do, value in changes]
        resource = {"resource_type": BROKER, "resource_name": name, "configs": configs}
        return build(IncrementalAlterConfigsRequest, resources=[resource])

    for label, request in (
        ("broker: fixed", alter("1", ("num.partitions", SET, "3"))),
        ("broker: no number", alter("1", ("log.retention.ms", SET, "x"))),
        ("broker: append", alter("1", ("log.retention.ms", APPEND, "1"))),
        ("broker: another", alter("7", ("log.retention.ms", SET, "5000"))),
        ("broker: no id", alter("abc", ("log.retention.ms", SET, "5000"))),
        ("broker: set", alter("1", ("log.retention.ms", SET, "5000"))),
        ("all brokers: set", alter("", ("log.retention.ms", SET, "7000"))),
    ):
        await talk.ask(label, request, 1)
    keys = ["log.retention.ms"]
    wanted = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": keys}
    of_topic = {"resource_type": TOPIC, "resource_name": "set", "configuration_keys": ["retention.ms"]}
    for resource in (wanted, of_topic):
        asked = build(DescribeConfigsRequest, resources=[resource], include_synonyms=True)
        await talk.until(asked, 4, lambda answer: len(answer.results[0].configs[0].synonyms) >= 3)
        await talk.ask("describe altered", asked, 4)
    for name in ("1", ""):
        await talk.ask("broker: delete", alter(name, ("log.retention.ms", DELETE, None)), 1)
    await talk.ask("list resources", build(ListConfigResourcesRequest, resource_types=[BROKER]), 1)
    await talk.ask("list resources of no kind", build(ListConfigResourcesRequest, resource_types=[77]), 1)
    await talk.ask("list client metrics", build(ListConfigResourcesRequest), 0)


async def moving(talk: Talk) -> None:
    await make_topic(talk, "moved")

    def move(name: str, index: int, replicas: list[int] | None) -> Any:
        partition = {"partition_index": index, "replicas": replicas}
        topic = {"name": name, "partitions": [partition]}
        return build(AlterPartitionReassignmentsRequest, topics=[topic])

    for label, request in (
        ("to where it is", move("moved", 0, [1])),
        ("no such partition", move("moved", 5, [1])),
        ("no such topic", move("no-such", 0, [1])),
        ("no such node", move("moved", 0, [1, 2])),
        ("nowhere", move("moved", 0, [])),
        ("twice to a node", move("moved", 0, [1, 1])),
        ("end what is not", move("moved", 0, None)),
    ):
        for version in range(2):
            await talk.ask(f"reassign: {label}", request, version)
    await talk.ask("list reassignments", build(ListPartitionReassignmentsRequest), 0)


async def no_quorum(talk: Talk) -> None:
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    await talk.ask("quorum", build(DescribeQuorumRequest, topics=[topic]), 2)
    update = {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1}
    await talk.ask("features", build(UpdateFeaturesRequest, feature_updates=[update], validate_only=True), 2)


async def altering(talk: Talk) -> None:
    def alter(*changes: tuple[str, int, str | None], name: str = "set", kind: int = TOPIC) -> Any:
        configs = [{"name": key, "config_operation": do, "value": value} for key, do, value in changes]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        return build(IncrementalAlterConfigsRequest, resources=[resource])

    for version in range(2):
        for label, request in (
            ("set", alter(("retention.ms", SET, "5000"))),
            ("unknown setting", alter(("no.such", SET, "1"))),
            ("delete unknown setting", alter(("no.such", DELETE, None))),
            ("delete unset", alter(("segment.ms", DELETE, None))),
            ("delete", alter(("retention.ms", DELETE, None))),
            ("no number", alter(("retention.ms", SET, "abc"))),
            ("null", alter(("retention.ms", SET, None))),
            ("append", alter(("cleanup.policy", APPEND, "delete"))),
            ("append again", alter(("cleanup.policy", APPEND, "delete"))),
            ("subtract", alter(("cleanup.policy", SUBTRACT, "delete"))),
            ("append to what is no list", alter(("retention.ms", APPEND, "1"))),
            ("append nonsense", alter(("cleanup.policy", APPEND, "burn"))),
            ("twice", alter(("retention.ms", SET, "1"), ("retention.ms", SET, "2"))),
            ("no such operation", alter(("retention.ms", 9, "1"))),
            ("nothing", alter()),
            ("unknown topic", alter(("retention.ms", SET, "1"), name="no-such")),
            ("unknown kind", alter(("retention.ms", SET, "1"), kind=99)),
        ):
            await talk.ask(f"alter: {label}", request, version)
        check = alter(("retention.ms", SET, "77"))
        check.validate_only = True
        await talk.ask("alter: only checked", check, version)
    twice = alter(("retention.ms", SET, "1"))
    twice.resources = twice.resources * 2
    # The controller answers before the node has heard: what it heard last is there when all else is.
    await talk.until(alter(("segment.ms", SET, "777777")), 1, lambda _: True)
    await talk.until(
        build(
            DescribeConfigsRequest,
            resources=[
                {"resource_type": TOPIC, "resource_name": "set", "configuration_keys": ["segment.ms"]}
            ],
        ),
        4,
        lambda answer: answer.results[0].configs[0].value == "777777",
    )
    await talk.ask("alter: the same topic twice", twice, 1)
    described = build(
        DescribeConfigsRequest,
        resources=[
            {"resource_type": TOPIC, "resource_name": "set", "configuration_keys": ["cleanup.policy"]}
        ],
    )
    await talk.ask("altered", described, 4)


async def replacing(talk: Talk) -> None:
    for version in range(3):
        for label, name, configs in (
            ("replace", "set", named_configs(retention_ms="123")),
            ("replace: unknown setting", "set", named_configs(no_such="123")),
            ("replace: no number", "set", named_configs(retention_ms="x")),
            ("replace: null", "set", named_configs(retention_ms=None)),
            ("replace: unknown topic", "no-such", named_configs(retention_ms="1")),
        ):
            resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
            await talk.ask(label, build(AlterConfigsRequest, resources=[resource]), version)


CHAPTERS = (
    handshakes,
    metadata,
    creating,
    growing,
    deleting,
    settings_of_topics,
    settings_of_brokers,
    moving,
    no_quorum,
)
