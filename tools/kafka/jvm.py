"""Java: finding it, the flags it is started with, and running one command to its end."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.kafka.errors import CommandError, MissingSoftwareError, tail
from tools.kafka.workspace import Workspace

# Brokers of tests live for seconds: compile quickly, collect simply, stay small.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SERVER_FLAGS = (
    *QUICK_START,
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
COMMAND_FLAGS = (*QUICK_START, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

# What Java says about an archive of classes would go to standard output, amid that of the program.
ARCHIVE_MANNERS = ("-Xlog:disable", "-Xlog:all=error:stderr")

_counter = itertools.count(1)


@dataclass(frozen=True)
class Java:
    """A Java that was found: its program, its major version, and its whole version, as in `17.0.15`."""

    program: str
    major: int
    build: str


def installed_java() -> Java | None:
    """Java of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    return _probe(program or shutil.which("java"))


def require_java(minimum: int, purpose: str) -> Java:
    """The installed Java, or an error that says which one is needed for what."""
    java = installed_java()
    needed = f"Java {minimum} or newer is needed to {purpose}"
    if java is None:
        raise MissingSoftwareError(f"{needed}: `java` was not found on PATH (nor in JAVA_HOME)")
    if java.major < minimum:
        raise MissingSoftwareError(f"{needed}: {java.program} is Java {java.major}")
    return java


@functools.cache
def _probe(program: str | None) -> Java | None:
    if program is None:
        return None
    shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "((?:1\.)?(\d+)[^"/]*)"', shown.stderr + shown.stdout)
    return None if shown.returncode != 0 or match is None else Java(program, int(match[2]), match[1])


def archive_of(java: Java, jars: Path) -> Path:
    """Where this Java finds the classes of a directory of jars, if recorded; see `tools.kafka.archive`."""
    return jars.with_name(f"{jars.name}-java-{java.build}.jsa")


def class_path_flags(java: Java, class_path: str) -> list[str]:
    """What names the jars of a directory, and the archive of their classes where there is one."""
    archive = archive_of(java, Path(class_path).parent)
    sharing = [f"-XX:SharedArchiveFile={archive}", *ARCHIVE_MANNERS] if archive.is_file() else []
    return [*sharing, "-cp", class_path]


@dataclass(frozen=True)
class Output:
    """What a command printed."""

    stdout: str
    stderr: str


class CommandRunner:
    """Runs Java commands with one class path; their output goes to files of the workspace and back to the
    caller.
    """

    def __init__(self, java: Java, class_path: str, workspace: Workspace) -> None:
        self._java = java
        self._class_path = class_path
        self._workspace = workspace
        self._directory = workspace.directory / "commands"
        self._directory.mkdir(exist_ok=True)

    def run(
        self,
        main: str,
        args: Sequence[str] = (),
        *,
        stdin: str | bytes = b"",
        timeout: float = 60,
    ) -> Output:
        """Run a main class (or a `.java` file) to its end; CommandError when it fails or takes too long."""
        stem = self._directory / f"{next(_counter):03}-{Path(main).stem if main.endswith('.java') else main}"
        out, err = stem.with_name(stem.name + ".out"), stem.with_name(stem.name + ".err")
        command = [self._java.program, *COMMAND_FLAGS, *class_path_flags(self._java, self._class_path)]
        command += [main, *args]
        content = stdin.encode() if isinstance(stdin, str) else stdin
        with out.open("wb") as out_sink, err.open("wb") as err_sink:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out_sink, stderr=err_sink, start_new_session=True
            )
            self._workspace.add(process.pid)
            try:
                process.communicate(content, timeout)
            except subprocess.TimeoutExpired:
                raise CommandError(
                    _describe(f"{main} did not end within {timeout:g} s", args, out, err)
                ) from None
            finally:
                _end(process)
                self._workspace.discard(process.pid)
        if process.returncode != 0:
            raise CommandError(_describe(f"{main} ended with exit code {process.returncode}", args, out, err))
        return Output(out.read_text(errors="replace"), err.read_text(errors="replace"))

    def run_source(
        self, code: str, args: Sequence[str] = (), *, stdin: str | bytes = b"", timeout: float = 60
    ) -> Output:
        """Compile and run one Java source; its first class needs a `main`."""
        source = self._directory / f"Source{next(_counter)}.java"
        source.write_text(code)
        return self.run(str(source), args, stdin=stdin, timeout=timeout)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None and not process.stdin.closed:
        with suppress(BrokenPipeError):
            process.stdin.close()


def _describe(what: str, args: Sequence[str], out: Path, err: Path) -> str:
    return f"{what}\n  arguments: {' '.join(args)}\n  stdout:\n{tail(out)}\n  stderr:\n{tail(err)}"
