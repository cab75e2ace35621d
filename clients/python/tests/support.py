"""A real `windlass policy serve`, servers that lie, and clients of both kinds behind one face."""

import asyncio
import contextlib
import functools
import inspect
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

import windlass_client
from windlass_client import policyv1

# A busy machine may take its time, where the time is not what a test is about.
PATIENT = 60.0


def command_line():
    """The program `windlass`, which `just test-clients-python` builds."""
    program = os.environ.get("WINDLASS_COMMAND_LINE")
    if not program:
        pytest.skip("WINDLASS_COMMAND_LINE names no program: just test-clients-python")
    return program


def rules(wait, when="failure.class == 'gateway'"):
    return (f'slot = "retry"\n[[rules]]\nname = "wait"\nwhen = "{when}"\nanswer = {{ wait = {wait} }}\n'
            f'reason = "waits {wait}"\n')


def lend_compiled(state):
    """Gives a new state directory the compiled policies of WINDLASS_COMPILED, so that no test compiles the defaults."""
    compiled = os.environ.get("WINDLASS_COMPILED")
    if compiled and not state.exists():
        state.mkdir(mode=0o700)
        shutil.copytree(pathlib.Path(compiled) / "cache", state / "cache")
        shutil.copy(pathlib.Path(compiled) / "cache.key", state)


class Server:
    """In a folder of its own; its retry policy is a file of rules."""

    def __init__(self, wait):
        # The address of a socket is short, and the folders of tests are not.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="windlass-"))
        self.socket = str(self.folder / "policy.sock")
        self.process = None
        self.rules(wait)
        self.configure(self.folder / "retry.rules.toml")

    def rules(self, wait):
        """Puts other rules in place."""
        new = self.folder / "retry.rules.toml.new"
        new.write_text(rules(wait))
        new.rename(self.folder / "retry.rules.toml")

    def configure(self, path):
        (self.folder / "config.toml").write_text(f'[policies.retry]\npath = "{path}"\n')

    def start(self, *options):
        """Begins to serve, and returns when the socket is there."""
        command = [command_line(), "--quiet", "--config", self.folder / "config.toml", "--state-dir",
                   self.folder / "state", "policy", "serve", "--listen", f"unix:{self.socket}", *options]
        environment = {**os.environ, "HOME": str(self.folder), "SCW_CONFIG_PATH": str(self.folder / "none")}
        lend_compiled(self.folder / "state")
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline().strip()
        assert said == f"unix:{self.socket}", said

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Lets it hang, until SIGCONT."""
        self.signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def kill(self):
        """Ends it without a word."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        if self.process and self.process.returncode is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Liar:
    """Answers each request on each connection by what `tell(connection, request)` sends, after what `greet(connection)`
    sends before it reads. None of it is true."""

    def __init__(self, tell, greet):
        self.folder = tempfile.mkdtemp(prefix="windlass-")
        self.path = os.path.join(self.folder, "liar.sock")
        self.tell = tell
        self.greet = greet
        self.connections = 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            if self.greet(connection) is CLOSE:
                return
            while True:
                header = received(connection, 4)
                if header is None:
                    return
                request = policyv1.Request()
                request.ParseFromString(received(connection, struct.unpack(">I", header)[0]))
                if self.tell(connection, request) is CLOSE:
                    return

    def end(self):
        # A thread in accept() is not woken by close() alone.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        shutil.rmtree(self.folder)


CLOSE = object()


def received(connection, length):
    data = b""
    while len(data) < length:
        step = connection.recv(length - len(data))
        if not step:
            return None
        data += step
    return data


def respond(connection, response):
    message = response.SerializeToString()
    connection.sendall(struct.pack(">I", len(message)) + message)


def outcomes(request, *made):
    return policyv1.Response(id=request.id, outcomes=policyv1.Outcomes(outcomes=made))


def decided(request, answer=None):
    """A response whose single outcome has this answer."""
    return outcomes(request, policyv1.Outcome(decision=policyv1.Decision(id="1", answer=answer)))


class Blocking:
    """The client for asyncio, each call in an event loop of its own."""

    def __init__(self, asked):
        self.asked = asked

    def __getattr__(self, name):
        attribute = getattr(self.asked, name)
        if name == "pinned":
            return lambda token: Blocking(attribute(token))
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*arguments, **options):
            async def waited():
                return await attribute(*arguments, **options)

            return asyncio.run(waited())

        return call


def subject():
    return policyv1.Subject(program=policyv1.PROGRAM_OTHER, owner="tests")


def failed(kind=policyv1.FAILURE_CLASS_GATEWAY):
    """A question that the rules decide, where a gateway failed."""
    failure = policyv1.Failure(message="bad gateway", **{"class": kind})
    return policyv1.RetryQuestion(
        now=1_767_225_600_000, random=7, operation="create-server", step="power-on", attempt=2, elapsed=100,
        zone="fr-par-1", subject=subject(), failure=failure)


def give_up():
    """The caller's own default."""
    return policyv1.RetryAnswer(verdict=policyv1.RetryVerdict(give_up={}))


def waits(policies):
    return policies.retry(failed(), give_up).answer.verdict.wait


def expect_wait(policies, wait):
    decision = policies.retry(failed(), give_up)
    assert decision.error is None and decision.answer.verdict.wait == wait, decision


def expect_own(client, **options):
    """Puts the question, expects the caller's own default, and gives why it applies."""
    asked = []

    def own():
        asked.append(True)
        return give_up()

    decision = client.retry(failed(), own, **options)
    assert asked == [True] and decision.decided_by is None and decision.id == "", decision
    assert decision.answer.verdict.WhichOneof("verdict") == "give_up", decision
    assert isinstance(decision.error, (windlass_client.WindlassError, OSError)), decision
    return decision.error


def eventually(what, is_so):
    """Waits for what the server notices by itself, for far longer than it takes."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError(f"it never came to this: {what}")
