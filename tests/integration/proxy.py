"""What stands between two ends of a connection, for tests in which one cannot reach the other."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """A TCP proxy in threads that can hang up on everybody and refuse new connections."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._open = False
            for connection in self._sockets:
                # One that its own pump has closed already is as cut as it can be.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._sockets.clear()

    def mend(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def passed(self, data: bytes) -> None:
        """Told what goes from one end to the other, in the thread that passes it on."""

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._open:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._target_port))
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with source:
            try:
                while data := source.recv(65536):
                    self.passed(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_RDWR)
            except OSError:
                return
