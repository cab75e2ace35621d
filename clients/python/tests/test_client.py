"""The clients, against a real `windlass policy serve`."""

import asyncio
import math
import os
import signal
import threading

import pytest

import windlass_client
from support import PATIENT, eventually, expect_own, expect_wait, failed, give_up, respond, subject, waits
from windlass_client import policyv1 as p

NOW = 1_767_225_600_000


def test_a_policy_of_the_server_decides(server, client_of):
    decision = client_of(server.socket).retry(failed(), give_up)
    assert decision.error is None
    assert decision.answer.verdict.wait == 5
    assert decision.reason == "waits 5" and decision.id and decision.fallbacks == []
    assert decision.decided_by.slot == "retry" and not decision.decided_by.built_in


def test_every_slot_is_answered(server, client_of):
    client = client_of(server.socket)

    def never():
        raise AssertionError("the server decides")

    servers = [p.StateMappingServer(
        state=state, detail=detail, has_run=True, in_flight=p.STATE_MAPPING_OPERATION_NONE) for state, detail in (
            (p.STATE_MAPPING_SERVER_STATE_RUNNING, p.STATE_MAPPING_STATE_DETAIL_BOOTED),
            (p.STATE_MAPPING_SERVER_STATE_STOPPED, p.STATE_MAPPING_STATE_DETAIL_NONE))]
    mapping = client.state_mapping(p.StateMappingQuestion(
        now=NOW, subject=subject(), zone="fr-par-1", server_types=["DEV1-S"], servers=servers), never)
    running, stopped = (answer.verdict.mapped for answer in mapping.answer)
    assert running.report == p.STATE_MAPPING_REPORT_RUNNING and stopped.action == p.STATE_MAPPING_ACTION_REAP

    rollback = client.rollback(p.RollbackQuestion(
        now=NOW, operation="create-server", subject=subject(), resources=[p.RollbackResource(
            kind=p.RESOURCE_KIND_SERVER, id="1", name="web", owned=True, evidence=p.ROLLBACK_EVIDENCE_JOURNAL)]), never)
    assert len(rollback.answer.verdict.plan.items) > 0

    release = client.release(p.ReleaseQuestion(
        now=NOW, subject=subject(), trigger=p.RELEASE_TRIGGER_RELEASED, attempt=1, machine=p.ReleaseMachine(
            kind=p.RELEASE_MACHINE_KIND_INSTANCE, id="1", name="web", zone="fr-par-1", machine_type="DEV1-S",
            status="running", created_at=NOW, activity=p.ReleaseActivity())), never)
    assert release.answer.verdict.HasField("terminate")

    provisioning = client.provisioning(p.ProvisioningQuestion(
        now=NOW, subject=subject(), operation=p.PROVISIONING_OPERATION_CREATE, stage=p.PROVISIONING_STAGE_SERVERS,
        cause=failed().failure, nodes=[p.ProvisioningNode(
            name="n", group="g", role=p.PROVISIONING_NODE_ROLE_MADE, exists=True)]), never)
    assert len(provisioning.answer.verdict.recover.delete) == 1

    placement = client.placement(p.PlacementQuestion(
        now=NOW, operation="create-server", subject=subject(), wanted=3,
        places=[p.PlacementPlace(zone="fr-par-1", server_type="DEV1-S")]), never)
    assert placement.answer.verdict.place.items[0].count == 3


def test_a_batch_is_answered_question_by_question(server, client_of):
    good = p.Question(retry=failed())
    outcomes = client_of(server.socket).decide(
        [good, p.Question(retry=p.RetryQuestion()), p.Question(), good])
    assert [outcome.decision.answer.retry.verdict.wait for outcome in outcomes] == [5, 0, 0, 5]
    assert [(outcome.error.code, outcome.error.message) for outcome in outcomes[1:3]] == [
        (p.Error.CODE_INVALID, "the question to the slot retry: the field failure is missing"),
        (p.Error.CODE_INVALID, "the question is of no slot that this server knows")]


