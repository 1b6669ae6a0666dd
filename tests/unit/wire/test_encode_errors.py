"""A value that cannot be sent is an EncodeError that names the field by its path and never shows a secret."""

from __future__ import annotations

from array import array
from typing import Any, cast

import pytest

from kclient.errors import EncodeError
from kclient.wire.frame import encode_request
from kclient.wire.messages.classic_groups import HeartbeatRequest
from kclient.wire.messages.configs import AlterConfigsRequest
from kclient.wire.messages.connection import (
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeResponse,
)
from kclient.wire.messages.metadata import MetadataRequest
from kclient.wire.messages.produce import ProduceRequest, ProduceResponse
from kclient.wire.messages.users import AlterClientQuotasRequest, AlterUserScramCredentialsRequest

Topic = ProduceRequest.TopicProduceData
Partition = Topic.PartitionProduceData

# Values of wrong types on purpose: mypy would refuse them, callers without mypy can pass them.
wrong = cast("Any", lambda value: value)


def heartbeat(group_id: str = "group", generation_id: int = 1) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=generation_id, member_id="member")


def produce(*topics: Any) -> ProduceRequest:
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=list(topics))


@pytest.mark.parametrize("version", [3, 9])
def test_a_value_of_the_wrong_type_is_named_by_path_and_type(version: int) -> None:
    request = produce(Topic(name=wrong(3), partition_data=[]))
    with pytest.raises(EncodeError) as caught:
        request.encode(version)
    assert str(caught.value) == "ProduceRequest.topic_data[0].name must be str, not int"


@pytest.mark.parametrize("version", [3, 9])
def test_the_path_leads_to_the_element_of_the_array_that_is_wrong(version: int) -> None:
    partitions = [Partition(index=0, records=None), Partition(index=2**31, records=None)]
    request = produce(Topic(name="a", partition_data=[]), Topic(name="b", partition_data=partitions))
    with pytest.raises(EncodeError) as caught:
        request.encode(version)
    assert str(caught.value) == (
        "ProduceRequest.topic_data[1].partition_data[1].index = 2147483648 does not fit int32"
    )


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("value", [-(2**31) - 1, 2**31, 10**30])
def test_an_integer_out_of_range_is_refused(version: int, value: int) -> None:
    with pytest.raises(EncodeError, match=rf"HeartbeatRequest.generation_id = {value} does not fit int32"):
        heartbeat(generation_id=value).encode(version)


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("value", [1.0, "1", None, [1]])
def test_what_is_no_integer_is_refused_where_an_integer_belongs(version: int, value: object) -> None:
    with pytest.raises(EncodeError, match=r"HeartbeatRequest.generation_id must be int, not"):
        heartbeat(generation_id=wrong(value)).encode(version)


def test_a_float_too_large_for_its_field_is_refused() -> None:
    operation = AlterClientQuotasRequest.EntryData.OpData(key="k", value=10**400, remove=False)
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequest.EntryData(entity=[], ops=[operation])], validate_only=False
    )
    with pytest.raises(EncodeError, match=r"entries\[0\]\.ops\[0\]\.value = 10+ does not fit float64"):
        request.encode(0)


@pytest.mark.parametrize("version", [0, 4])
def test_a_string_of_32767_bytes_is_the_longest_that_can_be_sent(version: int) -> None:
    longest = heartbeat(group_id="é" * 16383 + "x")
    assert HeartbeatRequest.decode(longest.encode(version), version) == longest
    with pytest.raises(EncodeError) as caught:
        heartbeat(group_id="é" * 16384).encode(version)
    expected = "HeartbeatRequest.group_id of 32768 bytes is longer than Kafka's limit of 32767"
    assert str(caught.value) == expected


@pytest.mark.parametrize("version", [0, 4])
def test_a_string_with_a_lone_surrogate_is_refused_without_showing_it(version: int) -> None:
    with pytest.raises(EncodeError) as caught:
        heartbeat(group_id="pass\ud800word").encode(version)
    assert str(caught.value) == (
        "HeartbeatRequest.group_id is not valid text: surrogates not allowed at character 4"
    )


@pytest.mark.parametrize("version", [0, 4])
def test_null_is_refused_where_the_version_has_no_null(version: int) -> None:
    with pytest.raises(EncodeError, match=r"HeartbeatRequest.group_id must be str, not NoneType"):
        heartbeat(group_id=wrong(None)).encode(version)


def test_null_is_refused_in_the_versions_before_a_field_became_nullable() -> None:
    everything = MetadataRequest(topics=None)
    assert everything.encode(1) == b"\xff\xff\xff\xff"
    with pytest.raises(EncodeError, match=r"MetadataRequest.topics must be list, not NoneType"):
        everything.encode(0)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("value", ["text", [1, 2], 3, None])
