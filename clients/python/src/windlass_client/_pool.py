"""Connections to a server, and calls over them.

All of it is written once, as coroutines over non-blocking sockets. `Threads` and `Tasks` are the two ways to wait: with
the first a coroutine never suspends, so that `now` runs it to its end in the calling thread.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import math
import os
import select
import socket
import struct
import threading
import time
import weakref
from collections.abc import Coroutine
from typing import Any, Optional, Protocol, TypeVar, Union

from google.protobuf.message import DecodeError

from windlass_client._errors import ClosedError, MalformedError, ServerError
from windlass_client.policyv1 import Request, Response

A = TypeVar("A")

# The bytes before each message.
LENGTH = struct.Struct(">I")
# What is read at once: memory for a response is taken as it comes, whatever length was announced.
STEP_BYTES = 64 << 10
# In seconds. No wait of the system takes more than 2 ** 31 - 1 milliseconds.
LONGEST_TIMEOUT = 2_000_000
# How a connection ends that the server closed before it took the request.
GONE = (BrokenPipeError, ConnectionResetError)


def now(coroutine: Coroutine[Any, Any, A]) -> A:
    """What a coroutine gives that waits by `Threads`."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: A = end.value
        return value
    raise AssertionError("a coroutine that waits by threads has suspended")


class Waits(Protocol):
    """How calls wait. Each wait raises TimeoutError at its deadline, in seconds of `time.monotonic`."""

    def signal(self) -> Any: ...

    def give(self, signal: Any) -> None:
        """Ends the wait for a signal. Does nothing where that has ended."""

    async def for_signal(self, signal: Any, deadline: float) -> None: ...

    async def for_socket(self, connection: socket.socket, events: int, deadline: float) -> None:
        """Waits for one of select.POLLIN and select.POLLOUT."""


