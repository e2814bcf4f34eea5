"""Floors as systems to measure: a nats-server and a responder that only answers, or syncs and answers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from liftlog.bench.responder import READY, Duty
from liftlog.real import interrupts
from liftlog.real.nats_server import NatsServer
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

NAMES = {"answer": "responder", "sync": "responder-sync", "echo": "request-reply"}
"""What a responder does (liftlog.bench.responder) -> what it is called in tables."""
STOP_TIMEOUT_S = 5.0


class Floor:
    """A responder of one kind behind a nats-server of its own, as liftlog's nodes are."""

    def __init__(self, scratch: Scratch, kind: str, subject: str, stream: str) -> None:
        self.name = NAMES[kind]
        self.folder = scratch.folder / self.name
        self._scratch = scratch
        self._nats = NatsServer(self.folder / "nats")
        self._kind = kind
        self._subject = subject
        self._stream = stream
        self._process: subprocess.Popen[str] | None = None

    @property
    def echo(self) -> bool:
        return self._kind == "echo"

    @property
    def port(self) -> int:
        return self._nats.port

    @property
    def pids(self) -> list[int]:
        return [self._nats.pid] + ([self._process.pid] if self._process is not None else [])

    def start(self) -> None:
        """Start both. Raises LiftlogError with the responder's last words if it ends instead."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._scratch.callback(self._stop)
        self._nats.start()
        file = str(self.folder / "group") if self._kind == "sync" else ""
        duty = Duty(self.port, self._subject, self._kind, self._stream, file)
        command = [sys.executable, "-m", "liftlog.bench.responder", json.dumps(asdict(duty))]
        with interrupts.held():
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        assert self._process.stdout is not None and self._process.stderr is not None
        if self._process.stdout.readline().strip() != READY:
            raise LiftlogError(f"{self.name} did not start: {self._process.stderr.read().strip()}")

    def stored(self) -> int | None:
        """It keeps nothing that could be counted."""
        return None

    def _stop(self) -> None:
        # It ends when its server does.
        self._nats.stop()
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
