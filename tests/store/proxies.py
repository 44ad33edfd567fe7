"""A proxy before PostgreSQL that stops forwarding at a byte, as a network that was cut does, with connections open."""

import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Forwards connections to the server's socket, and keeps what clients sent.

    ``hold(count)`` lets so many more bytes of clients pass, and holds all that follow, in both directions, until
    ``release()``.
    """

    def __init__(self, server):
        self.directory = Path(tempfile.mkdtemp(prefix="tb-px-"))
        self._server = str(server.directory / SOCKET)
        self._state = threading.Condition()
        self._left = None  # bytes that may pass; None for all
        self._ended = False
        self.sent = bytearray()
        self._sockets = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.directory / SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url):
        """Return the address of a database by way of the proxy."""
        return url.replace(str(Path(self._server).parent), str(self.directory))

    def hold(self, count):
        """Let so many bytes pass, and no more."""
        with self._state:
            self._left = count

    def release(self):
        """Let everything pass."""
        with self._state:
            self._left = None
            self._state.notify_all()

    def held(self, seconds):
        """Wait until bytes are held, for so many seconds at most."""
        with self._state:
            return self._state.wait_for(lambda: self._left == 0, seconds)

    def close(self):
        """End all connections."""
        with self._state:
            self._ended = True
            self._state.notify_all()
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._sockets += [client, server]
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source, target, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while data:
                    count = self._may_pass(len(data), counted)
                    if self._ended:
                        return
                    if counted:
                        self.sent += data[:count]  # before the server has it, whose answer may be there at once
                    target.sendall(data[:count])
                    data = data[count:]
            target.shutdown(socket.SHUT_WR)

    def _may_pass(self, count, counted):
        """Wait until some bytes may pass, and return how many."""
        with self._state:
            self._state.wait_for(lambda: self._left != 0 or self._ended)
            if self._left is None or not counted:
                return count
            count = min(count, self._left)
            self._left -= count
            self._state.notify_all()
            return count
