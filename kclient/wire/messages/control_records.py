"""Keys and values of control records: transaction markers and leader changes."""

from __future__ import annotations

from typing import Annotated

from kclient.wire.message import Data
from kclient.wire.schema import NO_UUID, Array, Int16, Int32, Struct, Uuid, V


class ControlRecordTypeSchema(Data, versions="0", flexible="none"):
    type: Int16


class EndTxnMarker(Data, versions="0", flexible="none"):
    coordinator_epoch: Int32


class LeaderChangeMessageVoter(Struct):
    voter_id: Int32
    voter_directory_id: Annotated[Uuid, V("1+")] = NO_UUID


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    version: Int16
    leader_id: Int32
    voters: Array[LeaderChangeMessageVoter]
    granting_voters: Array[LeaderChangeMessageVoter]
