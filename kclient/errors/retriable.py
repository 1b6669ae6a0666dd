"""Codes that pass: the request is worth another try, for some of them after a refresh of the metadata."""

from __future__ import annotations

from kclient.errors.broker import RetriableBrokerError, StaleMetadataError


class UnknownTopicOrPartitionError(StaleMetadataError, code=3):
    """The broker asked does not host the partition: it moved, was deleted, or is yet to be created."""


class LeaderNotAvailableError(StaleMetadataError, code=5):
    """The partition has no leader at the moment: one is being elected."""


class NotLeaderOrFollowerError(StaleMetadataError, code=6):
    """The broker asked does not lead the partition, or has no replica of it: it has moved."""


class ReplicaNotAvailableError(StaleMetadataError, code=9):
    """The broker asked has no replica of the partition that it could use."""


class NetworkError(StaleMetadataError, code=13, name="NETWORK_EXCEPTION"):
    """A connection broke before the answer to the request came."""


class KafkaStorageError(StaleMetadataError, code=56, name="KAFKA_STORAGE_ERROR"):
    """The broker's disk failed under the partition's log; another replica has to take over."""


class ListenerNotFoundError(StaleMetadataError, code=72):
    """The partition's leader has no listener of the kind this client connected to."""


class FencedLeaderEpochError(StaleMetadataError, code=74):
    """The client's leader epoch is out of date: the partition has had an election since."""


class PreferredLeaderNotAvailableError(StaleMetadataError, code=80):
    """The partition's preferred replica cannot lead it at the moment."""


class EligibleLeadersNotAvailableError(StaleMetadataError, code=83):
    """None of the replicas that may lead the partition is alive."""


class ElectionNotNeededError(StaleMetadataError, code=84):
    """The partition is led already as the election would have it."""


class UnknownTopicIdError(StaleMetadataError, code=100):
    """The broker asked does not know the topic's id: the topic is new to it, or was deleted."""


class InconsistentTopicIdError(StaleMetadataError, code=103):
    """The topic's id at the broker is another one: the topic was probably deleted and created again."""


class CorruptMessageError(RetriableBrokerError, code=2):
    """The broker got the records damaged, too big, or without the key that a compacted topic needs."""


class RequestTimedOutError(RetriableBrokerError, code=7):
    """The broker ran out of the time it had for the request, which may still take effect."""


class CoordinatorLoadInProgressError(RetriableBrokerError, code=14):
    """The coordinator has just taken over and is still reading its state."""


class CoordinatorNotAvailableError(RetriableBrokerError, code=15):
    """There is no coordinator for the group or transactional id yet: look it up again."""


class NotCoordinatorError(RetriableBrokerError, code=16):
    """The broker asked is no longer the coordinator: look up which one is."""


class NotEnoughReplicasError(RetriableBrokerError, code=19):
    """Nothing was written: fewer replicas are in sync than the topic's min.insync.replicas."""


class NotEnoughReplicasAfterAppendError(RetriableBrokerError, code=20):
    """The records were written, but fewer replicas have them than the topic's min.insync.replicas."""


class NotControllerError(RetriableBrokerError, code=41):
    """The broker asked is not the active controller: look up which one is."""


class ConcurrentTransactionsError(RetriableBrokerError, code=51):
    """The previous step of the transactional id has not been completed yet."""


class FetchSessionIdNotFoundError(RetriableBrokerError, code=70):
    """The broker has dropped the fetch session: begin a new one with a full fetch."""


class InvalidFetchSessionEpochError(RetriableBrokerError, code=71):
    """Client and broker disagree on the progress of the fetch session: begin a new one."""


class UnknownLeaderEpochError(RetriableBrokerError, code=75):
    """The client's leader epoch is ahead of the broker's, which has to catch up."""


class OffsetNotAvailableError(RetriableBrokerError, code=78):
    """A leader just elected cannot tell yet up to which offset the partition is committed."""


class UnstableOffsetCommitError(RetriableBrokerError, code=88):
    """Offsets of the group are part of a transaction that is still open."""


class ThrottlingQuotaExceededError(RetriableBrokerError, code=89):
    """The quota for such changes is used up: wait for as long as the response says."""


class FetchSessionTopicIdError(RetriableBrokerError, code=106, name="FETCH_SESSION_TOPIC_ID_ERROR"):
    """The fetch session mixes topic names and topic ids: begin a new one."""


class ShareSessionNotFoundError(RetriableBrokerError, code=122):
    """The broker has dropped the share session: begin a new one."""


class InvalidShareSessionEpochError(RetriableBrokerError, code=123):
    """Client and broker disagree on the progress of the share session: begin a new one."""


class ShareSessionLimitReachedError(RetriableBrokerError, code=133):
    """The broker holds as many share sessions as it allows."""
