"""Servers that lie, hang up and go on for ever."""

import asyncio
import os
import signal
import threading
import time
import tracemalloc

import pytest

import windlass_client
from support import CLOSE, PATIENT, decided, eventually, expect_own, failed, give_up, outcomes, respond
from windlass_client import policyv1 as p

SAYS = {
    "garbage": b"\x00\x00\x00\x10" + b"\xff" * 16,
    "groups within groups": b"\x00\x0f\xff\xff" + b"\x0b" * 0xfffff,
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a giant length": b"\xff\xff\xff\xff",
    "an empty response": b"\x00\x00\x00\x00",
}


def retry(verdict):
    return p.Answer(retry=p.RetryAnswer(verdict=verdict))


def another(connection, request):
    request.id += 1
    respond(connection, decided(request, retry(p.RetryVerdict(wait=1))))


def longer(connection, request):
    """The response is followed by what would be a part of it."""
    message = decided(request, retry(p.RetryVerdict(wait=1))).SerializeToString()
    connection.sendall(len(message).to_bytes(4, "big") + message + p.Response(id=request.id).SerializeToString())


def half(connection, request):
    connection.sendall(b"\x00\x00\x00\x09\x08")
    return CLOSE


def half_a_length(connection, request):
    connection.sendall(b"\x00")
    return CLOSE


MALFORMED, DEFERRED = windlass_client.MalformedError, windlass_client.DeferredError
LIES = {
    **{name: (lambda connection, request, said=said: connection.sendall(said), MALFORMED)
       for name, said in SAYS.items()},
    "half a response": (half, ConnectionAbortedError),
    "half a length": (half_a_length, ConnectionAbortedError),
    "nothing, and the end": (lambda connection, request: CLOSE, ConnectionResetError),
    "another's response": (another, MALFORMED),
    "more than was announced": (longer, MALFORMED),
    "no outcome": (lambda connection, request: respond(connection, outcomes(request)), MALFORMED),
    "an empty outcome": (lambda connection, request: respond(connection, outcomes(request, p.Outcome())), MALFORMED),
    "an empty decision": (lambda connection, request: respond(connection, decided(request)), DEFERRED),
    "no verdict": (lambda connection, request: respond(connection, decided(request, retry(None))), DEFERRED),
    "a deferral": (lambda connection, request: respond(
        connection, decided(request, retry(p.RetryVerdict(defer={})))), DEFERRED),
    "an answer of another slot": (lambda connection, request: respond(
        connection, decided(request, p.Answer(release=p.ReleaseAnswer()))), DEFERRED),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_means_the_own_default(liar_of, client_of, lie):
    tell, why = LIES[lie]
    client = client_of(liar_of(tell).path)
    # Twice: what the first call left behind must not answer the second.
    for _ in range(2):
        error = expect_own(client)
        assert isinstance(error, why), repr(error)


def test_an_announced_length_takes_no_memory_however_small_the_pieces_are(liar_of, client_of):
    def tell(connection, request):
        connection.sendall((8 << 20).to_bytes(4, "big"))
        for _ in range(20_000):
            connection.sendall(b"\x00")
            # Each a piece of its own for the one that reads.
            time.sleep(0)
        return CLOSE

    client = client_of(liar_of(tell).path)
    expect_own(client)
    tracemalloc.start()
    try:
        assert isinstance(expect_own(client), ConnectionAbortedError)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20, peak


def test_the_largest_response_may_be_set(liar_of, client_of):
    def tell(connection, request):
        respond(connection, decided(request, retry(p.RetryVerdict(wait=1))))

    error = expect_own(client_of(liar_of(tell).path, max_response_bytes=4))
    assert isinstance(error, windlass_client.MalformedError)
    assert str(error) == "malformed response: its length, 19 bytes, exceeds max_response_bytes (4)"


def test_an_endless_answer_ends_with_the_time(liar_of, client_of):
    closed = threading.Event()

    def drip(connection, request):
        connection.sendall(b"\x00\x10\x00\x00")
        try:
            while True:
                connection.sendall(b"\x00")
                time.sleep(0.001)
        except OSError:
            closed.set()
            return CLOSE

    client = client_of(liar_of(drip).path, timeout=1)
    error = expect_own(client)
    assert isinstance(error, TimeoutError) and str(error) == "the call timed out"
    assert closed.wait(PATIENT), "the client has closed the connection"


def test_a_servers_refusal_is_told(liar_of, client_of):
    def refuse(connection, request):
        respond(connection, p.Response(error=p.Error(code=p.Error.CODE_DENIED, message="user 7 may not ask")))
        return CLOSE

    client = client_of(liar_of(refuse).path)
    for _ in range(2):
        refusal = expect_own(client)
        assert isinstance(refusal, windlass_client.ServerError) and refusal.code == p.Error.CODE_DENIED
        assert str(refusal) == "policy server: user 7 may not ask"


def test_answers_of_a_batch_that_miss_a_server_are_none(liar_of, client_of):
    def one(connection, request):
        mapped = p.StateMappingAnswer(verdict=p.StateMappingVerdict(mapped=p.StateMappingMapping()))
        respond(connection, decided(request, p.Answer(state_mapping=p.StateMappingAnswers(answers=[mapped]))))

    client = client_of(liar_of(one).path)
    for servers, why in ((1, type(None)), (2, windlass_client.DeferredError)):
        question = p.StateMappingQuestion(servers=[p.StateMappingServer()] * servers)
        assert type(client.state_mapping(question, list).error) is why


def test_a_connection_that_the_server_closed_is_made_anew_once(liar_of, client_of):
    def once(connection, request):
        respond(connection, decided(request, retry(p.RetryVerdict(wait=1))))
        return CLOSE

    liar = liar_of(once)
    client = client_of(liar.path)
    for asked in range(1, 4):
        assert client.retry(p.RetryQuestion(), p.RetryAnswer).error is None
        assert liar.connections == asked


def test_what_comes_unasked_is_no_answer(liar_of, client_of):
    made = []

    def tell(connection, request):
        made.append(connection)
        respond(connection, decided(request, retry(p.RetryVerdict(wait=1))))

    client = client_of(liar_of(tell).path)
    for asked in range(1, 4):
        decision = client.retry(failed(), give_up)
        assert decision.error is None and decision.answer.verdict.wait == 1
        assert len(set(made)) == asked
        # The answer to the next question, before that is put.
        respond(made[-1], decided(p.Request(id=asked + 1), retry(p.RetryVerdict(wait=99))))


def test_a_server_that_refuses_without_having_read_is_heard(liar_of, client_of):
    def refuse(connection):
        respond(connection, p.Response(error=p.Error(code=p.Error.CODE_BUSY, message="no room")))
        return CLOSE

    client = client_of(liar_of(lambda connection, request: CLOSE, refuse).path)
    question = failed()
    # More than the system takes before the server reads, so that the client can't have sent it.
    question.failure.message = "x" * (4 << 20)
    for _ in range(2):
        refusal = client.retry(question, give_up).error
        assert isinstance(refusal, windlass_client.ServerError) and refusal.code == p.Error.CODE_BUSY, repr(refusal)


def test_a_child_process_keeps_no_connection_of_a_call_under_way(liar_of):
    came, go_on, ended = (threading.Event() for _ in range(3))

    def tell(connection, request):
        came.set()
        go_on.wait()
        connection.sendall(b"\xff" * 4)
        if connection.recv(1) == b"":
            ended.set()
        return CLOSE

    reading, writing = os.pipe()
    with windlass_client.Client(liar_of(tell).path, timeout=PATIENT) as client:
        call = threading.Thread(target=client.retry, args=(failed(), give_up))
        call.start()
        assert came.wait(PATIENT)
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        go_on.set()
        call.join()
        # The client has closed it, and the child lives.
        is_ended = ended.wait(PATIENT)
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)
    assert is_ended


