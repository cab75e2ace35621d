"""Other users, whom the server refuses unless they are named."""

import os

import pytest

import windlass_client
from support import PATIENT, expect_wait, failed, give_up

NOBODY = 65534


def as_nobody(path):
    """What another user is answered: the number that it has to wait, and the error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        with windlass_client.Client(path, timeout=PATIENT) as client:
            decision = client.retry(failed(), give_up)
        os.write(writing, f"{decision.answer.verdict.wait} {decision.error}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_unless_named(server_of):
    server = server_of("9")
    server.folder.chmod(0o755)
    assert "Permission denied" in as_nobody(server.socket)
    server.kill()
    server.start("--allow-uid", "12345")
    assert as_nobody(server.socket) == f"0 policy server: user {NOBODY} may not ask this server"
    server.kill()
    server.start("--allow-uid", "12345", "--allow-uid", str(NOBODY))
    assert as_nobody(server.socket) == "9 None"
    with windlass_client.Client(server.socket, timeout=PATIENT) as client:
        expect_wait(client, 9)
