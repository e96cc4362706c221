"""A WebSocket client on the protocol library wsproto, which performs no I/O itself.
Arguments: the URL and a token.

It sends each line of its input as a frame, and writes one line of JSON for each frame that it gets,
and for the end of the connection.
"""

import json
import socket
import sys
import threading
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.extensions import PerMessageDeflate


def say(line):
    print(json.dumps(line), flush=True)


class Client:
    def __init__(self, url, token):
        parts = urlsplit(url)
        self.link = socket.create_connection((parts.hostname, parts.port))
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self.lock = threading.Lock()
        self.parts = []
        self.send(
            Request(
                host=parts.netloc,
                target=parts.path,
                extensions=[PerMessageDeflate()],
                subprotocols=["linchpin.v1"],
                extra_headers=[(b"authorization", f"Bearer {token}".encode())],
            )
        )

    def send(self, event):
        with self.lock:
            self.link.sendall(self.protocol.send(event))

    def send_lines(self):
        for line in sys.stdin:
            self.send(TextMessage(line.rstrip("\n")))

    def take(self, event):
        """Returns whether the connection stays open."""
        match event:
            case RejectConnection():
                say({"status": event.status_code})
                return False
            case AcceptConnection():
                extensions = ",".join(one.name for one in event.extensions)
                say({"protocol": event.subprotocol, "extensions": extensions})
                threading.Thread(target=self.send_lines, daemon=True).start()
            case TextMessage():
                self.parts.append(event.data)
                if event.message_finished:
                    say({"frame": json.loads("".join(self.parts))})
                    self.parts = []
            case Ping():
                self.send(event.response())
            case CloseConnection():
                self.send(event.response())
                say({"closed": event.code, "reason": event.reason})
                return False
        return True

    def run(self):
        while data := self.link.recv(4096):
            with self.lock:
                self.protocol.receive_data(data)
                events = list(self.protocol.events())
            if not all([self.take(event) for event in events]):
                return


Client(*sys.argv[1:]).run()