def test_what_is_not_bytes_is_refused_where_bytes_belong(version: int, value: object) -> None:
    request = SaslAuthenticateRequest(auth_bytes=wrong(value))
    expected = f"SaslAuthenticateRequest.auth_bytes must be bytes, not {type(value).__name__}"
    with pytest.raises(EncodeError) as caught:
        request.encode(version)
    assert str(caught.value) == expected
    with pytest.raises(EncodeError) as caught:
        encode_request(request, version, 1, "client")
    assert str(caught.value) == expected


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("view", [memoryview(array("i", [1, 2])), memoryview(b"abcdef")[::2]])
def test_a_view_whose_length_is_not_its_size_in_bytes_is_refused(version: int, view: memoryview) -> None:
    with pytest.raises(EncodeError, match="not a view of wider or scattered items"):
        SaslAuthenticateRequest(auth_bytes=wrong(view)).encode(version)


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_may_be_any_buffer_of_bytes(version: int, kind: Any) -> None:
    request = produce(Topic(name="t", partition_data=[Partition(index=0, records=kind(b"batch"))]))
    assert b"batch" in request.encode(version)


@pytest.mark.parametrize("version", [0, 1])
def test_text_is_refused_where_an_array_of_strings_belongs(version: int) -> None:
    with pytest.raises(EncodeError, match=r"SaslHandshakeResponse.mechanisms must be list, not str"):
        SaslHandshakeResponse(mechanisms=wrong("PLAIN")).encode(version)


@pytest.mark.parametrize("value", [3, None, iter([])])
def test_what_has_no_length_is_refused_where_an_array_belongs(value: object) -> None:
    with pytest.raises(EncodeError, match=r"ProduceRequest.topic_data must be list, not"):
        ProduceRequest(acks=1, timeout_ms=1, topic_data=wrong(value)).encode(9)


@pytest.mark.parametrize("version", [3, 9])
def test_what_is_no_struct_is_refused_where_a_struct_belongs(version: int) -> None:
    with pytest.raises(EncodeError, match=r"data\[1\] must be ProduceRequest.TopicProduceData, not dict"):
        produce(Topic(name="t", partition_data=[]), {"name": "t"}).encode(version)


def test_a_field_that_the_version_drops_is_not_blamed_for_another_one() -> None:
    topic = Topic(name=wrong(3), partition_data=[Partition(index=wrong("one"), records=None)])
    with pytest.raises(EncodeError, match=r"topic_data\[0\].partition_data\[0\].index must be int"):
        produce(topic).encode(13)


def test_null_is_refused_for_a_tagged_struct() -> None:
    partition = ProduceResponse.TopicProduceResponse.PartitionProduceResponse(index=0, base_offset=0)
    partition.current_leader = wrong(None)
    topic = ProduceResponse.TopicProduceResponse(partition_responses=[partition])
    with pytest.raises(EncodeError, match=r"current_leader must be .*LeaderIdAndEpoch, not NoneType"):
        ProduceResponse(responses=[topic]).encode(10)


def test_a_tagged_field_of_the_wrong_type_is_named() -> None:
    response = ApiVersionsResponse(api_keys=[], finalized_features_epoch=wrong("new"))
    with pytest.raises(EncodeError, match="finalized_features_epoch must be int, not str"):
        response.encode(3)


def test_a_uuid_must_be_a_uuid() -> None:
    topic = MetadataRequest.MetadataRequestTopic(topic_id=wrong("no-uuid"), name=None)
    with pytest.raises(EncodeError, match=r"topics\[0\].topic_id must be a uuid.UUID, not str"):
        MetadataRequest(topics=[topic]).encode(12)


def test_an_error_next_to_a_secret_or_in_it_does_not_show_the_secret() -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=2**40, salt=b"salt-4711", salted_password=b"hash-4711"
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    with pytest.raises(EncodeError, match=r"upsertions\[0\].iterations") as caught:
        request.encode(0)
    assert "4711" not in str(caught.value)
    upsertion.iterations = 4096
    upsertion.salted_password = wrong("hash-4711")
    with pytest.raises(EncodeError, match=r"salted_password must be bytes, not str") as caught:
        request.encode(0)
    assert "4711" not in str(caught.value)


def test_an_overlong_secret_is_reported_by_its_size_only() -> None:
    entry = AlterConfigsRequest.AlterConfigsResource.AlterableConfig(name="password", value="4711" * 10000)
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=[entry])
    for version in (0, 2):
        with pytest.raises(EncodeError, match="value of 40000 bytes") as caught:
            AlterConfigsRequest(resources=[resource], validate_only=False).encode(version)
        assert "4711" not in str(caught.value)


def test_a_version_that_a_message_does_not_have_is_refused_both_ways() -> None:
    with pytest.raises(EncodeError, match="HeartbeatRequest has versions 0-4, not 5"):
        heartbeat().encode(5)
    with pytest.raises(EncodeError, match="HeartbeatRequest has versions 0-4, not -1"):
        HeartbeatRequest.decode(b"", -1)
