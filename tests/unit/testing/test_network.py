"""The network: names, refusals, latency, bandwidth, cutting, partitions, resets."""

from __future__ import annotations

import asyncio
import socket
import statistics

import pytest

from kclient.testing import Conditions, VirtualLoop
from tests.unit.testing.ends import SERVER, Recorder, pair


async def test_nobody_listening_refuses_after_a_round_trip(loop: VirtualLoop) -> None:
    loop.network.latency = (0.1, 0.1)
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, *SERVER)
    assert loop.time() == pytest.approx(0.2)
    assert loop.network.dialled == [SERVER]


async def test_a_host_can_refuse_although_somebody_listens(loop: VirtualLoop) -> None:
    client, _ = await pair(loop.network)
    loop.network.refuse("kafka-1")
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, *SERVER)
    loop.network.admit("kafka-1")
    transport, _ = await loop.create_connection(Recorder, *SERVER)
    assert not client.lost
    client.transport.close()
    transport.close()
    await asyncio.sleep(1)


async def test_names_can_change_and_disappear(loop: VirtualLoop) -> None:
    loop.network.listen(("10.0.0.2", 9092), Recorder)
    loop.network.names["kafka"] = ["10.0.0.1"]
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(Recorder, "kafka", 9092)
    loop.network.names["kafka"] = ["10.0.0.1", "10.0.0.2"]
    transport, _ = await loop.create_connection(Recorder, "kafka", 9092)
    assert transport.get_extra_info("peername") == ("10.0.0.2", 9092)
    transport.close()
    loop.network.names["kafka"] = []
    with pytest.raises(socket.gaierror):
        await loop.create_connection(Recorder, "kafka", 9092)
    await asyncio.sleep(1)


async def test_when_no_address_of_a_name_answers_the_error_tells_of_all(loop: VirtualLoop) -> None:
    loop.network.names["kafka"] = ["10.0.0.1", "10.0.0.2"]
    with pytest.raises(OSError, match=r"Multiple exceptions: .*refused.*refused"):
        await loop.create_connection(Recorder, "kafka", 9092)


