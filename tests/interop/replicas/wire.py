"""An HTTP client: one connection per request, streams are read as they arrive."""

import asyncio
import json
import socket

WITHIN_S = 60
# Buffer and segment size of a narrow connection. They are so small that a paused reader blocks the
# sender.
NARROW_BYTES = 4096
NARROW_PACKET_BYTES = 536


class Response:
    """A response that is being read."""

    def __init__(self, status, headers, reader, writer):
        self.status, self.headers, self.reader, self.writer = status, headers, reader, writer

    async def chunks(self):
        if "content-length" in self.headers:
            yield await self.reader.readexactly(int(self.headers["content-length"]))
            return
        # A body whose last chunk is missing is an error.
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]


async def connect_narrow(port):
    """Opens a connection with small buffers, so that a paused reader soon blocks the sender."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
    narrow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, NARROW_PACKET_BYTES)
    narrow.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", port))
    except OSError:
        narrow.close()
        raise
    return await asyncio.open_connection(sock=narrow, limit=NARROW_BYTES)


async def connect_wide(port):
    return await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)


async def send(port, key, method, path, body=None, headers=(), is_narrow=False):
    connect = connect_narrow if is_narrow else connect_wide
    reader, writer = await connect(port)
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"X-API-Key: {key}", *headers]
    data = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    status_line = (await reader.readline()).split()
    if len(status_line) < 2:
        writer.close()
        raise ConnectionError("no response")
    found = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        found[name.lower()] = value.strip()
    return Response(int(status_line[1]), found, reader, writer)


async def call(port, key, method, path, body=None, headers=()):
    """Returns status and text of the response. The status is 0 if there is none."""
    try:
        response = await asyncio.wait_for(send(port, key, method, path, body, headers), WITHIN_S)
        try:
            chunks = [chunk async for chunk in response.chunks()]
        finally:
            response.writer.close()
        return response.status, b"".join(chunks).decode()
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        return 0, ""
