"""A decision beside a plain echo of the same bytes by another process, in turns: bench.py COUNT

WINDLASS_COMMAND_LINE names the program `windlass`.
"""

import asyncio
import os
import pathlib
import socket
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE / "src"), str(HERE / "tests")]

from support import Server, failed, give_up, received  # noqa: E402
from windlass_client import AsyncClient, Client, policyv1  # noqa: E402

PAYLOAD = bytes(200)


def echo_of(path):
    """A connection to another process that sends back what it gets."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if os.fork() == 0:
        connection, _ = listener.accept()
        while data := connection.recv(1 << 16):
            connection.sendall(data)
        os._exit(0)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


async def measure(socket_path, folder, count):
    echo = echo_of(f"{folder}/echo")
    built_in = failed(policyv1.FAILURE_CLASS_CONFLICT)
    took = {name: [] for name in ("an echo", "rules", "built-in", "rules, with asyncio")}

    def noted(name, began, error=None):
        took[name].append(time.perf_counter() - began)
        assert error is None, error

    with Client(socket_path, timeout=60) as client:
        async with AsyncClient(socket_path, timeout=60) as tasks:
            for _ in range(count):
                began = time.perf_counter()
                echo.sendall(PAYLOAD)
                received(echo, len(PAYLOAD))
                noted("an echo", began)
                for name, question in (("rules", failed()), ("built-in", built_in)):
                    began = time.perf_counter()
                    noted(name, began, client.retry(question, give_up).error)
                question = failed()
                began = time.perf_counter()
                noted("rules, with asyncio", began, (await tasks.retry(question, give_up)).error)
    for name, seconds in took.items():
        seconds.sort()
        p50, p99 = (seconds[int(share * (count - 1))] * 1e6 for share in (0.5, 0.99))
        print(f"{name}: p50 {p50:.0f} µs, p99 {p99:.0f} µs")


if __name__ == "__main__":
    server = Server("1234")
    try:
        server.start()
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(server.socket, folder, int(sys.argv[1])))
    finally:
        server.end()
