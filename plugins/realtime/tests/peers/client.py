"""A WebSocket client. Arguments: the URL and a token.

It sends each line of its input as a frame, and writes one line of JSON for each frame that it gets,
and for the end of the connection.
"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus


def say(line):
    print(json.dumps(line), flush=True)


async def send_lines(socket):
    lines = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await lines.readline():
        await socket.send(line.decode().rstrip("\n"))


async def main(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    try:
        socket = await connect(url, additional_headers=headers, subprotocols=["linchpin.v1"])
    except InvalidStatus as refused:
        say({"status": refused.response.status_code})
        return
    extensions = ",".join(one.name for one in socket.protocol.extensions)
    say({"protocol": socket.subprotocol, "extensions": extensions})
    sender = asyncio.create_task(send_lines(socket))
    try:
        while True:
            say({"frame": json.loads(await socket.recv())})
    except ConnectionClosed as closed:
        say({"closed": closed.rcvd.code, "reason": closed.rcvd.reason})
    sender.cancel()


asyncio.run(main(*sys.argv[1:]))
