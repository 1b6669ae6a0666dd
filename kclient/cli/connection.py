"""How commands reach a cluster: the options they share, and clients made of them.

What is given later wins: variables of the environment (`KCLIENT_` and a property in capitals), the file of
`-c`, `-X name=value`, `-b`. Secrets come from a file or the environment: everybody on a machine sees the
arguments of a command.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kclient.cli.errors import CommandError, Terminated, UsageError, close_to, no_broker
from kclient.cli.options import TIMEOUT, every_property
from kclient.cli.output import warn
from kclient.cli.properties import read_properties
from kclient.config import ClientConfig
from kclient.errors import KafkaConnectionError, KafkaTimeoutError, UnknownTopicOrPartitionError
from kclient.properties import our_name, translated

if TYPE_CHECKING:
    from kclient.admin import AsyncAdmin, IsolationLevel, TopicDescription

# When nothing has answered by then and every attempt was refused, more of them will not help.
_REFUSED_AFTER = 2.5
_REFUSALS = ("cannot connect to", "cannot resolve", "closed the connection")


class Connection:
    """The options of one call of the command, for clients of every kind."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.timeout: float = getattr(options, "timeout", TIMEOUT)
        self._settings = _from_environment() | _from_file(options) | _from_arguments(options)
        if servers := getattr(options, "bootstrap_servers", None):
            self._settings["bootstrap.servers"] = servers
        self._settings.setdefault("default.api.timeout.ms", str(int(self.timeout * 1000)))
        self._settings.setdefault("request.timeout.ms", str(int(self.timeout * 1000)))

    @property
    def servers(self) -> str:
        return str(self._settings.get("bootstrap.servers", "localhost:9092"))

    def options_for(self, config: type[ClientConfig], **more: Any) -> dict[str, Any]:
        """What a client of this kind understands of the properties; a file may serve several kinds."""
        names = _names(config)
        given = {names[name]: value for name, value in self._settings.items() if name in names}
        return given | more

    @property
    def isolation_level(self) -> IsolationLevel:
        """With read_committed, a partition ends where its first open transaction begins."""
        from kclient.consumer.config import ConsumerConfig

        given = self.options_for(ConsumerConfig).get("isolation_level", "read_uncommitted")
        ConsumerConfig.from_options({"isolation_level": given})  # complains about what is none
        return "read_committed" if given == "read_committed" else "read_uncommitted"

    async def started(self, start: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """Start a client; one whose attempts are all refused does not wait for the whole time."""
        patience = min(self.timeout, _REFUSED_AFTER)
        try:
            await start(patience * 1000)
        except KafkaTimeoutError as error:
            reason = error.__cause__ or error
            if self.timeout <= patience or any(text in str(reason) for text in _REFUSALS):
                raise no_broker(self.servers, reason, patience) from error
            try:
                await start((self.timeout - patience) * 1000)
            except KafkaTimeoutError as late:
                raise no_broker(self.servers, late.__cause__ or late, self.timeout) from late
        except KafkaConnectionError as error:
            raise no_broker(self.servers, error, patience) from error

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AsyncAdmin]:
        from kclient.admin import AsyncAdmin

        client = AsyncAdmin(**self.options_for(ClientConfig))
        try:
            await self.started(client.start)
            yield client
        finally:
            await client.close()


def run_command(options: argparse.Namespace) -> int:
    """Run what a verb has for work. Ctrl-C and SIGTERM cancel it, and it ends in order."""
    import asyncio

    async def work() -> int:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, RuntimeError):  # Windows, or not the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        code: int = await options.work(options, Connection(options))
        return code

    try:
        return asyncio.run(work())
    except asyncio.CancelledError:  # by nobody else: Ctrl-C is a KeyboardInterrupt by now
        raise Terminated from None


async def described(admin: AsyncAdmin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Topics that must exist; a name that is nearly another's is told so."""
    found = await admin.describe_topics(list(names), raise_errors=False)
    for name, error in found.errors.items():
        if isinstance(error, UnknownTopicOrPartitionError):
            raise await no_topic(admin, name) from error
    found.raise_errors()
    return found.succeeded


async def no_topic(
    admin: AsyncAdmin, name: str, maker: str | None = None, *, advice: str | None = None
) -> CommandError:
    """What to say of a topic that does not exist.

    `maker` is an option of the command that would make it, `advice` what to do where making it is no help.
    """
    known = await admin.list_topics(include_internal=True)
    if close := close_to(name, known):
        return CommandError(f"there is no topic {name!r}{close}{f' ({maker} makes it)' if maker else ''}")
    told = advice or f"{maker or f'`kclient topics create {name}`'} makes it"
    return CommandError(f"there is no topic {name!r}; {told}, `kclient topics list` shows what there is")


def _from_environment() -> dict[str, Any]:
    names = {f"KCLIENT_{name.upper().replace('.', '_')}": name for name in _names(ClientConfig)}
    names["KCLIENT_SASL_JAAS_CONFIG"] = "sasl.jaas.config"
    found = {names[name]: value for name, value in sorted(os.environ.items()) if name in names and value}
    return translated(found).options


def _from_file(options: argparse.Namespace) -> dict[str, Any]:
    """What stands in a file, which may serve clients of others too: what is not for us is noted."""
    path = getattr(options, "command_config", None) or os.environ.get("KCLIENT_COMMAND_CONFIG")
    if not path:
        return {}
    found = translated(read_properties(Path(path)))
    for name, instead in found.refused.items():
        warn(f"{path}: {name} is left out: {instead}")
    known = _all_names()
    unknown = [name for name in found.options if name not in known]
    if unknown:
        hints = ", ".join(name + close_to(name, _dotted(known)).replace("; did", ", did") for name in unknown)
        warn(f"{path}: kclient has no option for {hints}")
    return {name: value for name, value in found.options.items() if name in known}


def _from_arguments(options: argparse.Namespace) -> dict[str, Any]:
    given = dict(name_and_value(text, "-X") for text in every_property(options))
    for name in given:
        if our_name(name) in ("sasl.jaas.config", *_secret_names()):
            raise UsageError(
                f"-X {name}: everybody on this machine could read it; write it into a file for -c, or into "
                f"the variable KCLIENT_{name.upper().replace('.', '_')}"
            )
    found = translated(given, "-X {}".format)
    for name, instead in found.refused.items():
        raise UsageError(f"-X {name}: {instead}")
    for name in found.without_meaning:
        warn(f"-X {name} has no meaning for kclient and is left out")
    known = _all_names()
    for name in found.options:
        if name not in known:
            raise UsageError(f"-X {name}: there is no such property{close_to(name, _dotted(known))}")
    return found.options


def name_and_value(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{option} {text!r} must be NAME=VALUE")
    return name.strip(), value.strip()


def _names(config: type[ClientConfig]) -> Mapping[str, str]:
    """Every name of every option of a config, as its own name."""
    found = {}
    for field in fields(config):
        kafka = field.metadata["row"].kafka
        for name in (field.name, field.name.replace("_", "."), *([kafka] if kafka else [])):
            found[name] = field.name
    return found


def _dotted(names: Iterable[str]) -> list[str]:
    """Kafka's way to write them."""
    return [name for name in names if "_" not in name]


def _all_names() -> set[str]:
    from kclient.consumer.config import ConsumerConfig
    from kclient.producer.config import ProducerConfig

    return {*_names(ConsumerConfig), *_names(ProducerConfig)}


def _secret_names() -> list[str]:
    secret = {field.name for field in fields(ClientConfig) if "Secret" in str(field.type)}
    return [name for name, ours in _names(ClientConfig).items() if ours in secret]
