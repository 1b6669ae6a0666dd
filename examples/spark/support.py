"""What the pipelines share: a Kafka, a Spark (local, a standalone cluster, Spark Connect), and their end.

Not an example itself. Everything that is started here is ended here, also on Ctrl-C and on SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kclient import Admin
from kclient.admin import NewTopic
from kclient.testing import RunningBroker

ROOT = Path(__file__).parents[2]
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's workers and Python talk over Unix domain sockets: the one setting that our documentation recommends.
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "640m",
    "spark.driver.extraJavaOptions": _SMALL,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _SMALL,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


class Stage(NamedTuple):
    """Where a pipeline runs."""

    spark: Any
    servers: str
    directory: Path


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that every pipeline has."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument(
        "--bootstrap-servers", help="a Kafka of yours; without it, an embedded broker is started"
    )
    parser.add_argument(
        "--output", type=Path, help="where files and checkpoints go; without it, they do not stay"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", action="store_true", help="on a standalone cluster of two workers")
    where.add_argument("--connect", action="store_true", help="through Spark Connect")
    return parser


@contextmanager
def stage(options: argparse.Namespace) -> Iterator[Stage]:
    """Kafka, Spark and a directory, as the options say."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        directory = options.output or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="kclient-"))
        )
        directory.mkdir(parents=True, exist_ok=True)
        servers = options.bootstrap_servers or stack.enter_context(RunningBroker()).bootstrap_servers
        with tempfile.TemporaryDirectory(prefix="kclient-spark-") as scratch:
            yield Stage(stack.enter_context(_spark(options, scratch)), servers, directory)
            stack.close()


def create_topic(servers: str, topic: str, partitions: int, **config: str) -> None:
    """A topic, unless it is there."""
    with Admin(bootstrap_servers=servers) as admin:
        if topic not in admin.list_topics():
            settings = {name.replace("_", "."): value for name, value in config.items()}
            admin.create_topics(NewTopic(topic, partitions, configs=settings))


@contextmanager
def _spark(options: argparse.Namespace, scratch: str) -> Iterator[Any]:
    # Workers run this interpreter, and find kclient where this process does.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = SETTINGS | {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    with ExitStack() as stack:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - reads the environment

        builder: Any = SparkSession.builder
        if options.connect:
            session = builder.remote(stack.enter_context(_connect_server(settings, scratch))).getOrCreate()
        else:
            settings["spark.executorEnv.PYTHONPATH"] = path
            master = stack.enter_context(standalone(scratch)) if options.cluster else "local[*]"
            for name, value in settings.items():
                builder = builder.config(name, value)
            session = builder.master(master).getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def standalone(scratch: str) -> Iterator[str]:
    """A master and two workers of one core each; the address of the master."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        master = "org.apache.spark.deploy.master.Master"
        command = ("spark-class", master, *common, "--port", str(port))
        _wait_for(port, stack.enter_context(_running(scratch, "master", *command)))
        for name in ("worker-1", "worker-2"):
            worker = ("spark-class", "org.apache.spark.deploy.worker.Worker", *common)
            shape = ("--cores", "1", "--memory", "640m", "--work-dir", f"{scratch}/{name}")
            stack.enter_context(_running(scratch, name, *worker, *shape, address))
        yield address


@contextmanager
def _connect_server(settings: dict[str, str], scratch: str) -> Iterator[str]:
    """A server of Spark Connect; its address."""
    port = _free_port()
    given = settings | {"spark.connect.grpc.binding.port": str(port)}
    command = ["spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in given.items():
        command += ["--conf", f"{name}={value}"]
    with _running(scratch, "connect", *command, "--master", "local[*]") as server:
        _wait_for(port, server)
        yield f"sc://127.0.0.1:{port}"


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def _running(scratch: str, name: str, program: str, *arguments: str) -> Iterator[_Running]:
    """One of Spark's programs, until the end of the block. What it says goes to a file."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "640m"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = _SMALL
    path = Path(scratch, f"{name}.log")
    with path.open("wb") as log:
        process = subprocess.Popen(
            [home / "bin" / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            yield _Running(process, path)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: _Running) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.process.poll() is not None or time.monotonic() > until:
            said = server.log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"{server.log.stem} does not listen on port {port}; the last it said:\n{said}")
        time.sleep(0.1)