class Threads:
    """Calls that block their thread."""

    def signal(self) -> threading.Event:
        return threading.Event()

    def give(self, signal: threading.Event) -> None:
        signal.set()

    async def for_signal(self, signal: threading.Event, deadline: float) -> None:
        if not signal.wait(left(deadline)):
            raise out_of_time()

    async def for_socket(self, connection: socket.socket, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(connection, events)
        if not poll.poll(math.ceil(left(deadline) * 1000)):
            raise out_of_time()


class Tasks:
    """Calls that suspend their task of asyncio."""

    def signal(self) -> asyncio.Future[bool]:
        return asyncio.get_running_loop().create_future()

    def give(self, signal: asyncio.Future[bool], is_in_time: bool = True) -> None:
        if not signal.done():
            signal.set_result(is_in_time)

    async def for_signal(self, signal: asyncio.Future[bool], deadline: float) -> None:
        timer = asyncio.get_running_loop().call_later(left(deadline), self.give, signal, False)
        try:
            if not await signal:
                raise out_of_time()
        finally:
            timer.cancel()

    async def for_socket(self, connection: socket.socket, events: int, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        add, remove = (loop.add_reader, loop.remove_reader) if events == select.POLLIN else (
            loop.add_writer, loop.remove_writer)
        signal = self.signal()
        add(connection.fileno(), self.give, signal)
        try:
            await self.for_signal(signal, deadline)
        finally:
            remove(connection.fileno())


def left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise out_of_time()
    return seconds


def out_of_time() -> TimeoutError:
    return TimeoutError("the call timed out")


def checked_timeout(timeout: float) -> float:
    # Nothing is less or more than NaN.
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise ValueError(f"timeout must be greater than 0 and at most {LONGEST_TIMEOUT} seconds, not {timeout}")
    return timeout


class Turn:
    """A call that waits for a connection to be free, and then whatever became of it: None is one that is not made."""

    def __init__(self, signal: Any) -> None:
        self.signal = signal
        self.is_given = False
        self.connection: Optional[socket.socket] = None


class Pool:
    """The connections to one server. Each is used by one call at a time."""

    def __init__(self, path: Union[str, os.PathLike[str]], timeout: float, connections: int, largest: int,
                 waits: Waits) -> None:
        if connections < 1:
            raise ValueError(f"connections must be at least 1, not {connections}")
        if not 0 < largest < 1 << 32:
            raise ValueError(f"max_response_bytes must be from 1 to {(1 << 32) - 1}, not {largest}")
        self._path = os.fspath(path)
        self._timeout = checked_timeout(timeout)
        self._connections = connections
        self._largest = largest
        self._waits = waits
        self._ids = itertools.count(1)
        self._closed = False
        self._begin()
        POOLS.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # One entry for each connection that no call uses: None where it is not made. The last is taken first.
        self._idle: list[Optional[socket.socket]] = [None] * self._connections
        self._turns: collections.deque[Turn] = collections.deque()
        # All that are made, those that calls use among them.
        self._open: set[socket.socket] = set()

    def forked(self) -> None:
        """In a child process: the connections, and the calls under way, are the parent's."""
        for connection in self._open:
            connection.close()
        self._begin()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            turns, self._turns = self._turns, collections.deque()
        for connection in idle:
            self._end(connection)
        for turn in turns:
            self._waits.give(turn.signal)

    def _connect(self) -> socket.socket:
        """A new connection. One to a Unix socket is there at once, or not at all."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._open.add(connection)
        try:
            connection.setblocking(False)
            connection.connect(self._path)
        except BaseException:
            self._end(connection)
            raise
        return connection

    def _end(self, connection: Optional[socket.socket]) -> None:
        if connection is not None:
            self._open.discard(connection)
            connection.close()

    async def call(self, request: Request, timeout: Optional[float]) -> Response:
        """Sends a request and reads its response. A connection that the server has closed meanwhile is made anew once:
        decisions change nothing, so that asking twice does no harm. Raises ValueError for a timeout out of range."""
        request.id = next(self._ids)
        message = request.SerializeToString()
        frame = LENGTH.pack(len(message)) + message
        deadline = time.monotonic() + (
            self._timeout if timeout is None else min(checked_timeout(timeout), self._timeout))
        connection = await self._take(deadline)
        try:
            if connection is not None and not is_quiet(connection):
                self._end(connection)
                connection = None
            is_reused = connection is not None
            while True:
                if self._closed:
                    raise ClosedError
                if connection is None:
                    connection = self._connect()
                try:
                    response = await self._exchange(connection, request.id, frame, deadline)
                    break
                except GONE:
                    if not is_reused:
                        raise
                self._end(connection)
                connection, is_reused = None, False
        # A task that is cancelled leaves a response behind, too.
        except BaseException:
            self._end(connection)
            self._put(None)
            raise
        self._put(connection)
        if response.HasField("error"):
            raise ServerError(response.error.code, response.error.message)
        return response

    async def _take(self, deadline: float) -> Optional[socket.socket]:
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._idle:
                return self._idle.pop()
            turn = Turn(self._waits.signal())
            self._turns.append(turn)
        try:
            await self._waits.for_signal(turn.signal, deadline)
        except BaseException:
            with self._lock:
                if turn in self._turns:
                    self._turns.remove(turn)
            # It came at the last moment: to the next.
            if turn.is_given:
                self._put(turn.connection)
            raise
        if not turn.is_given:
            raise ClosedError
        return turn.connection

    def _put(self, connection: Optional[socket.socket]) -> None:
        with self._lock:
            if self._closed:
                self._end(connection)
            elif self._turns:
                turn = self._turns.popleft()
                turn.connection, turn.is_given = connection, True
                self._waits.give(turn.signal)
            elif connection is None:
                self._idle.insert(0, None)
            else:
                self._idle.append(connection)

    async def _exchange(self, connection: socket.socket, number: int, frame: bytes, deadline: float) -> Response:
        # A server that refuses answers without having read: what it says counts more than that it reads no further.
        unsent = None
        try:
            await self._send(connection, frame, deadline)
        except GONE as error:
            unsent = error
        try:
            message = await self._receive(connection, deadline)
        except GONE as error:
            raise (unsent or error) from None
        response = Response()
        try:
            response.ParseFromString(message)
        except DecodeError as error:
            raise MalformedError(str(error)) from error
        # What is wrong with a request that can't be read, or with its sender, is told under no number.
        if response.id != number and not (response.id == 0 and response.HasField("error")):
            raise MalformedError("a response to another request")
        return response

    async def _send(self, connection: socket.socket, frame: bytes, deadline: float) -> None:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[connection.send(rest):]
            except BlockingIOError:
                await self._waits.for_socket(connection, select.POLLOUT, deadline)

    async def _receive(self, connection: socket.socket, deadline: float) -> bytes:
        received = bytearray()
        expected = LENGTH.size
        while len(received) < expected:
            try:
                step = connection.recv(STEP_BYTES)
            except BlockingIOError:
                await self._waits.for_socket(connection, select.POLLIN, deadline)
                continue
            if not step:
                if received:
                    raise ConnectionAbortedError("the server closed the connection within a response")
                raise ConnectionResetError("the server closed the connection")
            received += step
            if expected == LENGTH.size and len(received) >= expected:
                (length,) = LENGTH.unpack_from(received)
                if length > self._largest:
                    raise MalformedError(
                        f"its length, {length} bytes, exceeds max_response_bytes ({self._largest})")
                expected += length
        if len(received) > expected:
            raise MalformedError("unexpected bytes after the response")
        return bytes(memoryview(received)[LENGTH.size:])


def is_quiet(connection: socket.socket) -> bool:
    """Whether nothing came that nobody asked for: neither the connection's end, nor what the next call would take for
    its response."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


# Connections that two processes share would answer one by what the other asked.
POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def forked() -> None:
    for pool in list(POOLS):
        pool.forked()


os.register_at_fork(after_in_child=forked)