def test_a_pin_keeps_its_policies_across_a_swap_and_a_killed_server(server_of, client_of):
    server = server_of("1")
    client = client_of(server.socket)
    token = client.pin().token
    server.rules("2")
    eventually("the new rules decide", lambda: waits(client) == 2)
    expect_wait(client.pinned(token), 1)
    server.kill()
    expect_own(client)
    server.start()
    expect_wait(client, 2)
    expect_wait(client.pinned(token), 1)


def test_a_hangup_reads_the_configuration_again(server_of, client_of):
    server = server_of("1")
    client = client_of(server.socket)
    expect_wait(client, 1)
    (server.folder / "config.toml").write_text("[policies.retry]\npath = 3\n")
    server.signal(signal.SIGHUP)
    other = server.folder / "other.rules.toml"
    other.write_text('slot = "retry"\n[[rules]]\nname = "r"\nwhen = "true"\nanswer = { wait = 77 }\n')
    expect_wait(client, 1)
    server.configure(other)

    def is_other():
        server.signal(signal.SIGHUP)
        return waits(client) == 77

    eventually("the other policy decides", is_other)


def test_the_status_tells_of_policies_and_decisions(server_of, client_of):
    server = server_of("1")
    client = client_of(server.socket)
    expect_wait(client, 1)
    status = client.status()
    (link,) = (link for link in status.links if link.policy.slot == "retry" and link.position == 0)
    assert link.source == str(server.folder / "retry.rules.toml") and not link.suspended
    assert len(link.policy.component) == 64
    assert status.counters.decisions == 1 and status.counters.open_connections == 1


def test_where_no_configured_policy_decides_the_own_default_may(server, client_of):
    conflict = failed(p.FAILURE_CLASS_CONFLICT)
    client = client_of(server.socket, own_defaults=True)
    expect_wait(client, 5)
    assert isinstance(client.retry(conflict, give_up).error, windlass_client.BuiltInError)
    decision = client_of(server.socket).retry(conflict, give_up)
    assert decision.error is None and decision.decided_by.built_in


@pytest.mark.parametrize("argument, value, told", [
    *(("timeout", value, "timeout must be greater than 0 and at most 2000000 seconds")
      for value in (0, -1, 2_000_001, 1e9, math.inf, math.nan)),
    ("connections", 0, "connections must be at least 1, not 0"),
    *(("max_response_bytes", value, "max_response_bytes must be from 1 to 4294967295") for value in (0, 1 << 32)),
])
def test_an_argument_out_of_range_is_refused_with_its_range(server, client_of, argument, value, told):
    with pytest.raises(ValueError, match=told):
        client_of(server.socket, **{argument: value})
    if argument == "timeout":
        with pytest.raises(ValueError, match=told):
            client_of(server.socket).retry(failed(), give_up, timeout=value)


def test_the_longest_timeout_is_a_wait_that_the_system_takes(liar_of, client_of):
    def tell(connection, request):
        respond(connection, p.Response(id=request.id, pin=p.Pin(token=b"1")))

    assert client_of(liar_of(tell).path, timeout=2_000_000).pin().token == b"1"


