"""Final codes of running a cluster: topics and configurations, brokers and controllers."""

from __future__ import annotations

from kclient.errors.broker import BrokerError


class InvalidTopicError(BrokerError, code=17, name="INVALID_TOPIC_EXCEPTION"):
    """The topic has a name that is not allowed, or is internal to Kafka."""


class TopicAlreadyExistsError(BrokerError, code=36):
    """There is a topic of this name already."""


class InvalidPartitionsError(BrokerError, code=37):
    """The topic cannot have this number of partitions; it can only grow, from 1."""


class InvalidReplicationFactorError(BrokerError, code=38):
    """The replication factor is not positive, or there are not enough live brokers for it."""


class InvalidReplicaAssignmentError(BrokerError, code=39):
    """The replicas listed repeat a broker, name an unknown one, or differ in number."""


class InvalidConfigError(BrokerError, code=40):
    """A configuration was turned down; the broker's message says which."""


class PolicyViolationError(BrokerError, code=44):
    """A policy that the operators of the cluster have put in place forbids this."""


class OperationNotAttemptedError(BrokerError, code=55):
    """The broker left this part of the request alone because another part failed."""


class LogDirNotFoundError(BrokerError, code=57):
    """The broker has no log directory of this path."""


class ReassignmentInProgressError(BrokerError, code=60):
    """The partition's replicas are being moved: wait for the end of that."""


class TopicDeletionDisabledError(BrokerError, code=73):
    """The cluster is configured not to delete topics (delete.topic.enable)."""


class NoReassignmentInProgressError(BrokerError, code=85):
    """The partition's replicas are not being moved, so there is nothing to cancel."""


class ResourceNotFoundError(BrokerError, code=91):
    """The request names something that does not exist."""


class DuplicateResourceError(BrokerError, code=92):
    """The request names the same thing more than once."""


class InvalidUpdateVersionError(BrokerError, code=95):
    """The version to be set is not a valid successor of the present one."""


class FeatureUpdateFailedError(BrokerError, code=96):
    """The features of the cluster could not be changed; the broker's message has the reason."""


class BrokerNotAvailableError(BrokerError, code=8):
    """The broker needed for this is not alive."""


class StaleControllerEpochError(BrokerError, code=11):
    """The controller that sent the request has been replaced."""


class StaleBrokerEpochError(BrokerError, code=77):
    """The broker has registered again since the epoch in the request."""


class InconsistentVoterSetError(BrokerError, code=94):
    """Sender and receiver differ about who votes in the controller quorum."""


class SnapshotNotFoundError(BrokerError, code=98):
    """The snapshot of the cluster's metadata does not exist."""


class PositionOutOfRangeError(BrokerError, code=99):
    """The position is outside the snapshot of the cluster's metadata."""


class DuplicateBrokerRegistrationError(BrokerError, code=101):
    """A live broker has registered with this id."""


class BrokerIdNotRegisteredError(BrokerError, code=102):
    """No broker has registered with this id."""


class InconsistentClusterIdError(BrokerError, code=104):
    """The request is meant for a cluster with another id."""


class IneligibleReplicaError(BrokerError, code=107):
    """A replica proposed as in sync is fenced, shutting down, or otherwise not able to be."""


class NewLeaderElectedError(BrokerError, code=108):
    """The partition was changed as requested, and got another leader by that."""


class MismatchedEndpointTypeError(BrokerError, code=114):
    """A broker got a request meant for controllers, or a controller one meant for brokers."""


class UnsupportedEndpointTypeError(BrokerError, code=115):
    """The receiver knows no such type of endpoint."""


class UnknownControllerIdError(BrokerError, code=116):
    """There is no controller with this id."""


class InvalidRegistrationError(BrokerError, code=119):
    """The controller did not accept the broker's registration."""


class InvalidVoterKeyError(BrokerError, code=125):
    """The request is addressed to a voter with another key."""


class DuplicateVoterError(BrokerError, code=126):
    """The controller to be added is a voter already."""


class VoterNotFoundError(BrokerError, code=127):
    """The controller is not one of the voters."""


class RebootstrapRequiredError(BrokerError, code=129):
    """The brokers known are of no use any more: begin again with the bootstrap servers."""


class ControllerIdNotRegisteredError(BrokerError, code=136):
    """No controller has registered with this id."""
