"""The simulator that the SDK talks to.

`WINDLASS_SIMULATOR_URL` names one that runs already. Without it one is started: the command in `WINDLASS_SIMULATOR`, or
`windlass simulator` out of the build folder. Its first line on standard output is its URL.
"""

import json
import os
import pathlib
import shlex
import subprocess
import urllib.request

import pytest
from scaleway import Client

PROJECT = "7d0e3a4c-0000-4000-8000-000000000001"
# Simulated time runs this much faster than ours, so that a poweroff of 35 s takes 0.2 s.
TIME_SCALE = "200"


def _command():
    given = os.environ.get("WINDLASS_SIMULATOR")
    if given:
        return shlex.split(given)
    root = pathlib.Path(__file__).resolve().parents[2]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return [str(root / target / "debug" / "windlass"), "simulator"]


@pytest.fixture(scope="session")
def url():
    running = os.environ.get("WINDLASS_SIMULATOR_URL")
    if running:
        yield running.rstrip("/")
        return
    command = _command() + ["--listen", "127.0.0.1:0", "--time-scale", TIME_SCALE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline().strip()
        assert first.startswith("http://"), f"{command} said {first!r} instead of its URL"
        yield first.rstrip("/")
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def client(url):
    return Client(
        access_key="SCWXXXXXXXXXXXXXXXXX",
        secret_key="3f2b8d8e-2a8b-4c0e-9d0f-6a1f0a6a7b11",
        default_project_id=PROJECT,
        default_zone="fr-par-1",
        default_region="fr-par",
        api_url=url,
    )


@pytest.fixture
def control(url):
    """Calls a control of the simulator and gives its JSON."""

    def call(method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{url}/_simulator/{path}", data=data, method=method)
        with urllib.request.urlopen(request) as response:
            text = response.read()
        return json.loads(text) if text else None

    yield call
    call("DELETE", "faults")


@pytest.fixture
def resources(control):
    """How many of each kind exist."""
    return lambda: {kind: len(items) for kind, items in control("GET", "resources").items()}