@pytest.mark.parametrize("waits_for", ["a response", "its turn"])
def test_a_thread_that_is_interrupted_leaves_nothing_behind(liar_of, waits_for):
    """As by Ctrl+C: its connection answers no other, and its turn is the next one's."""
    came, held = threading.Semaphore(0), threading.Event()

    def tell(connection, request):
        came.release()
        held.wait()
        respond(connection, decided(request, retry(p.RetryVerdict(wait=1))))

    def interrupt():
        if waits_for == "a response":
            came.acquire()
        else:
            eventually("a call waits for its turn", lambda: client._pool._turns)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    liar = liar_of(tell)
    with windlass_client.Client(liar.path, timeout=PATIENT, connections=1) as client:
        first = threading.Thread(target=client.retry, args=(failed(), give_up))
        if waits_for == "its turn":
            first.start()
            assert came.acquire(timeout=PATIENT)
        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            client.retry(failed(), give_up)
        interrupter.join()
        held.set()
        assert client.retry(failed(), give_up).answer.verdict.wait == 1
        if waits_for == "its turn":
            first.join()
    assert liar.connections == (2 if waits_for == "a response" else 1)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_after_close_no_call_connects(liar_of, kind):
    came, held = threading.Semaphore(0), threading.Event()

    def hold(connection, request):
        came.release()
        held.wait()
        return CLOSE

    liar = liar_of(hold)

    def all_have_come():
        for _ in range(8):
            assert came.acquire(timeout=PATIENT)

    def by_threads():
        client = windlass_client.Client(liar.path, timeout=PATIENT, connections=8)
        ended = []

        def pin():
            try:
                client.pin()
            except (windlass_client.WindlassError, OSError) as error:
                ended.append(type(error))

        threads = [threading.Thread(target=pin) for _ in range(8)]
        for thread in threads:
            thread.start()
        all_have_come()
        waiting = threading.Thread(target=pin)
        waiting.start()
        client.close()
        waiting.join()
        held.set()
        for thread in threads:
            thread.join()
        for _ in range(200):
            pin()
        return ended

    async def by_tasks():
        client = windlass_client.AsyncClient(liar.path, timeout=PATIENT, connections=8)
        calls = [asyncio.ensure_future(client.pin()) for _ in range(9)]
        await asyncio.get_running_loop().run_in_executor(None, all_have_come)
        client.close()
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        held.set()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        for _ in range(200):
            ended += await asyncio.gather(client.pin(), return_exceptions=True)
        return [type(error) for error in ended]

    try:
        ended = by_threads() if kind == "threads" else asyncio.run(by_tasks())
    finally:
        held.set()
    # Calls under way end as they end: here, with the connection.
    assert sorted(error.__name__ for error in ended) == ["ClosedError"] * 201 + ["ConnectionResetError"] * 8
    assert liar.connections == 8 and not came.acquire(blocking=False)
