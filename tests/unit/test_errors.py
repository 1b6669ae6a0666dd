"""The exception tree: what errors say, how codes become errors, and that copies and pickles are faithful."""

from __future__ import annotations

import copy
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import kclient.errors
from kclient.errors import (
    BROKER_ERRORS,
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    CorruptBatchError,
    EncodeError,
    FetchSessionTopicIdError,
    IncompatibleBrokerError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    KafkaStorageError,
    KafkaTimeoutError,
    NetworkError,
    NonEmptyGroupError,
    NotLeaderOrFollowerError,
    ProtocolError,
    RequestTimedOutError,
    RetriableBrokerError,
    SaslAuthenticationFailedError,
    StaleMetadataError,
    TopicAuthorizationFailedError,
    UnknownCodeError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
    error_for,
)

CODES = pytest.mark.parametrize("kind", BROKER_ERRORS.values(), ids=lambda kind: kind.name)
ONE_OF_EACH_SHAPE = [
    KafkaError("nothing works"),
    EncodeError("300 does not fit into int8"),
    ConfigurationError("acks=2 is not one of 0, 1, all"),
    IncompatibleBrokerError("no version of FETCH in common"),
    KafkaConnectionError("connection refused"),
    KafkaTimeoutError("metadata did not arrive within 3 s"),
    AuthenticationError("certificate expired"),
    ClientClosedError("the producer is closed"),
    CorruptBatchError("crc mismatch").locate(topic="orders", partition=3, offset=17),
    NotLeaderOrFollowerError("try node 2", about="topic orders, partition 3"),
    SaslAuthenticationFailedError(),
    UnknownCodeError(999, "new in Kafka 9", about="topic orders"),
]
SHAPES = pytest.mark.parametrize("error", ONE_OF_EACH_SHAPE, ids=lambda error: type(error).__name__)


class AwkwardError(Exception):
    """Like many exceptions in the wild: it can be pickled, but not unpickled."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


def assert_same(twin: BaseException | None, error: BaseException) -> None:
    assert twin is not None
    assert twin is not error
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert twin.args == error.args
    assert vars(twin) == vars(error)


def test_code_zero_is_no_error() -> None:
    assert error_for(0) is None


@CODES
def test_a_code_becomes_an_error_of_its_class(kind: type[BrokerError]) -> None:
    error = error_for(kind.code)
    assert type(error) is kind
    assert error.code == kind.code


def test_an_unknown_code_is_kept_and_not_retriable() -> None:
    error = error_for(999, "new in Kafka 9", about="topic orders")
    assert type(error) is UnknownCodeError
    assert (error.code, error.message, error.about, error.retriable) == (
        999,
        "new in Kafka 9",
        "topic orders",
        False,
    )
    assert str(error).startswith("UNKNOWN_CODE (999) for topic orders: ")
    assert str(error).endswith(" The broker said: new in Kafka 9")


@CODES
def test_an_error_says_its_name_its_code_and_what_happened(kind: type[BrokerError]) -> None:
    assert str(kind()) == f"{kind.name} ({kind.code}): {kind.__doc__}"


@CODES
def test_what_happened_is_one_sentence_on_one_line(kind: type[BrokerError]) -> None:
    assert re.fullmatch(r"[A-Z][^\n]{20,}\.", kind.__doc__ or "")


def test_every_code_has_a_sentence_of_its_own() -> None:
    assert len({kind.__doc__ for kind in BROKER_ERRORS.values()}) == len(BROKER_ERRORS)


def test_an_error_says_what_it_is_about_and_what_the_broker_said() -> None:
    error = error_for(68, "2 members", about="group billing")
    assert str(error) == (
        "NON_EMPTY_GROUP (68) for group billing: The group still has members; this needs an empty one. "
        "The broker said: 2 members"
    )


def test_an_error_without_docstring_says_its_name_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NonEmptyGroupError, "__doc__", None)  # as python -OO does
    assert str(NonEmptyGroupError()) == "NON_EMPTY_GROUP (68)"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (UnknownTopicOrPartitionError, "UNKNOWN_TOPIC_OR_PARTITION"),
        (UnknownServerError, "UNKNOWN_SERVER_ERROR"),
        (KafkaStorageError, "KAFKA_STORAGE_ERROR"),
        (FetchSessionTopicIdError, "FETCH_SESSION_TOPIC_ID_ERROR"),
        (NetworkError, "NETWORK_EXCEPTION"),
        (InvalidTopicError, "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_a_class_is_named_after_kafkas_name(kind: type[BrokerError], name: str) -> None:
    assert kind.name == name


def test_a_code_cannot_be_registered_twice() -> None:
    with pytest.raises(TypeError, match="code 6 is NotLeaderOrFollowerError already"):
        type("SecondError", (BrokerError,), {}, code=6)
    assert BROKER_ERRORS[6] is NotLeaderOrFollowerError


def test_a_subclass_without_code_keeps_its_parents() -> None:
    class OwnError(NotLeaderOrFollowerError):
        """The application's own."""

    assert (OwnError.code, OwnError.name) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert type(error_for(6)) is NotLeaderOrFollowerError