async def test_latency_is_drawn_from_a_range_or_by_a_function(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    took: list[float] = []
    for latency in [(0.2, 0.4)] * 100 + [lambda random: random.expovariate(10)] * 100:
        loop.network.latency = latency
        began = loop.time()
        client.transport.write(b"x")
        took.append(await server.arrival() - began)
    assert min(took[:100]) >= 0.2
    assert max(took[:100]) <= 0.4
    assert statistics.mean(took[100:]) == pytest.approx(0.1, rel=0.3)
    client.transport.close()
    await asyncio.sleep(5)


async def test_bytes_never_overtake_each_other(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.latency = (0, 1)
    for number in range(200):
        client.transport.write(bytes([number]))
        await asyncio.sleep(0.01)
    await asyncio.sleep(2)
    assert server.data == bytes(range(200))
    client.transport.close()
    await asyncio.sleep(2)


async def test_bandwidth_spreads_bytes_over_time(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.conditions(Conditions(latency=(0.01, 0.01), bandwidth=100_000))
    for _ in range(10):
        client.transport.write(bytes(5_000))
    await asyncio.sleep(0.27)
    assert len(server.data) == 25_000
    await asyncio.sleep(0.25)
    assert len(server.data) == 50_000
    client.transport.close()
    await asyncio.sleep(1)


async def test_bytes_are_cut_anywhere_and_arrive_whole(loop: VirtualLoop) -> None:
    loop.network.conditions(Conditions(segments=(1, 7)))
    client, server = await pair(loop.network)
    sent = bytes(range(256)) * 20
    for start in range(0, len(sent), 100):
        client.transport.write(sent[start : start + 100])
    await asyncio.sleep(2)
    assert server.data == sent
    assert {len(piece) for piece in server.pieces} == set(range(1, 8))
    client.transport.close()
    await asyncio.sleep(1)


async def test_a_half_open_connection_is_silent_and_what_was_sent_arrives_when_it_heals(
    loop: VirtualLoop,
) -> None:
    client, server = await pair(loop.network)
    loop.network.partition("127.0.0.1", "kafka-1")
    client.transport.write(b"are you there")
    server.transport.write(b"hello")
    await asyncio.sleep(3600)
    assert (client.events, client.data, server.events, server.data) == (["made"], b"", ["made"], b"")
    loop.network.heal("127.0.0.1", "kafka-1")
    await asyncio.sleep(1)
    assert (client.data, server.data) == (b"hello", b"are you there")
    client.transport.close()
    await asyncio.sleep(1)


async def test_bytes_under_way_when_a_partition_begins_do_not_arrive(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.latency = (1, 1)
    client.transport.write(b"late")
    await asyncio.sleep(0.5)
    loop.network.silence(SERVER)
    await asyncio.sleep(60)
    assert server.data == b""
    loop.network.heal()
    await asyncio.sleep(2)
    assert server.data == b"late"
    client.transport.close()
    await asyncio.sleep(5)


async def test_an_end_behind_a_partition_does_not_learn_that_the_other_is_gone(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.silence("kafka-1")
    client.transport.abort()
    await asyncio.sleep(3600)
    assert client.lost
    assert server.events == ["made"]
    assert loop.network.transports == [server.transport]
    loop.network.heal("kafka-1")
    await asyncio.sleep(1)
    assert isinstance(server.error, ConnectionResetError)


async def test_a_pause_is_of_one_direction(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.pause("kafka-1", None)
    client.transport.write(b"request")
    await asyncio.sleep(1)
    server.transport.write(b"answer")
    await asyncio.sleep(60)
    assert (server.data, client.data) == (b"request", b"")
    loop.network.resume("kafka-1", None)
    await asyncio.sleep(1)
    assert client.data == b"answer"
    client.transport.close()
    await asyncio.sleep(1)


async def test_a_connection_that_is_being_made_hangs_in_a_partition_and_can_be_given_up(
    loop: VirtualLoop,
) -> None:
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    loop.network.listen(SERVER, accept)
    loop.network.silence(SERVER)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await loop.create_connection(Recorder, *SERVER)
    loop.network.heal(SERVER)
    await asyncio.sleep(1)
    assert not accepted


async def test_a_server_that_accepted_somebody_who_gave_up_sees_a_reset(loop: VirtualLoop) -> None:
    accepted = Recorder()
    loop.network.latency = (1, 1)
    loop.network.listen(SERVER, lambda: accepted)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await loop.create_connection(Recorder, *SERVER)
    await asyncio.sleep(5)
    assert isinstance(accepted.error, ConnectionResetError)
    assert not loop.network.transports


@pytest.mark.parametrize("moment", [0.5, 1.0, 1.5, 2.0])
async def test_giving_up_at_any_moment_of_connecting_leaves_nothing(loop: VirtualLoop, moment: float) -> None:
    loop.network.latency = (1, 1)
    loop.network.listen(SERVER, Recorder)
    dialling = loop.create_task(loop.create_connection(Recorder, *SERVER))
    loop.call_later(moment, dialling.cancel)
    with pytest.raises(asyncio.CancelledError):
        await dialling
    await asyncio.sleep(5)
    assert not loop.network.transports
    assert not loop.network.moving


async def test_a_reset_breaks_both_ends_and_only_between_the_places_named(loop: VirtualLoop) -> None:
    client, server = await pair(loop.network)
    loop.network.listen(("kafka-2", 9092), Recorder)
    other, _ = await loop.create_connection(Recorder, "kafka-2", 9092)
    client.transport.write(b"lost")
    assert loop.network.reset("kafka-1") == 1
    await asyncio.sleep(1)
    assert isinstance(client.error, ConnectionResetError)
    assert isinstance(server.error, ConnectionResetError)
    assert server.data == b""
    assert loop.network.open == [other]
    other.close()
    await asyncio.sleep(1)


async def test_a_reset_ends_connections_that_are_being_made(loop: VirtualLoop) -> None:
    loop.network.listen(SERVER, Recorder)
    loop.network.latency = (1, 1)
    for moment in (0.5, 1.5):
        dialling = loop.create_task(loop.create_connection(Recorder, *SERVER))
        await asyncio.sleep(moment)
        assert loop.network.reset() == 1
        with pytest.raises(ConnectionResetError):
            await dialling
        await asyncio.sleep(3)
    assert not loop.network.transports


async def test_hosts_have_paths_and_ports_of_their_own(loop: VirtualLoop) -> None:
    network = loop.network
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        inner_reader, inner = await asyncio.open_connection("store", 1)  # from the host that serves
        seen.append(inner.get_extra_info("sockname")[0])
        inner.close()
        writer.close()
        assert await inner_reader.read() == b""

    with network.host("store"):
        store = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 1)
    front = await asyncio.start_server(serve, "front", 80)  # by its name, from another host
    network.partition("app", "store")
    with network.host("app"):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("localhost", 80)  # that is "app" itself
        reader, writer = await asyncio.open_connection("front", 80)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.open_connection("store", 1)
    writer.write_eof()
    await reader.read()
    assert seen == ["front"]
    writer.close()
    for server in (store, front):
        server.close()
        await server.wait_closed()
    await asyncio.sleep(1)
