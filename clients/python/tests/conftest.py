import pytest

import windlass_client
from support import PATIENT, Blocking, Liar, Server


@pytest.fixture
def server_of():
    """Makes a server whose retry policy waits for so many milliseconds, and starts it."""
    made = []

    def make(wait):
        made.append(Server(wait))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture(scope="session")
def server():
    """One that is only asked, and waits 5 ms."""
    one = Server("5")
    one.start()
    yield one
    one.end()


@pytest.fixture
def liar_of():
    made = []

    def make(tell, greet=lambda connection: None):
        made.append(Liar(tell, greet))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture(params=["threads", "asyncio"])
def client_of(request):
    """Makes a client, of each of the two kinds in turn."""
    made = []

    def make(path, timeout=PATIENT, **options):
        if request.param == "threads":
            made.append(windlass_client.Client(path, timeout=timeout, **options))
        else:
            made.append(Blocking(windlass_client.AsyncClient(path, timeout=timeout, **options)))
        return made[-1]

    yield make
    for one in made:
        one.close()
