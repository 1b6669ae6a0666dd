"""Frames of requests and responses, with the headers that each version of each API has."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import EncodeError, ProtocolError
from kclient.wire.api import ApiKey
from kclient.wire.frame import (
    correlation_id_of,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kclient.wire.message import Request
from kclient.wire.messages import request_class
from kclient.wire.messages.classic_groups import HeartbeatRequest, HeartbeatResponse
from kclient.wire.messages.connection import ApiVersionsRequest, ApiVersionsResponse, SaslHandshakeRequest
from kclient.wire.schema import default_struct
from tests.support.catalogue import versions_of

heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def hexed(data: str) -> bytes:
    return bytes.fromhex(data)


def test_a_request_is_framed_by_its_size_and_header_1_before_flexible_versions() -> None:
    assert encode_request(heartbeat, 0, 7, "kc") == hexed(
        "00000016  000c 0000 00000007 0002 6b63  0001 67 00000001 0001 6d"
    )


def test_a_request_in_a_flexible_version_has_header_2_with_an_old_style_client_id() -> None:
    assert encode_request(heartbeat, 4, 7, "kc") == hexed(
        "00000017  000c 0004 00000007 0002 6b63 00  02 67 00000001 02 6d 00 00"
    )


def test_a_request_without_a_client_id_says_null() -> None:
    assert encode_request(SaslHandshakeRequest(mechanism="X"), 1, 7, None) == hexed(
        "0000000d  0011 0001 00000007 ffff  0001 58"
    )


def test_an_api_versions_request_has_header_2_from_version_3_on() -> None:
    assert encode_request(ApiVersionsRequest(), 2, 1, "k") == hexed("0000000b 0012 0002 00000001 0001 6b")
    assert encode_request(ApiVersionsRequest(), 3, 1, "k") == hexed(
        "0000000f 0012 0003 00000001 0001 6b 00  01 01 00"
    )


def test_a_response_has_header_0_before_flexible_versions_and_header_1_in_them() -> None:
    assert encode_response(HeartbeatResponse(error_code=2), 3, 7) == hexed("0000000a 00000007 00000000 0002")
    assert encode_response(HeartbeatResponse(error_code=2), 4, 7) == hexed(
        "0000000c 00000007 00 00000000 0002 00"
    )


def test_an_api_versions_response_has_header_0_in_every_version() -> None:
    assert encode_response(ApiVersionsResponse(api_keys=[]), 0, 7) == hexed("0000000a 00000007 0000 00000000")
    assert encode_response(ApiVersionsResponse(api_keys=[]), 3, 7) == hexed(
        "0000000c 00000007 0000 01 00000000 00"
    )


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_requests_and_responses_of_every_api_and_version_survive_their_frames(key: ApiKey) -> None:
    declaration: type[Request[Any]] = request_class(key)
    for version in versions_of(declaration):
        request: Any = default_struct(declaration)
        frame = encode_request(request, version, 12345, "cliënt")
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        for data in (frame[4:], memoryview(frame)[4:]):
            header, decoded = decode_request(data)
            assert header[:4] == (key, version, 12345, "cliënt")
            assert decoded == request
        response: Any = default_struct(declaration.response)
        frame = encode_response(response, version, 54321)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        for data in (frame[4:], memoryview(frame)[4:]):
            assert correlation_id_of(data) == 54321
            assert decode_response(data, declaration, version) == response


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_broker_that_does_not_know_the_asked_version_is_understood(version: int) -> None:
    """It answers in version 0 with error 35 and the versions that it does know (KIP-511)."""
    known = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    answer = ApiVersionsResponse(error_code=35, api_keys=[known])
    frame = encode_response(answer, 0, 1)[4:]
    assert decode_response(frame, ApiVersionsRequest, version) == answer
    assert decode_response(memoryview(frame), ApiVersionsRequest, version) == answer


def test_what_looks_like_error_35_in_the_response_of_another_api_means_nothing() -> None:
    answer = HeartbeatResponse(throttle_time_ms=35 << 16, error_code=1)
    frame = encode_response(answer, 1, 1)[4:]
    assert frame[4:6] == (35).to_bytes(2)
    assert decode_response(frame, HeartbeatRequest, 1) == answer


def test_bytes_after_a_response_are_ignored_and_after_a_request_refused() -> None:
    answer = encode_response(HeartbeatResponse(error_code=2), 4, 7)[4:]
    assert decode_response(answer + b"more", HeartbeatRequest, 4).error_code == 2
    request = encode_request(heartbeat, 4, 7, "kc")[4:]
    with pytest.raises(ProtocolError, match="HeartbeatRequest v4: 4 bytes left over"):
        decode_request(request + b"more")


def test_tags_in_a_flexible_header_are_skipped() -> None:
    answer = hexed("00000007 01 05 02 ffff  00000000 0002 00")
    assert decode_response(answer, HeartbeatRequest, 4) == HeartbeatResponse(error_code=2)
    header = decode_request_header(hexed("000c 0004 00000007 0001 6b 01 05 02 ffff") + b"body")
    assert header == (12, 4, 7, "k", 16)


def test_the_header_of_an_unknown_version_of_a_known_api_is_read_as_flexible() -> None:
    header = decode_request_header(hexed("0012 0063 00000007 0001 6b 00 01 01 00"))
    assert header == (18, 99, 7, "k", 12)
    with pytest.raises(ProtocolError, match="ApiVersionsRequest v99 is unknown, known are 0-5"):
        decode_request(hexed("0012 0063 00000007 0001 6b 00 01 01 00"))


def test_the_header_of_an_unknown_api_is_read_and_its_body_refused() -> None:
    frame = hexed("03e7 0000 00000007 0001 6b") + b"body"
    assert decode_request_header(frame) == (999, 0, 7, "k", 11)
    with pytest.raises(ProtocolError, match="has the key 999"):
        decode_request(frame)


@pytest.mark.parametrize("size", range(8))
def test_a_request_shorter_than_its_header_is_a_protocol_error(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"request of {size} bytes"):
        decode_request_header(bytes(size))


@pytest.mark.parametrize("size", range(4))
def test_a_response_shorter_than_its_header_is_a_protocol_error(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"response of {size} bytes"):
        correlation_id_of(bytes(size))
    with pytest.raises(ProtocolError):
        decode_response(bytes(size), HeartbeatRequest, 4)


@pytest.mark.parametrize("size", [8, 9, 10, 12])
def test_a_request_cut_inside_its_client_id_is_a_protocol_error(size: int) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(hexed("000c 0004 00000007 0005 6b636c69")[:size])


@pytest.mark.parametrize("correlation_id", [-(2**31) - 1, 2**31])
def test_a_correlation_id_out_of_range_is_refused(correlation_id: int) -> None:
    with pytest.raises(EncodeError, match="correlation_id"):
        encode_request(heartbeat, 4, correlation_id, "kc")
    with pytest.raises(EncodeError, match="correlation_id"):
        encode_response(HeartbeatResponse(), 4, correlation_id)


def test_negative_correlation_ids_survive() -> None:
    assert correlation_id_of(encode_response(HeartbeatResponse(), 4, -1)[4:]) == -1
