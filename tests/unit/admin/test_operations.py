"""Every admin operation at every version: what it asks can be encoded, and the answer is read."""

from __future__ import annotations

import pkgutil
from typing import Any

import pytest

import kclient.admin
from kclient.admin import AlterConfigOp, ConfigResource, GroupState, GroupType, NewTopic, OffsetSpec
from kclient.admin.configs import DescribeConfigs, IncrementalAlterConfigs
from kclient.admin.group_offsets import DeleteGroupOffsets, ListGroupOffsets
from kclient.admin.groups import DescribeClassicGroups, ListGroups
from kclient.admin.offsets import ListOffsets, by_age
from kclient.admin.operation import AdminOperation
from kclient.admin.permissions import AclOperation, read_operations
from kclient.admin.topics import CreateTopics
from kclient.cluster.routes import AnyBroker, Controller, Coordinator, CoordinatorKind, Leader, Node
from kclient.errors import (
    CoordinatorLoadInProgressError,
    IncompatibleBrokerError,
    KafkaError,
    ProtocolError,
    UnstableOffsetCommitError,
)
from kclient.types import TopicPartition
from kclient.wire.messages.configs import DescribeConfigsResponse
from kclient.wire.messages.group_admin import DescribeGroupsResponse
from kclient.wire.messages.group_offsets import OffsetDeleteResponse, OffsetFetchResponse
from tests.unit.admin.cases import CASES, FIRST, SECOND, Case

VERSIONS = [
    pytest.param(case, version, id=f"{case.name} v{version}") for case in CASES for version in case.versions
]


def told_apart(outcomes: dict[Any, Any]) -> dict[Any, Any]:
    """Errors as their type and text, for they have no equality."""

    def plain(outcome: Any) -> Any:
        if isinstance(outcome, dict):
            return told_apart(outcome)
        return (type(outcome), outcome.args) if isinstance(outcome, KafkaError) else outcome

    return {key: plain(outcome) for key, outcome in outcomes.items()}


def test_every_operation_has_a_case() -> None:
    for module in pkgutil.iter_modules(kclient.admin.__path__, "kclient.admin."):
        __import__(module.name)
    operations = {kind for kind in AdminOperation.__subclasses__() if kind.__module__.startswith("kclient")}
    assert {type(case.operation) for case in CASES} == operations


@pytest.mark.parametrize(("case", "version"), VERSIONS)
def test_what_is_asked_survives_the_wire(case: Case, version: int) -> None:
    sent = case.operation.build(case.keys, version).encode(version)
    assert case.operation.request.decode(sent, version).encode(version) == sent


@pytest.mark.parametrize(("case", "version"), VERSIONS)
def test_an_answer_is_read(case: Case, version: int) -> None:
    answer = case.answer(version)
    received = type(answer).decode(answer.encode(version), version)
    assert told_apart(case.operation.read(received, case.keys)) == told_apart(case.outcomes(version))


