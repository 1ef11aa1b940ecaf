"""HTTP as the test speaks it: a connection for each request, and streams read as they come."""

import asyncio
import json

WITHIN_S = 60


class Response:
    """A response being read."""

    def __init__(self, status, headers, reader, writer):
        self.status, self.headers, self.reader, self.writer = status, headers, reader, writer

    async def chunks(self):
        if "content-length" in self.headers:
            yield await self.reader.readexactly(int(self.headers["content-length"]))
            return
        while size := int(await self.reader.readline() or b"0", 16):
            yield (await self.reader.readexactly(size + 2))[:-2]


async def send(port, key, method, path, body=None, headers=()):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
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
    """The status and text of the response; status 0 if there is none."""
    try:
        response = await asyncio.wait_for(send(port, key, method, path, body, headers), WITHIN_S)
        try:
            chunks = [chunk async for chunk in response.chunks()]
        finally:
            response.writer.close()
        return response.status, b"".join(chunks).decode()
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        return 0, ""