def test_a_dead_server_means_the_own_default(client_of, tmp_path):
    client = client_of(tmp_path / "nobody.sock")
    assert isinstance(expect_own(client), FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        client.pin()
    client.close()
    assert isinstance(expect_own(client), windlass_client.ClosedError)


def test_a_server_that_hangs_means_the_own_default_within_the_time(server_of, client_of):
    server = server_of("1")
    patient = client_of(server.socket)
    expect_wait(patient, 1)
    client = client_of(server.socket, timeout=0.05, connections=2)
    server.stop()
    for _ in range(4):
        assert isinstance(expect_own(client), TimeoutError)
    # A call's own time can shorten that of the client, not lengthen it.
    decisions = []
    longest = threading.Thread(target=lambda: decisions.append(patient.retry(failed(), give_up)))
    longest.start()
    assert isinstance(expect_own(client, timeout=PATIENT), TimeoutError)
    server.signal(signal.SIGCONT)
    longest.join()
    assert decisions[0].error is None
    eventually("it decides again", lambda: waits(client) == 1)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_call_that_waits_for_its_turn_ends_with_its_time(server_of, kind):
    server = server_of("1")

    def by_threads():
        with windlass_client.Client(server.socket, timeout=PATIENT, connections=1) as client:
            server.stop()
            decisions = []
            first = threading.Thread(target=lambda: decisions.append(client.retry(failed(), give_up)))
            first.start()
            # Whichever comes first has the one connection, and the other waits for it.
            error = expect_own(client, timeout=0.05)
            server.signal(signal.SIGCONT)
            first.join()
            assert decisions[0].error is None
            return error

    async def by_tasks():
        async with windlass_client.AsyncClient(server.socket, timeout=PATIENT, connections=1) as client:
            server.stop()
            first = asyncio.ensure_future(client.retry(failed(), give_up))
            await asyncio.sleep(0)
            decision = await client.retry(failed(), give_up, timeout=0.05)
            server.signal(signal.SIGCONT)
            assert (await first).error is None
            return decision.error

    assert isinstance(by_threads() if kind == "threads" else asyncio.run(by_tasks()), TimeoutError)


def test_a_request_that_is_too_large_is_refused_by_the_server(server, client_of):
    client = client_of(server.socket)
    question = failed()
    question.failure.message = "x" * (4 << 20)
    refused = client.retry(question, give_up).error
    assert isinstance(refused, windlass_client.ServerError) and refused.code == p.Error.CODE_TOO_LARGE
    expect_wait(client, 5)


def test_a_task_that_is_cancelled_is_and_its_connection_serves_no_other(server_of):
    server = server_of("1")

    async def cancelled():
        async with windlass_client.AsyncClient(server.socket, timeout=PATIENT, connections=1) as client:
            assert (await client.retry(failed(), give_up)).error is None
            server.stop()
            asking, waiting = (asyncio.ensure_future(client.retry(failed(), give_up)) for _ in range(2))
            await asyncio.sleep(0)
            asking.cancel()
            waiting.cancel()
            ended = await asyncio.gather(asking, waiting, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended)
            server.signal(signal.SIGCONT)
            assert (await client.retry(failed(), give_up)).answer.verdict.wait == 1
            # The connection that was left had a response coming.
            assert (await client.status()).counters.connections == 2

    asyncio.run(cancelled())


def test_a_child_process_has_connections_of_its_own(server_of):
    with windlass_client.Client(server_of("1").socket, timeout=PATIENT) as client:
        expect_wait(client, 1)
        child = os.fork()
        if child == 0:
            is_own = client.status().counters.connections == 2
            os._exit(0 if is_own else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert client.status().counters.connections == 2


def swapped(server, client, own):
    for number in range(2, 7):
        server.rules(str(number))
        eventually("the new rules decide", lambda: waits(client) == number)
        if number % 2 == 0:
            before = own()
            server.kill()
            eventually("the own default applies", lambda: own() > before)
            server.start()
            eventually("the server decides again", lambda: waits(client) == number)


def count(counts, decision):
    """Each question gets an answer of the rules as they are or were, or the own default while no server is there."""
    if decision.error is not None:
        counts["own"] += 1
    elif 1 <= decision.answer.verdict.wait <= 6:
        counts["decided"] += 1
    else:
        counts["wrong"] += 1


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_nothing_is_lost_while_servers_are_killed_and_rules_swapped(server_of, kind):
    server = server_of("1")
    counts = {"own": 0, "decided": 0, "wrong": 0}
    lock, stop = threading.Lock(), threading.Event()

    def ask():
        while not stop.is_set():
            decision = client.retry(failed(), give_up)
            with lock:
                count(counts, decision)

    async def ask_together():
        async with windlass_client.AsyncClient(server.socket, timeout=PATIENT, connections=4) as client:
            async def one():
                while not stop.is_set():
                    count(counts, await client.retry(failed(), give_up))
                    await asyncio.sleep(0)

            await asyncio.gather(*(one() for _ in range(8)))

    with windlass_client.Client(server.socket, timeout=PATIENT, connections=4) as client:
        targets = [ask] * 8 if kind == "threads" else [lambda: asyncio.run(ask_together())]
        threads = [threading.Thread(target=target) for target in targets]
        for thread in threads:
            thread.start()
        try:
            swapped(server, client, lambda: counts["own"])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert counts["wrong"] == 0 and counts["decided"] > 0 and counts["own"] > 0, counts
