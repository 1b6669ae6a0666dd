"""The headers that precede every request and every response on the wire."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.message import Data
from kclient.wire.schema import NOT_COMPACT, Int16, Int32, NullableString


class RequestHeader(Data, versions="1-2", flexible="2+"):
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: Annotated[NullableString, NOT_COMPACT]


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    correlation_id: Int32
