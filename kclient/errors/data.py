"""Final codes of reading and writing: requests as such, records, telemetry, producers, groups."""

from __future__ import annotations

from kclient.errors.broker import ApplicationRecoverableError, BrokerError


class UnknownServerError(BrokerError, code=-1, name="UNKNOWN_SERVER_ERROR"):
    """The broker failed in a way that has no code; its log says how."""


class OffsetOutOfRangeError(BrokerError, code=1):
    """The partition does not have this offset: it was deleted, or is yet to be written."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


class InvalidFetchSizeError(BrokerError, code=4):
    """The fetch asks for a number of bytes that makes no sense."""


class MessageTooLargeError(BrokerError, code=10):
    """It is larger than the topic's max.message.bytes, 1,048,588 unless set: raise that, or send less."""


class RecordListTooLargeError(BrokerError, code=18):
    """A record batch does not fit into a log segment of the topic: send less at once."""


class InvalidRequiredAcksError(BrokerError, code=21):
    """The broker accepts 0, 1 and all (-1) as acks, nothing else."""


class InvalidTimestampError(BrokerError, code=32):
    """A record's timestamp is further from the broker's clock than the topic permits."""


class UnsupportedVersionError(BrokerError, code=35):
    """The broker does not speak this version of the API, or not yet with this feature."""


class InvalidRequestError(BrokerError, code=42):
    """The broker takes the request for malformed or contradictory; its log says why."""


class UnsupportedForMessageFormatError(BrokerError, code=43):
    """The topic still has a message format that is too old for this."""


class UnsupportedCompressionTypeError(BrokerError, code=76):
    """The partition holds records in a compression that this version of the API cannot deliver."""


class InvalidRecordError(BrokerError, code=87):
    """The broker's validation turned a record down: one for a compacted topic without a key, for example."""


class OffsetMovedToTieredStorageError(BrokerError, code=109):
    """The offset has left the broker's disk for tiered storage."""


class UnknownSubscriptionIdError(BrokerError, code=117):
    """The telemetry subscription is out of date: ask for the present one."""


class TelemetryTooLargeError(BrokerError, code=118):
    """The telemetry pushed is more than the broker takes at once."""


class InvalidRecordStateError(BrokerError, code=121):
    """The record cannot be acknowledged any more: its lock ran out, or it was settled before."""


class OutOfOrderSequenceNumberError(BrokerError, code=45):
    """The broker sees a gap in the producer's sequence: a batch before this one never came."""


class DuplicateSequenceNumberError(BrokerError, code=46):
    """The broker has this batch of the producer already."""


class InvalidProducerEpochError(ApplicationRecoverableError, code=47):
    """The producer's epoch has ended: a newer one took over, or its transaction timed out."""


class InvalidTxnStateError(BrokerError, code=48):
    """The transaction is in a state that does not permit this step."""


class InvalidProducerIdMappingError(ApplicationRecoverableError, code=49):
    """The transactional id has another producer id by now: begin anew with a new producer."""


class InvalidTransactionTimeoutError(BrokerError, code=50):
    """The transaction timeout is longer than the broker's transaction.max.timeout.ms."""


class TransactionCoordinatorFencedError(BrokerError, code=52):
    """A newer coordinator of the transaction has taken over from the one that asked."""


class UnknownProducerIdError(BrokerError, code=59):
    """The broker has forgotten the producer, as it does once all of its records are deleted."""


class ProducerFencedError(ApplicationRecoverableError, code=90):
    """A newer producer with the same transactional id has taken over: close this one."""


class TransactionalIdNotFoundError(BrokerError, code=105):
    """The coordinator does not know this transactional id."""


class TransactionAbortableError(BrokerError, code=120):
    """The transaction cannot be committed: abort it, then go on with the same producer."""


class OffsetMetadataTooLargeError(BrokerError, code=12):
    """The text committed with an offset is longer than the broker's offset.metadata.max.bytes."""


class IllegalGenerationError(ApplicationRecoverableError, code=22):
    """The group is at another generation than this member: rejoin."""


class InconsistentGroupProtocolError(BrokerError, code=23):
    """The member has no assignor or protocol type in common with the other members."""


class InvalidGroupIdError(BrokerError, code=24):
    """The group id is empty, or not valid for another reason."""


class UnknownMemberIdError(ApplicationRecoverableError, code=25):
    """The coordinator has removed this member, or never knew it: rejoin as a new one."""


class InvalidSessionTimeoutError(BrokerError, code=26):
    """The session timeout is outside the limits set by the broker's group.*.session.timeout.ms."""


class RebalanceInProgressError(BrokerError, code=27):
    """The group is rebalancing: the member has to join again."""


class InvalidCommitOffsetSizeError(BrokerError, code=28):
    """The commit is too large for the coordinator to store."""


class NonEmptyGroupError(BrokerError, code=68):
    """The group still has members; this needs an empty one."""


class GroupIdNotFoundError(BrokerError, code=69):
    """There is no group with this id."""


class MemberIdRequiredError(BrokerError, code=79):
    """The coordinator has chosen an id for the member: join again with it."""


class GroupMaxSizeReachedError(BrokerError, code=81):
    """The group has as many members as the broker allows."""


class FencedInstanceIdError(ApplicationRecoverableError, code=82):
    """Another member took over this group.instance.id: give each member its own."""


class GroupSubscribedToTopicError(BrokerError, code=86):
    """The group consumes the topic at present, so its offsets there cannot be deleted."""


class FencedMemberEpochError(BrokerError, code=110):
    """The coordinator has given the member's partitions away: let go of them all and rejoin."""


class UnreleasedInstanceIdError(BrokerError, code=111):
    """A member that has not left the group still owns this group.instance.id."""


class UnsupportedAssignorError(BrokerError, code=112):
    """The group cannot use this server-side assignor."""


class StaleMemberEpochError(BrokerError, code=113):
    """The member's epoch is behind: retry with the one that the next heartbeat brings."""


class FencedStateEpochError(BrokerError, code=124):
    """The state of the share group has another epoch: a newer coordinator writes it."""


class InvalidRegularExpressionError(BrokerError, code=128):
    """The broker cannot parse the pattern of the subscription, which has to be in RE2 syntax."""


class StreamsInvalidTopologyError(BrokerError, code=130):
    """The Streams group cannot work with this topology."""


class StreamsInvalidTopologyEpochError(BrokerError, code=131):
    """The epoch of the topology does not fit that of the Streams group."""


class StreamsTopologyFencedError(BrokerError, code=132):
    """The Streams group has a newer topology than this member."""


class GroupDeletionFailedError(BrokerError, code=134):
    """The group could not be deleted; the broker's message has the reason."""


class StreamsTopologyDescriptionUpdateFailedError(BrokerError, code=135):
    """The description of the topology could not be stored; the broker's message has the reason."""
