"""Kafka's jars: fetched once by Maven into a cache, then only read.

A directory under its final name is always complete: Maven writes to a temporary sibling which is checked
and then renamed. `KCLIENT_KAFKA_CACHE` moves the cache.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.kafka.errors import FetchError, MissingSoftwareError, tail
from tools.kafka.versions import KafkaVersion

Announce = Callable[[str], None]

FETCH_TIMEOUT = 600

_SLF4J_SIMPLE = "1.7.36"  # without a logging backend a broker logs nothing at all
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kclient.test</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
      <exclusions>
{exclusions}
      </exclusions>
    </dependency>"""
_EXCLUSION = "        <exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
# Old brokers bring log4j bindings of slf4j; with two bindings on the class path the one that wins is a
# matter of chance.
_OTHER_BACKENDS = (("org.slf4j", "slf4j-log4j12"), ("org.slf4j", "slf4j-reload4j"))


def say_on_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class JarSet:
    """Jars that are fetched and cached together: a broker with its tools, or the Java client alone."""

    title: str
    directory_name: str
    artifacts: tuple[str, ...]
    version: str

    @classmethod
    def broker(cls, version: str) -> JarSet:
        KafkaVersion.parse(version)
        return cls(f"Kafka {version}", version, ("kafka_2.13", "kafka-tools"), version)

    @classmethod
    def clients(cls, version: str) -> JarSet:
        KafkaVersion.parse(version)
        return cls(f"kafka-clients {version}", f"clients-{version}", ("kafka-clients",), version)

    @property
    def directory(self) -> Path:
        return cache_directory() / self.directory_name

    @property
    def class_path(self) -> str:
        return f"{self.directory}/*"

    def is_cached(self) -> bool:
        return self.directory.is_dir()

    def fetch(self, announce: Announce = say_on_stderr) -> Path:
        """The directory of the jars, after fetching them if this is the first time."""
        if not self.is_cached():
            with _cache_lock():
                if not self.is_cached():  # another process may have fetched it while we waited for the lock
                    announce(f"fetching {self.title} …")
                    self._fetch()
                    announce(f"fetched {self.title} into {self.directory}")
        return self.directory

    def jar(self, name: str) -> Path:
        """The path of one jar of the set, such as `kafka-clients`; fetches the set if needed."""
        path = self.fetch() / f"{name}-{self.version}.jar"
        if not path.is_file():
            have = ", ".join(sorted(p.name for p in self.directory.glob(f"*{self.version}.jar")))
            raise FileNotFoundError(f"{self.title} has no jar {path.name}; it has {have}")
        return path

    def pom(self) -> str:
        wanted = [("org.apache.kafka", artifact, self.version) for artifact in self.artifacts]
        wanted.append(("org.slf4j", "slf4j-simple", _SLF4J_SIMPLE))
        return pom_of(wanted, without=_OTHER_BACKENDS)

    def required(self) -> list[str]:
        """The jars without which the set would not be complete."""
        return [f"{artifact}-{self.version}.jar" for artifact in self.artifacts]

    def _fetch(self) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise MissingSoftwareError(
                f"Maven is needed to fetch {self.title}: `mvn` was not found on PATH. Install it, or copy a "
                f"filled cache to {cache_directory()} (KCLIENT_KAFKA_CACHE)."
            )
        workplace = Path(tempfile.mkdtemp(prefix=f".fetching-{self.directory_name}-", dir=cache_directory()))
        try:
            jars = workplace / "jars"
            (workplace / "pom.xml").write_text(self.pom())
            _run_maven(maven, workplace, jars, self.title)
            _check(jars, self.required(), self.title)
            jars.rename(self.directory)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)


def cache_directory() -> Path:
    """Where jars and the records of running brokers are kept; made when missing."""
    named = os.environ.get("KCLIENT_KAFKA_CACHE")
    directory = Path(named) if named else Path.home() / ".cache" / "kclient" / "kafka"
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def jar(name: str, version: str) -> Path:
    """One jar by name and version, for example `jar("kafka-clients", "4.4.0")`."""
    broker = JarSet.broker(version)
    if name == "kafka-clients" and not broker.is_cached():
        return JarSet.clients(version).jar(name)
    return broker.jar(name)


def pom_of(wanted: Sequence[tuple[str, str, str]], without: Sequence[tuple[str, str]]) -> str:
    """A project that depends on (group, artifact, version)s, but on none that these bring of `without`."""
    exclusions = "\n".join(_EXCLUSION.format(group=group, artifact=name) for group, name in without)
    return _POM.format(
        dependencies="\n".join(
            _DEPENDENCY.format(group=group, artifact=artifact, version=version, exclusions=exclusions)
            for group, artifact, version in wanted
        )
    )


@contextmanager
def _cache_lock() -> Iterator[None]:
    """One fetch at a time per machine: Maven's local repository is not made for two writers."""
    with (cache_directory() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_maven(maven: str, workplace: Path, output: Path, title: str) -> None:
    log = workplace / "maven.log"
    command = [maven, "-q", "-B", "--strict-checksums", "-f", str(workplace / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={output}", "-DincludeScope=runtime"]
    with log.open("wb") as sink:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                timeout=FETCH_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FetchError(
                f"fetching {title} took over {FETCH_TIMEOUT} s; Maven said:\n{tail(log)}"
            ) from error
    if done.returncode != 0:
        raise FetchError(
            f"fetching {title} failed (mvn exit code {done.returncode}); Maven said:\n{tail(log)}"
        )


def _check(directory: Path, required: list[str], title: str) -> None:
    missing = [name for name in required if not (directory / name).is_file()]
    broken = [path.name for path in directory.glob("*.jar") if not zipfile.is_zipfile(path)]
    if missing or broken:
        raise FetchError(
            f"fetching {title} brought an incomplete set (missing: {missing}, broken: {broken}); "
            "nothing of it was kept, try again"
        )
