"""A line between two TCP ports on which a test listens: what passes over it, in both directions."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

from liftlog.real.nats_server import free_port

HOST = "127.0.0.1"


class Tap:
    """Passes connections to `address` on to `target`, in a thread, and keeps what it saw. A context."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self.address = f"{HOST}:{free_port()}"
        self.seen = bytearray()
        self.connections = 0
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Tap:
        host, _, port = self.address.rpartition(":")
        self._listener = socket.create_server((host, int(port)))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join(15)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.05):
                one, other = key.fileobj, key.data
                assert isinstance(one, socket.socket)
                if other is None:
                    self._accept()
                elif one.fileno() >= 0:
                    self._pass_on(one, other)

    def _accept(self) -> None:
        caller, _ = self._listener.accept()
        try:
            called = socket.create_connection(self._target)
        except OSError:
            caller.close()
            return
        self.connections += 1
        self._selector.register(caller, selectors.EVENT_READ, called)
        self._selector.register(called, selectors.EVENT_READ, caller)

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            data = one.recv(1 << 18)
            if data:
                self.seen += data
                other.sendall(data)
                return
        except OSError:
            pass
        for each in (one, other):
            with contextlib.suppress(KeyError):
                self._selector.unregister(each)
            each.close()
