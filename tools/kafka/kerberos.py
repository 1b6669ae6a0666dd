"""A Kerberos realm for the KRB listener: a KDC as a plain process on the loopback address.

Its database, keytabs and tickets live in the cluster's temporary directory; the machine's own Kerberos
configuration is not touched. Clients are told of the realm by environment variables, which the Kerberos
library reads once per process: tests connect from a process of their own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from tools.kafka.errors import KafkaToolError, MissingSoftwareError
from tools.kafka.ports import HOST, free_ports
from tools.kafka.processes import ServerProcess
from tools.kafka.waiting import poll
from tools.kafka.workspace import Workspace

REALM = "TEST.LOCAL"
SERVICE = "kafka"
SERVICE_HOST = "localhost"  # what clients must call the broker: its principal is kafka/localhost
USER = "alice"
STRANGER = "mallory"  # has a keytab, but the KDC has forgotten the principal

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_ADMIN_DIRECTORIES = ("/usr/sbin", "/usr/local/sbin", "/sbin")  # not in the PATH of everybody
_MASTER_PASSWORD = "master-secret"
_START_ATTEMPTS = 3


def why_unavailable() -> str | None:
    """What is missing for tests with Kerberos, and how to get it; None if they can run."""
    missing = [program for program in _PROGRAMS if _find(program) is None]
    if missing:
        return (
            f"Kerberos needs {', '.join(missing)}: install a KDC "
            "(Debian: apt-get install krb5-kdc krb5-admin-server krb5-user)"
        )
    if importlib.util.find_spec("gssapi") is None:
        return (
            "Kerberos needs the Python package gssapi: pip install gssapi (Debian: first apt-get install "
            "libkrb5-dev)"
        )
    return None


class Kdc:
    """A running KDC with the principals `kafka/localhost` and `alice`, and a keytab for each."""

    def __init__(self, directory: Path, workspace: Workspace) -> None:
        programs = {name: _find(name) for name in _PROGRAMS}
        missing = [name for name, path in programs.items() if path is None]
        if missing:
            raise MissingSoftwareError(f"a Kerberos listener cannot be had: {why_unavailable()}")
        self._programs = {name: path for name, path in programs.items() if path is not None}
        self._directory = directory
        self._workspace = workspace
        self.config = directory / "krb5.conf"
        self.service_keytab = directory / "kafka.keytab"
        self.user_keytab = directory / "alice.keytab"
        self.stranger_keytab = directory / "mallory.keytab"
        self.user_tickets = directory / "alice.tickets"
        directory.mkdir(parents=True)
        self._configure(free_ports(1)[0])
        self._make_realm()
        self._process = self._start()

    def __repr__(self) -> str:
        return f"<Kdc of {REALM}: {self._process!r}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.kill()

    def client_environment(
        self, *, keytab: Path | None = None, tickets: Path | None = None, config: Path | None = None
    ) -> dict[str, str]:
        """The environment of a client that has a keytab, or tickets, or nothing at all."""
        nothing = self._directory / "nothing"
        return {
            **os.environ,
            "KRB5_CONFIG": str(config or self.config),
            "KRB5CCNAME": f"FILE:{tickets}" if tickets is not None else "MEMORY:",
            "KRB5_CLIENT_KTNAME": f"FILE:{keytab or nothing}",
            "KRB5_KTNAME": f"FILE:{nothing}",
        }

    def unreachable(self) -> Path:
        """A configuration that looks for the KDC where none listens."""
        path = self._directory / "unreachable.conf"
        path.write_text(_client_config(free_ports(1)[0]))
        return path

    def _configure(self, port: int) -> None:
        self.config.write_text(_client_config(port))
        (self._directory / "kdc.conf").write_text(_server_config(port, self._directory))

    def _make_realm(self) -> None:
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", _MASTER_PASSWORD)
        for principal, keytab in (
            (f"{SERVICE}/{SERVICE_HOST}", self.service_keytab),
            (USER, self.user_keytab),
            (STRANGER, self.stranger_keytab),
        ):
            self._run("kadmin.local", "addprinc", "-randkey", principal)
            self._run("kadmin.local", "ktadd", "-k", str(keytab), principal)
        self._run("kadmin.local", "delprinc", "-force", STRANGER)

    def _start(self) -> ServerProcess:
        """A port may be taken by others before the KDC has it: then it ends, and another one is tried."""
        attempts = 0
        while True:
            attempts += 1
            log = self._directory / f"kdc-{attempts}.log"
            command = [self._programs["krb5kdc"], "-n"]
            process = ServerProcess("KDC", command, log, self._workspace, self._environment())
            if self._serves(process):
                return process
            if attempts == _START_ATTEMPTS:
                raise KafkaToolError(f"no KDC could be started: {process.log_tail()}")
            self._configure(free_ports(1)[0])

    def _serves(self, process: ServerProcess) -> bool:
        """Whether it gives tickets, or has ended instead."""
        try:
            poll(
                lambda: self._gives_tickets() or not process.is_running(),
                timeout=30,
                failure=lambda: f"{process!r} gives no tickets; {process.log_tail()}",
            )
        except BaseException:
            process.kill()
            raise
        if not process.is_running():
            process.kill()  # tells the workspace that it is gone
        return process.is_running()

    def _gives_tickets(self) -> bool:
        """Whether the KDC answers, and is ours: no other has alice's key."""
        options = ["-k", "-t", str(self.user_keytab), "-c", str(self.user_tickets)]
        command = [self._programs["kinit"], *options, USER]
        ran = subprocess.run(command, env=self._environment(), capture_output=True, check=False)
        return ran.returncode == 0

    def _run(self, program: str, *args: str) -> None:
        command = [self._programs[program], *args]
        ran = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        # kadmin.local ends with 0 whatever happens, and complains on stderr with its own name in front.
        if ran.returncode != 0 or f"{args[0]}:" in ran.stderr:
            raise KafkaToolError(f"{program} {args[0]} failed: {ran.stderr.strip() or ran.stdout.strip()}")

    def _environment(self) -> dict[str, str]:
        settings = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self._directory / "kdc.conf")}
        return {**os.environ, **settings}


def _client_config(port: int) -> str:
    """Names are taken as they are, without asking a name server, and the KDC is asked over TCP."""
    return f"""\
[libdefaults]
    default_realm = {REALM}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = {HOST}:{port}
    }}
"""


def _server_config(port: int, directory: Path) -> str:
    return f"""\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {HOST}:{port}
[realms]
    {REALM} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/kadm5.acl
        max_life = 1h
    }}
[logging]
    kdc = STDERR
    admin_server = STDERR
    default = STDERR
"""


def _find(program: str) -> str | None:
    places = [os.environ.get("PATH", os.defpath), *_ADMIN_DIRECTORIES]
    return shutil.which(program, path=os.pathsep.join(places))