@pytest.mark.parametrize(
    ("name", "route"),
    [
        ("CreateTopics", Controller()),
        ("DeleteTopics", Controller()),
        ("CreatePartitions", Controller()),
        ("DescribeTopics", AnyBroker()),
        ("ListTopics", AnyBroker()),
        ("DescribeCluster", AnyBroker()),
        ("DescribeClusterByMetadata", AnyBroker()),
        ("ListGroups", Node(1)),
        ("DescribeConsumerGroups", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("DescribeClassicGroups", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("DeleteConsumerGroups", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("ListGroupOffsets", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("AlterGroupOffsets", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("DeleteGroupOffsets", Coordinator(CoordinatorKind.GROUP, "billing")),
        ("ListOffsets", Leader(FIRST)),
    ],
)
def test_a_request_goes_to_the_broker_that_can_answer(name: str, route: object) -> None:
    case = next(case for case in CASES if case.name == name)
    assert case.operation.route(case.keys[0]) == route


@pytest.mark.parametrize(
    ("resource", "route"),
    [
        (ConfigResource.topic("7"), AnyBroker()),
        (ConfigResource.group("7"), AnyBroker()),
        (ConfigResource.broker(7), Node(7)),
        (ConfigResource.broker(), AnyBroker()),
    ],
)
def test_settings_of_one_broker_are_asked_of_it_and_others_of_any(
    resource: ConfigResource, route: object
) -> None:
    assert DescribeConfigs(None, False, False).route(resource) == route
    assert IncrementalAlterConfigs({}, False).route(resource) == route


def test_brokers_without_defaults_are_asked_for_one_partition_and_one_replica() -> None:
    operation = CreateTopics({"orders": NewTopic("orders")}, 1, validate_only=False)
    old, new = (operation.build(["orders"], version).topics[0] for version in (3, 4))
    assert (old.num_partitions, old.replication_factor) == (1, 1)
    assert (new.num_partitions, new.replication_factor) == (-1, -1)


def test_groups_by_state_need_a_broker_that_knows_states() -> None:
    operation = ListGroups([GroupState.EMPTY], [])
    assert operation.build([1], 4).states_filter == ["Empty"]
    with pytest.raises(IncompatibleBrokerError, match=r"by state needs Kafka 2\.6"):
        operation.build([1], 3)


def test_classic_groups_are_all_groups_of_a_broker_that_knows_no_types() -> None:
    assert ListGroups([], [GroupType.CLASSIC]).build([1], 4).types_filter == []
    with pytest.raises(IncompatibleBrokerError, match=r"by type needs Kafka 3\.8"):
        ListGroups([], [GroupType.CONSUMER]).build([1], 4)


@pytest.mark.parametrize(
    ("spec", "first", "kafka"),
    [
        (OffsetSpec.MAX_TIMESTAMP, 7, "3.0"),
        (OffsetSpec.EARLIEST_LOCAL, 8, "3.5"),
        (OffsetSpec.LATEST_TIERED, 9, "3.9"),
        (OffsetSpec.EARLIEST_PENDING_UPLOAD, 11, "4.2"),
    ],
)
def test_a_spec_that_a_broker_does_not_know_names_the_kafka_that_does(
    spec: OffsetSpec, first: int, kafka: str
) -> None:
    operation = ListOffsets({FIRST: spec}, "read_committed", 1)
    request = operation.build([FIRST], first)
    assert request.topics[0].partitions[0].timestamp == spec
    assert request.isolation_level == 1
    with pytest.raises(IncompatibleBrokerError, match=f"{spec.name} needs Kafka {kafka} or newer"):
        operation.build([FIRST], first - 1)


def test_specs_that_an_old_broker_refuses_are_asked_apart_from_the_others() -> None:
    third = TopicPartition("users", 2)
    specs = {FIRST: OffsetSpec.LATEST, SECOND: OffsetSpec.MAX_TIMESTAMP, third: 1_000}
    assert by_age(specs) == [{FIRST: -1, third: 1_000}, {SECOND: -3}]


def test_all_offsets_of_a_group_are_asked_for_with_null() -> None:
    operation = ListGroupOffsets(None, require_stable=True)
    assert operation.build(["billing"], 7).topics is None
    assert operation.build(["billing"], 8).groups[0].topics is None
    with pytest.raises(IncompatibleBrokerError, match=r"require_stable needs Kafka 2\.5"):
        operation.build(["billing"], 6)


def test_an_offset_about_to_change_has_the_whole_group_asked_again() -> None:
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    topic = group.OffsetFetchResponseTopics
    unstable = topic.OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=-1, metadata=None, error_code=88
    )
    response = OffsetFetchResponse(
        groups=[group(group_id="billing", topics=[topic(name="orders", partitions=[unstable])])]
    )
    outcome = ListGroupOffsets(None, True).read(response, ["billing"])["billing"]
    assert isinstance(outcome, UnstableOffsetCommitError)


def test_an_error_of_the_group_is_the_error_of_each_of_its_partitions() -> None:
    response = OffsetDeleteResponse(error_code=14, topics=[])
    outcomes = DeleteGroupOffsets("billing").read(response, [FIRST, SECOND])
    assert set(map(type, outcomes.values())) == {CoordinatorLoadInProgressError}


def classic_group(metadata: bytes, assignment: bytes) -> DescribeGroupsResponse:
    group = DescribeGroupsResponse.DescribedGroup
    member = group.DescribedGroupMember(
        member_id="m", client_id="c", client_host="h", member_metadata=metadata, member_assignment=assignment
    )
    return DescribeGroupsResponse(
        groups=[
            group(
                group_id="g",
                group_state="PreparingRebalance",
                protocol_type="consumer",
                protocol_data="",
                members=[member],
            )
        ]
    )


def test_members_in_a_rebalance_have_told_nothing_yet() -> None:
    described = DescribeClassicGroups(False).read(classic_group(b"", b""), ["g"])["g"]
    assert not isinstance(described, KafkaError)
    assert not described.members[0].subscription
    assert not described.members[0].assignment


def test_a_subscription_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    newer = (
        b"\0\x09" + b"\0\0\0\1\0\1a" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\1" + b"\xff\xff" + b"more"
    )
    described = DescribeClassicGroups(False).read(classic_group(newer, b""), ["g"])["g"]
    assert not isinstance(described, KafkaError)
    assert described.members[0].subscription == {"a"}


def test_a_member_that_tells_nonsense_fails_its_group_only() -> None:
    response = classic_group(b"\0\0\x7f\xff\xff\xff", b"")
    response.groups.append(classic_group(b"", b"").groups[0])
    response.groups[1].group_id = "h"
    outcomes = DescribeClassicGroups(False).read(response, ["g", "h"])
    assert isinstance(outcomes["g"], ProtocolError)
    assert not isinstance(outcomes["h"], KafkaError)


def test_numbers_and_words_of_newer_brokers_are_unknown_and_no_error() -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult(
        name="n", value=None, read_only=True, config_source=99, is_sensitive=True, synonyms=[], config_type=99
    )
    response = DescribeConfigsResponse(
        results=[result(error_message=None, resource_type=2, resource_name="t", configs=[entry])]
    )
    resource = ConfigResource.topic("t")
    described = DescribeConfigs(None, False, False).read(response, [resource])[resource]
    assert not isinstance(described, KafkaError)
    assert described["n"].source.name == described["n"].type.name == "UNKNOWN"
    assert GroupState("Meditating") is GroupState.UNKNOWN
    assert GroupType("commune") is GroupType.UNKNOWN


def test_permissions_are_none_unless_the_broker_told_them() -> None:
    assert read_operations(-(1 << 31)) is None
    assert read_operations(0) == frozenset()
    assert read_operations(1 << 3 | 1 << 11) == frozenset({AclOperation.READ, AclOperation.ALTER_CONFIGS})


def test_a_changed_setting_may_be_a_password_and_is_not_shown() -> None:
    assert "hunter2" not in repr(AlterConfigOp.set("ssl.key.password", "hunter2"))


def test_an_operation_that_a_broker_lacks_names_the_kafka_that_has_it() -> None:
    error = IncompatibleBrokerError("not offered")
    assert "IncrementalAlterConfigs needs Kafka 2.3" in str(IncrementalAlterConfigs.unavailable(error))
    assert "OffsetDelete needs Kafka 2.4" in str(DeleteGroupOffsets.unavailable(error))