def test_retries_are_decided_by_flags_that_every_error_has() -> None:
    flags = {
        kind: (kind.retriable, kind.refresh_metadata)
        for kind in (NotLeaderOrFollowerError, RequestTimedOutError, NonEmptyGroupError, KafkaConnectionError)
    }
    assert flags == {
        NotLeaderOrFollowerError: (True, True),
        RequestTimedOutError: (True, False),
        NonEmptyGroupError: (False, False),
        KafkaConnectionError: (True, True),
    }


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (NotLeaderOrFollowerError(), (StaleMetadataError, RetriableBrokerError)),
        (TopicAuthorizationFailedError(), (AuthorizationError,)),
        (SaslAuthenticationFailedError(), (BrokerError, AuthenticationError)),
        (KafkaTimeoutError("late"), (KafkaError, TimeoutError)),
        (ConfigurationError("wrong"), (KafkaError, ValueError)),
        (EncodeError("wrong"), (KafkaError, ValueError)),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else "",
)
def test_errors_can_be_caught_by_their_parents(
    error: KafkaError, parents: tuple[type[Exception], ...]
) -> None:
    for parent in parents:
        with pytest.raises(parent):
            raise error


@SHAPES
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_survive_pickling(error: KafkaError, protocol: int) -> None:
    assert_same(pickle.loads(pickle.dumps(error, protocol)), error)


@CODES
def test_every_code_survives_pickling(kind: type[BrokerError]) -> None:
    error = kind("because", about="topic orders")
    assert_same(pickle.loads(pickle.dumps(error)), error)


@SHAPES
def test_errors_survive_copying(error: KafkaError) -> None:
    assert_same(copy.copy(error), error)
    assert_same(copy.deepcopy(error), error)


def caused(error: KafkaError, cause: BaseException) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        raise error from cause
    return caught.value


def test_pickling_keeps_the_whole_chain_of_causes() -> None:
    refused = ConnectionRefusedError(111, "refused")
    error = caused(KafkaTimeoutError("late"), caused(KafkaConnectionError("lost"), refused))
    twin = pickle.loads(pickle.dumps(error))
    assert isinstance(twin.__cause__, KafkaConnectionError)
    assert str(twin.__cause__) == "lost"
    assert isinstance(twin.__cause__.__cause__, ConnectionRefusedError)
    assert twin.__cause__.__cause__.errno == 111


def test_a_cause_that_cannot_be_unpickled_travels_as_text() -> None:
    error = caused(ProtocolError("bad value"), AwkwardError("this", "that"))
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin.__cause__) is KafkaError
    assert str(twin.__cause__) == "AwkwardError: this and that"


def test_a_copy_shares_the_cause_whatever_it_is() -> None:
    cause = AwkwardError("this", "that")
    twin = copy.copy(caused(ProtocolError("bad value"), cause))
    assert twin.__cause__ is cause


def test_copies_and_pickles_without_a_cause_still_show_the_context_they_are_raised_in() -> None:
    error = KafkaError("alone")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert twin.__cause__ is None
        assert not twin.__suppress_context__


def test_a_copy_raised_elsewhere_leaves_the_original_alone() -> None:
    error = KafkaError("one batch, many waiters")
    with pytest.raises(KafkaError):
        raise copy.copy(error)
    assert error.__traceback__ is None


def test_two_errors_that_cause_each_other_can_be_pickled() -> None:
    first, second = KafkaError("hen"), KafkaError("egg")
    first.__cause__, second.__cause__ = second, first
    twin = pickle.loads(pickle.dumps(first))
    assert twin.__cause__.__cause__ is twin


def test_notes_survive_pickling() -> None:
    error = NonEmptyGroupError()
    error.add_note("seen while deleting")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen while deleting"]


def fail_in_another_process() -> None:
    raise UnknownCodeError(999, about="topic orders") from AwkwardError("this", "that")


def test_an_error_comes_back_from_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        error = pool.submit(fail_in_another_process).exception(60)
    assert isinstance(error, UnknownCodeError)
    assert (error.code, error.about) == (999, "topic orders")


def test_every_error_is_exported_by_the_package() -> None:
    def below(kind: type[KafkaError]) -> set[type[KafkaError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    exported = {getattr(kclient.errors, name) for name in kclient.errors.__all__ if name.endswith("Error")}
    assert exported == {kind for kind in below(KafkaError) if kind.__module__.startswith("kclient.errors.")}
