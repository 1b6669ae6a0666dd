"""One connection: order, deadlines, the gate, and every way in which it can end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kclient.clock import Deadline
from kclient.errors import (
    AuthenticationError,
    EncodeError,
    FrameTooLargeError,
    IncompatibleBrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kclient.net.connection import Connection
from kclient.wire.api import ApiKey
from kclient.wire.messages.connection import ApiVersionsRequest
from kclient.wire.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.wire.messages.produce import ProduceRequest
from kclient.wire.versions import VersionRange
from tests.support import faults
from tests.support.connecting import answered, ask, connect
from tests.support.fake_broker import FakeCluster
from tests.support.virtual_loop import HIGH_WATER, VirtualLoop

Brokers = Callable[..., FakeCluster]
FIND = ApiKey.FIND_COORDINATOR


async def ended(connection: Connection) -> None:
    connection.close()
    await connection.wait_closed()


def sent(cluster: FakeCluster, node_id: int = 1) -> list[str]:
    """The keys that a broker was asked for, in the order of arrival."""
    return [seen.request.coordinator_keys[0] for seen in cluster[node_id].requests if seen.key == FIND]


async def outcome(connection: Connection, key: str, deadline: Deadline, **options: Any) -> str | KafkaError:
    try:
        return answered(await connection.call(ask(key), deadline, **options))
    except KafkaError as error:
        return error


# Pipelining


async def test_pipelined_requests_are_written_in_order_and_each_gets_its_own_answer(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    keys = [f"group-{number}" for number in range(100)]
    calls = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 5))) for key in keys]
    assert await asyncio.gather(*calls) == keys
    assert sent(cluster) == keys
    assert repr(connection) == "<Connection broker-1:9092 open, 0 in flight>"
    await ended(connection)


async def test_pipelined_requests_do_not_wait_for_each_other(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    loop.network.latency = (0.1, 0.1)
    began = loop.time()
    await asyncio.gather(*(outcome(connection, str(n), Deadline.after(loop, 5)) for n in range(50)))
    assert loop.time() - began == pytest.approx(0.2, abs=0.001)
    await ended(connection)


async def test_completions_run_in_the_order_of_the_requests(loop: VirtualLoop, brokers: Brokers) -> None:
    connection = await connect(loop, brokers()[1])
    completed: list[str] = []
    last = loop.create_future()

    def done(response: FindCoordinatorResponse) -> None:
        completed.append(answered(response))
        if len(completed) == 10:
            last.set_result(None)

    for number in range(10):
        connection.send(ask(str(number)), Deadline.after(loop, 5), done)
    await last
    assert completed == [str(number) for number in range(10)]
    await ended(connection)


async def test_a_value_that_cannot_be_encoded_harms_only_its_own_request(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    connection = await connect(loop, brokers()[1])
    first = asyncio.create_task(outcome(connection, "good", Deadline.after(loop, 5)))
    bad = FindCoordinatorRequest(coordinator_keys=[7])  # type: ignore[list-item]
    with pytest.raises(EncodeError, match="coordinator_keys"):
        await connection.call(bad, Deadline.after(loop, 5))
    assert await first == "good"
    assert await outcome(connection, "after", Deadline.after(loop, 5)) == "after"
    await ended(connection)


async def test_a_request_the_broker_does_not_offer_is_refused_before_it_is_sent(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    del cluster[1].versions[FIND]
    connection = await connect(loop, cluster[1])
    outcomes: list[Any] = []
    connection.send(ask("never"), Deadline.after(loop, 5), outcomes.append)
    assert [type(error) for error in outcomes] == [IncompatibleBrokerError]
    with pytest.raises(IncompatibleBrokerError, match="FIND_COORDINATOR"):
        await connection.call(ask("never"), Deadline.after(loop, 5))
    assert sent(cluster) == []
    await ended(connection)


async def test_the_newest_version_that_both_sides_speak_is_used(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    cluster[1].versions[FIND] = VersionRange(0, 2)
    connection = await connect(loop, cluster[1])
    assert connection.version_for(FindCoordinatorRequest) == 2
    await connection.call(FindCoordinatorRequest(key="old"), Deadline.after(loop, 5))
    assert cluster[1].requests[-1].version == 2
    await ended(connection)


async def test_correlation_ids_start_again_before_they_overflow(loop: VirtualLoop, brokers: Brokers) -> None:
    connection = await connect(loop, brokers()[1])
    connection._correlation_id = (1 << 31) - 2
    deadline = Deadline.after(loop, 5)
    assert [await outcome(connection, key, deadline) for key in "abc"] == ["a", "b", "c"]
    await ended(connection)


async def test_a_request_without_an_answer_does_not_disturb_the_others(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].always(ApiKey.PRODUCE, lambda exchange: exchange.finish())
    connection = await connect(loop, cluster[1])
    connection.send_unanswered(ProduceRequest(transactional_id=None, acks=0, timeout_ms=1000, topic_data=[]))
    assert await outcome(connection, "next", Deadline.after(loop, 5)) == "next"
    assert cluster[1].count(ApiKey.PRODUCE) == 1
    await ended(connection)
    with pytest.raises(KafkaConnectionError, match="closed by this client"):
        connection.send_unanswered(
            ProduceRequest(transactional_id=None, acks=0, timeout_ms=1000, topic_data=[])
        )


# Answers that make no sense


@pytest.mark.parametrize(
    ("fault", "reason", "kind"),
    [
        (faults.answers_another_request, "answered request 1002 where 2 was the next", ProtocolError),
        (faults.sends(bytes.fromhex("00000002 ffff")), "shorter than a response header", ProtocolError),
        (faults.sends(bytes.fromhex("80000000")), "negative size", ProtocolError),
        (faults.announces(1_000_001), "frame of 1000001 bytes is over the limit", FrameTooLargeError),
        (faults.announces(2**31 - 1), "frame of 2147483647 bytes is over the limit", FrameTooLargeError),
    ],
)
async def test_bytes_that_make_no_sense_close_the_connection_and_fail_all_that_is_in_flight(
    loop: VirtualLoop, brokers: Brokers, fault: Any, reason: str, kind: type[KafkaError]
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, fault)
    connection = await connect(loop, cluster[1])
    deadline = Deadline.after(loop, 5)
    failures = await asyncio.gather(*(outcome(connection, key, deadline) for key in ("a", "b", "c")))
    for failure in failures:
        assert isinstance(failure, KafkaConnectionError)
        assert failure.retriable
        assert reason in str(failure)
        assert isinstance(failure.__cause__, kind)
    assert len(set(map(id, failures))) == 3
    assert connection.closed
    await connection.wait_closed()
    assert loop.time() < 1


async def test_an_answer_that_cannot_be_decoded_is_final_for_its_request_and_passing_for_the_others(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.garbles)
    connection = await connect(loop, cluster[1])
    deadline = Deadline.after(loop, 5)
    garbled, other = await asyncio.gather(
        outcome(connection, "garbled", deadline), outcome(connection, "other", deadline)
    )
    assert isinstance(garbled, ProtocolError)
    assert isinstance(other, KafkaConnectionError)
    await connection.wait_closed()


async def test_an_answer_to_nothing_closes_the_connection(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    cluster[1].peers[0].transport.write(bytes.fromhex("00000004 00000009"))
    await connection.wait_closed()
    assert "that nothing was asked for" in str(connection.error)
    with pytest.raises(KafkaConnectionError, match="nothing was asked for"):
        await connection.call(ask("late"), Deadline.after(loop, 5))


async def test_a_defect_in_a_decoder_fails_the_request_instead_of_losing_it(
    loop: VirtualLoop, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await connect(loop, brokers()[1])

    def defective(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("kclient.net.connection.decode_response", defective)
    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    assert isinstance(await outcome(connection, "a", Deadline.after(loop, 5)), KafkaConnectionError)
    assert [type(error) for error in reported] == [ZeroDivisionError]
    await connection.wait_closed()


# Deadlines


async def test_a_missed_deadline_closes_the_connection_and_fails_every_request(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.silent)
    connection = await connect(loop, cluster[1])
    began = loop.time()
    deadlines = [Deadline.after(loop, seconds) for seconds in (9, 3, 6)]
    failures = await asyncio.gather(*(outcome(connection, "k", deadline) for deadline in deadlines))
    assert loop.time() - began == pytest.approx(3)
    for failure in failures:
        assert isinstance(failure, KafkaConnectionError)
        assert str(failure) == (
            "FIND_COORDINATOR to broker-1:9092 (3 requests in flight) did not end within 3 s"
        )
        assert isinstance(failure.__cause__, KafkaTimeoutError)
    await connection.wait_closed()


async def test_answers_in_time_keep_the_connection_past_earlier_deadlines(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.delayed(0.9), faults.delayed(1), faults.delayed(1))
    connection = await connect(loop, cluster[1])
    deadlines = [Deadline.after(loop, seconds) for seconds in (1, 2, 3)]
    calls = [outcome(connection, str(number), deadline) for number, deadline in enumerate(deadlines)]
    assert await asyncio.gather(*calls) == ["0", "1", "2"]
    assert not connection.closed
    await ended(connection)


@pytest.mark.parametrize("order", [(1, 8), (8, 1)])
async def test_the_earliest_deadline_counts_in_whichever_order_requests_were_sent(
    loop: VirtualLoop, brokers: Brokers, order: tuple[int, int]
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.silent)
    connection = await connect(loop, cluster[1])
    began = loop.time()
    await asyncio.gather(*(outcome(connection, "k", Deadline.after(loop, seconds)) for seconds in order))
    assert loop.time() - began == pytest.approx(1)
    await connection.wait_closed()


async def test_an_answer_that_drips_in_does_not_move_the_deadline(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.drips)
    connection = await connect(loop, cluster[1])
    began = loop.time()
    assert isinstance(await outcome(connection, "k", Deadline.after(loop, 2)), KafkaConnectionError)
    assert loop.time() - began == pytest.approx(2)
    await connection.wait_closed()


async def test_an_answer_that_drips_in_before_the_deadline_is_read(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.drips)
    connection = await connect(loop, cluster[1])
    assert await outcome(connection, "slow", Deadline.after(loop, 30)) == "slow"
    await ended(connection)


async def test_a_cancelled_caller_leaves_the_connection_and_other_callers_alone(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.delayed(1))
    connection = await connect(loop, cluster[1])
    tasks = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 5))) for key in "abc"]
    await asyncio.sleep(0.5)
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert connection.pending == 3
    assert [await tasks[0], await tasks[2]] == ["a", "c"]
    assert await outcome(connection, "d", Deadline.after(loop, 5)) == "d"
    await ended(connection)


async def test_a_broker_that_never_answers_a_cancelled_request_is_still_found_out(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.silent)
    connection = await connect(loop, cluster[1])
    began = loop.time()
    task = asyncio.create_task(outcome(connection, "a", Deadline.after(loop, 5)))
    await asyncio.sleep(0)
    task.cancel()
    await connection.wait_closed()
    assert loop.time() - began == pytest.approx(5, abs=0.01)


# Back-pressure


async def test_writable_waits_while_the_broker_does_not_read(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    await connection.writable(Deadline.after(loop, 0))
    peer = cluster[1].peers[0].transport
    peer.pause_reading()
    keys = [str(number) * 200 for number in range(HIGH_WATER // 200 + 50)]
    calls = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 60))) for key in keys]
    await asyncio.sleep(1)
    with pytest.raises(KafkaConnectionError, match="broker-1:9092 has taken no bytes for 2 s"):
        await connection.writable(Deadline.after(loop, 2))
    loop.call_later(5, peer.resume_reading)
    began = loop.time()
    await connection.writable(Deadline.after(loop, 30))
    assert loop.time() - began == pytest.approx(5, abs=0.05)
    assert await asyncio.gather(*calls) == keys
    await ended(connection)


async def test_whoever_waits_to_write_is_woken_when_the_connection_closes(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    connection = await connect(loop, brokers()[1])
    connection.pause_writing()
    waiter = asyncio.create_task(connection.writable(Deadline.after(loop, 60)))
    await asyncio.sleep(1)
    assert not waiter.done()
    await ended(connection)
    await waiter
    assert loop.time() < 2


# The gate


async def test_held_requests_go_out_in_order_when_released(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    connection.hold()
    calls = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 9))) for key in "abc"]
    await asyncio.sleep(1)
    assert sent(cluster) == []
    assert repr(connection) == "<Connection broker-1:9092 open, 0 in flight, 3 held>"
    assert connection.pending == 3
    connection.release()
    assert await asyncio.gather(*calls) == ["a", "b", "c"]
    assert sent(cluster) == ["a", "b", "c"]
    await ended(connection)


async def test_the_gate_opens_when_the_last_of_its_holders_lets_go(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    connection.hold()
    connection.hold()
    call = asyncio.create_task(outcome(connection, "a", Deadline.after(loop, 9)))
    await asyncio.sleep(1)
    connection.release()
    await asyncio.sleep(1)
    assert sent(cluster) == []
    connection.release()
    assert await call == "a"
    await ended(connection)


async def test_a_request_past_the_gate_overtakes_those_that_are_held(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    connection.hold()
    held = asyncio.create_task(outcome(connection, "held", Deadline.after(loop, 9)))
    await asyncio.sleep(0)
    assert await outcome(connection, "sasl", Deadline.after(loop, 9), past_gate=True) == "sasl"
    assert not held.done()
    connection.release()
    assert await held == "held"
    assert sent(cluster) == ["sasl", "held"]
    await ended(connection)


async def test_held_requests_keep_their_deadlines_and_do_not_close_the_connection(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    connection.hold()
    long = asyncio.create_task(outcome(connection, "long", Deadline.after(loop, 9)))
    began = loop.time()
    short = await outcome(connection, "short", Deadline.after(loop, 2))
    assert loop.time() - began == pytest.approx(2)
    assert isinstance(short, KafkaConnectionError)
    assert str(short) == "FIND_COORDINATOR to broker-1:9092 was held back for 2 s"
    connection.release()
    assert await long == "long"
    assert sent(cluster) == ["long"]
    await ended(connection)


async def test_a_cancelled_caller_whose_request_is_held_never_has_it_answered_to_another(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    connection = await connect(loop, brokers()[1])
    connection.hold()
    tasks = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 9))) for key in "ab"]
    await asyncio.sleep(1)
    tasks[0].cancel()
    connection.release()
    assert await tasks[1] == "b"
    await ended(connection)


# Throttling (KIP-219)


def throttled(seconds: float) -> Any:
    def fault(exchange: Any) -> None:
        response = exchange.response()
        response.throttle_time_ms = int(seconds * 1000)
        exchange.reply(response)

    return fault


async def test_a_throttled_connection_is_silent_until_the_time_is_over(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, throttled(4))
    connection = await connect(loop, cluster[1])
    assert await outcome(connection, "first", Deadline.after(loop, 9)) == "first"
    until = connection.throttled_until
    assert until == pytest.approx(loop.time() + 4)
    calls = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 9))) for key in "abc"]
    await asyncio.sleep(3.9)
    assert sent(cluster) == ["first"]
    assert await asyncio.gather(*calls) == ["a", "b", "c"]
    assert [seen.at >= until for seen in cluster[1].requests if seen.key == FIND] == [False, True, True, True]
    assert sent(cluster) == ["first", "a", "b", "c"]
    await ended(connection)


async def test_what_was_sent_before_the_throttle_is_answered_during_it(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, throttled(10), throttled(0))
    connection = await connect(loop, cluster[1])
    began = loop.time()
    deadline = Deadline.after(loop, 5)
    assert await asyncio.gather(*(outcome(connection, key, deadline) for key in "ab")) == ["a", "b"]
    assert loop.time() - began < 1
    await ended(connection)


async def test_a_longer_throttle_extends_a_running_one_and_a_shorter_one_does_not_cut_it(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, throttled(2), throttled(6), throttled(1))
    connection = await connect(loop, cluster[1])
    began = loop.time()
    await asyncio.gather(*(outcome(connection, key, Deadline.after(loop, 9)) for key in "abc"))
    assert await outcome(connection, "d", Deadline.after(loop, 9)) == "d"
    assert loop.time() - began == pytest.approx(6, abs=0.1)
    assert await outcome(connection, "e", Deadline.after(loop, 9)) == "e"
    assert loop.time() - began == pytest.approx(6, abs=0.1)
    await ended(connection)


async def test_closing_a_throttled_connection_fails_what_is_held(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, throttled(60))
    connection = await connect(loop, cluster[1])
    await outcome(connection, "first", Deadline.after(loop, 9))
    held = asyncio.create_task(outcome(connection, "held", Deadline.after(loop, 99)))
    await asyncio.sleep(1)
    await ended(connection)
    assert isinstance(await held, KafkaConnectionError)
    connection.release()  # whoever held the gate lets go after the end
    assert repr(connection) == (
        "<Connection broker-1:9092 closed: connection to broker-1:9092 was closed by this client>"
    )


# The end


async def test_close_happens_once_and_its_first_reason_stays(loop: VirtualLoop, brokers: Brokers) -> None:
    connection = await connect(loop, brokers()[1])
    ends: list[str] = []
    connection.on_close(lambda: ends.append("told"))
    connection.close(ProtocolError("the first reason"))
    connection.close(ProtocolError("another"))
    await connection.wait_closed()
    await connection.wait_closed()
    assert ends == ["told"]
    assert str(connection.error) == "the first reason"
    assert repr(connection) == "<Connection broker-1:9092 closed: the first reason>"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.closes, "broker-1:9092 closed the connection"),
        (faults.resets, "connection to broker-1:9092 was lost: [Errno 104] Connection reset by peer"),
    ],
)
async def test_a_connection_that_the_broker_ends_fails_its_requests_at_once(
    loop: VirtualLoop, brokers: Brokers, fault: Any, reason: str
) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, fault)
    connection = await connect(loop, cluster[1])
    await connection.call(ApiVersionsRequest(), Deadline.after(loop, 60))
    failure = await outcome(connection, "a", Deadline.after(loop, 60))
    assert isinstance(failure, KafkaConnectionError)
    assert str(failure) == reason
    assert loop.time() < 1
    await connection.wait_closed()


async def test_an_answer_before_the_end_is_delivered(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    cluster[1].plan(FIND, faults.closes_after_answering)
    connection = await connect(loop, cluster[1])
    deadline = Deadline.after(loop, 60)
    first, second = await asyncio.gather(
        outcome(connection, "first", deadline), outcome(connection, "second", deadline)
    )
    assert first == "first"
    assert isinstance(second, KafkaConnectionError)
    await connection.wait_closed()


async def test_an_authentication_error_stays_one_for_what_was_not_sent_yet(
    loop: VirtualLoop, brokers: Brokers
) -> None:
    """What was sent may have been done: whoever takes it for refused, and sends it again, doubles it."""
    cluster = brokers()
    cluster[1].plan(FIND, faults.silent)
    connection = await connect(loop, cluster[1])
    sent = [asyncio.create_task(outcome(connection, key, Deadline.after(loop, 9))) for key in "ab"]
    await asyncio.sleep(1)
    connection.hold()
    held = asyncio.create_task(outcome(connection, "c", Deadline.after(loop, 9)))
    await asyncio.sleep(1)
    connection.close(AuthenticationError("the session is over"))
    failures = [*await asyncio.gather(*sent, held), await outcome(connection, "d", Deadline.after(loop, 9))]
    assert [type(failure) for failure in failures] == [KafkaConnectionError] * 2 + [AuthenticationError] * 2
    assert {str(failure) for failure in failures} == {"the session is over"}
    for failure in failures:
        assert isinstance(failure, KafkaError)
        assert isinstance(failure.__cause__, AuthenticationError)
    await connection.wait_closed()


async def test_a_completion_may_send_the_next_request_or_close(loop: VirtualLoop, brokers: Brokers) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    outcomes: list[Any] = []

    def close(response: Any) -> None:
        outcomes.append(response)
        connection.close()

    def again(response: Any) -> None:
        outcomes.append(response)
        connection.send(ask("second"), Deadline.after(loop, 5), close)
        connection.send(ask("third"), Deadline.after(loop, 5), outcomes.append)

    connection.send(ask("first"), Deadline.after(loop, 5), again)
    await connection.wait_closed()
    assert [answered(response) for response in outcomes[:2]] == ["first", "second"]
    assert isinstance(outcomes[2], KafkaConnectionError)


async def test_requests_of_one_turn_are_one_write_in_their_order(
    loop: VirtualLoop, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = brokers()
    connection = await connect(loop, cluster[1])
    transport = connection._transport
    assert transport is not None
    writes: list[bytes] = []
    write = transport.write

    def counting(data: Any) -> None:
        writes.append(bytes(data))
        write(data)

    monkeypatch.setattr(transport, "write", counting)
    deadline = Deadline.after(loop, 60)
    answers = await asyncio.gather(*(outcome(connection, f"group {n}", deadline) for n in range(10)))
    assert len(writes) == 2  # the first at once, the others together
    assert answers == [f"group {n}" for n in range(10)]
    assert [b"group %d" % n in b"".join(writes) for n in range(10)] == [True] * 10
    connection.close()
    await connection.wait_closed()
