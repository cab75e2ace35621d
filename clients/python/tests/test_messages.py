"""The generated messages, the types of all that is public, and the defaults, which all clients share."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import windlass_client
from generate import generate

CLIENT = pathlib.Path(__file__).resolve().parents[1]
MESSAGES = CLIENT / "src/windlass_client/policyv1"


def test_the_messages_are_those_of_the_protocol(tmp_path):
    generate(CLIENT / "../../host/serve/proto", tmp_path)
    made = {file.name for file in tmp_path.iterdir()}
    assert made == {file.name for file in MESSAGES.iterdir() if "_pb2" in file.name and file.is_file()}
    for name in made:
        assert (MESSAGES / name).read_text() == (tmp_path / name).read_text(), f"{name}: just bindings"


def checked(*arguments):
    """What mypy says of files, as of a user's with this client."""
    command = [sys.executable, "-m", "mypy", "--config-file", CLIENT / "pyproject.toml", "--cache-dir", os.devnull,
               *arguments]
    return subprocess.run(command, cwd=CLIENT / "src", capture_output=True, text=True)


def test_all_that_is_public_is_typed(tmp_path):
    user = tmp_path / "user.py"
    user.write_text("""import windlass_client
from windlass_client import policyv1


def own() -> policyv1.RetryAnswer:
    return policyv1.RetryAnswer()


async def ask(sync: windlass_client.Client, tasks: windlass_client.AsyncClient) -> None:
    question = policyv1.RetryQuestion(attempt=1)
    reveal_type(sync.retry(question, own).answer)
    reveal_type((await tasks.retry(question, own)).answer)
    reveal_type(sync.status())
    tasks.retry("no question", own)
    sync.release(policyv1.ReleaseQuestion(), own)
""")
    done = checked(user)
    revealed = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert [name.rsplit(".", 1)[1] for name in revealed] == ["RetryAnswer", "RetryAnswer", "Status"], done.stdout
    wrong = re.findall(r"user\.py:(\d+): error: .*\[(.*)\]", done.stdout)
    assert wrong == [("14", "unused-coroutine"), ("14", "arg-type"), ("15", "arg-type")], done.stdout
    assert (CLIENT / "src/windlass_client/py.typed").exists()
    package = checked("-p", "windlass_client")
    assert package.returncode == 0, package.stdout


@pytest.mark.parametrize("kind", [windlass_client.Client, windlass_client.AsyncClient])
def test_the_defaults_are_those_of_the_client_in_go(kind):
    go = (CLIENT / "../go/windlass.go").read_text()
    defaults = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}
    assert f"const DefaultTimeout = {defaults['timeout']:.0f} * time.Second\n" in go
    assert f"options.Connections = {defaults['connections']}\n" in go
    assert f"options.MaxResponseBytes = {defaults['max_response_bytes'] >> 20} << 20\n" in go
