// The client, against a real `windlass policy serve`.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

import {
  BuiltInError, Client, ClosedError, policyv1 as p, ServerError, TimeoutError,
} from "windlass-client";

import {
  eventually, expectOwn, expectWait, failed, giveUp, never, newClient, Server, subject, waitOf, waits,
} from "./support.mjs";

const now = 1_767_225_600_000n;

test("a policy of the server decides", async (t) => {
  const server = await Server.start(t, 1234);
  const decision = await newClient(t, server.socket).retry(failed(), giveUp);
  assert.equal(decision.error, undefined);
  assert.equal(waitOf(decision.answer), 1234);
  assert.equal(decision.reason, "waits 1234");
  assert.notEqual(decision.id, "");
  assert.deepEqual(decision.fallbacks, []);
  assert.deepEqual([decision.decidedBy.slot, decision.decidedBy.builtIn], ["retry", false]);
});

test("every slot is answered", async (t) => {
  const client = newClient(t, (await Server.start(t, 1)).socket);

  const inFlight = p.StateMappingOperation.NONE;
  const { RUNNING, STOPPED } = p.StateMappingServerState;
  const servers = [
    { state: RUNNING, detail: p.StateMappingStateDetail.BOOTED, hasRun: true, inFlight },
    { state: STOPPED, detail: p.StateMappingStateDetail.NONE, hasRun: true, inFlight },
  ];
  const mapping = await client.stateMapping(
    { now, subject, zone: "fr-par-1", serverTypes: ["DEV1-S"], servers }, never);
  const [running, stopped] = mapping.answer.map((answer) => answer.verdict.verdict.value);
  assert.equal(running.report, p.StateMappingReport.RUNNING);
  assert.equal(stopped.action, p.StateMappingAction.REAP);

  const resource = {
    kind: p.ResourceKind.SERVER, id: "1", name: "web", owned: true, evidence: p.RollbackEvidence.JOURNAL,
  };
  const rollback = await client.rollback({ now, operation: "create-server", subject, resources: [resource] }, never);
  assert.notEqual(rollback.answer.verdict.verdict.value.items.length, 0);

  const machine = {
    kind: p.ReleaseMachineKind.INSTANCE, id: "1", name: "web", zone: "fr-par-1", machineType: "DEV1-S",
    status: "running", createdAt: now, activity: {},
  };
  const release = await client.release(
    { now, subject, trigger: p.ReleaseTrigger.RELEASED, attempt: 1, machine }, never);
  assert.equal(release.answer.verdict.verdict.case, "terminate");

  const nodes = [{ name: "n", group: "g", role: p.ProvisioningNodeRole.MADE, exists: true }];
  const { CREATE: operation } = p.ProvisioningOperation;
  const provisioning = await client.provisioning(
    { now, subject, operation, stage: p.ProvisioningStage.SERVERS, cause: failed().failure, nodes }, never);
  assert.equal(provisioning.answer.verdict.verdict.value.delete.length, 1);

  const places = [{ zone: "fr-par-1", serverType: "DEV1-S" }];
  const placement = await client.placement({ now, operation: "create-server", subject, wanted: 3, places }, never);
  assert.equal(placement.answer.verdict.verdict.value.items[0].count, 3);
});

test("a batch is answered question by question", async (t) => {
  const client = newClient(t, (await Server.start(t, 5)).socket);
  const good = { slot: { case: "retry", value: failed() } };
  const outcomes = await client.decide([good, { slot: { case: "retry", value: {} } }, {}, good]);
  for (const place of [0, 3]) assert.equal(waitOf(outcomes[place].outcome.value.answer.slot.value), 5);
  const { INVALID: code } = p.Error_Code;
  for (const [place, message] of [
    [1, "the question to the slot retry: the field failure is missing"],
    [2, "the question is of no slot that this server knows"],
  ]) {
    const refused = outcomes[place].outcome.value;
    assert.deepEqual([refused.code, refused.message], [code, message]);
  }
});

test("a pin keeps its policies across a swap and a killed server", async (t) => {
  const server = await Server.start(t, 1);
  const client = newClient(t, server.socket);
  const { token } = await client.pin();
  server.rules(2);
  await eventually("the new rules decide", async () => (await waits(client)) === 2);
  await expectWait(client.pinned(token), 1);
  await server.kill();
  await expectOwn(client);
  await server.start();
  await expectWait(client, 2);
  await expectWait(client.pinned(token), 1);
});

test("a hangup reads the configuration again", async (t) => {
  const server = await Server.start(t, 1);
  const client = newClient(t, server.socket);
  await expectWait(client, 1);
  server.write("config.toml", "[policies.retry]\npath = 3\n");
  server.process.kill("SIGHUP");
  const rule = 'name = "r"\nwhen = "true"\nanswer = { wait = 77 }\n';
  server.write("other.rules.toml", `slot = "retry"\n[[rules]]\n${rule}`);
  await expectWait(client, 1);
  server.configure(join(server.folder, "other.rules.toml"));
  await eventually("the other policy decides", async () => {
    server.process.kill("SIGHUP");
    return (await waits(client)) === 77;
  });
});

test("the status tells of policies and decisions", async (t) => {
  const server = await Server.start(t, 1);
  const client = newClient(t, server.socket);
  await expectWait(client, 1);
  const status = await client.status();
  const link = status.links.find(({ policy, position }) => policy.slot === "retry" && position === 0);
  assert.equal(link.source, join(server.folder, "retry.rules.toml"));
  assert.equal(link.suspended, false);
  assert.equal(link.policy.component.length, 64);
  assert.deepEqual([status.counters.decisions, status.counters.openConnections], [1n, 1n]);
});

test("where no configured policy decides the own default may", async (t) => {
  const server = await Server.start(t, 1);
  const conflict = failed(p.FailureClass.CONFLICT);
  const client = newClient(t, server.socket, { ownDefaults: true });
  await expectWait(client, 1);
  assert.ok((await client.retry(conflict, giveUp)).error instanceof BuiltInError);
  const decision = await newClient(t, server.socket).retry(conflict, giveUp);
  assert.deepEqual([decision.error, decision.decidedBy.builtIn], [undefined, true]);
});

test("a dead server means the own default", async (t) => {
  const client = newClient(t, "/tmp/windlass-nobody/policy.sock");
  assert.equal((await expectOwn(client)).code, "ENOENT");
  await assert.rejects(client.pin(), { code: "ENOENT" });
  client.close();
  assert.ok((await expectOwn(client)) instanceof ClosedError);
});

test("a server that hangs means the own default within the time", async (t) => {
  const server = await Server.start(t, 1);
  const patient = newClient(t, server.socket, { connections: 1 });
  await expectWait(patient, 1);
  const client = newClient(t, server.socket, { timeout: 50, connections: 2 });
  await server.stop();
  for (let call = 0; call < 4; call += 1) assert.ok((await expectOwn(client)) instanceof TimeoutError);
  // Shortened by the caller, for one call.
  assert.ok((await expectOwn(patient, { timeout: 10 })) instanceof TimeoutError);

  // Called off by the caller, long before the time is over: what was sent, what waits for its turn, what has not begun.
  const controller = new AbortController();
  const { signal } = controller;
  const calls = [expectOwn(patient, { signal }), expectOwn(patient, { signal })];
  const why = new Error("the machine is gone");
  controller.abort(why);
  assert.deepEqual(await Promise.all([...calls, expectOwn(patient, { signal })]), [why, why, why]);
  await assert.rejects(patient.status({ signal: AbortSignal.abort("words") }), /^Error: the call was aborted: words$/);

  // One that waits for its turn ends with its time, too.
  const first = patient.retry(failed(), giveUp);
  assert.ok((await expectOwn(patient, { timeout: 10 })) instanceof TimeoutError);
  server.process.kill("SIGCONT");
  assert.equal(waitOf((await first).answer), 1);
  await eventually("it decides again", async () => (await waits(client)) === 1);
});

test("a request that is too large is refused by the server", async (t) => {
  const client = newClient(t, (await Server.start(t, 1)).socket);
  const question = failed();
  question.failure.message = "x".repeat(4 << 20);
  const { error } = await client.retry(question, giveUp);
  assert.ok(error instanceof ServerError, error);
  assert.equal(error.code, p.Error_Code.TOO_LARGE);
  await expectWait(client, 1);
});

test("an argument out of range is refused with its range", async (t) => {
  const path = "/tmp/windlass-nobody/policy.sock";
  const timeouts = /^RangeError: timeout must be greater than 0 and at most 2147483647 milliseconds, not /;
  for (const timeout of [0, -1, 2 ** 31, Infinity, NaN]) {
    assert.throws(() => new Client(path, { timeout }), timeouts);
    await assert.rejects(newClient(t, path).retry(failed(), never, { timeout }), timeouts);
    await assert.rejects(newClient(t, path).status({ timeout }), timeouts);
  }
  for (const connections of [0, 1.5, Infinity]) {
    const told = /^RangeError: connections must be an integer of at least 1, /;
    assert.throws(() => new Client(path, { connections }), told);
  }
  for (const maxResponseBytes of [0, 2 ** 32, NaN]) {
    const told = /^RangeError: maxResponseBytes must be from 1 to 4294967295, /;
    assert.throws(() => new Client(path, { maxResponseBytes }), told);
  }
});

test("the longest timeout is one that Node.js waits for", async (t) => {
  const client = newClient(t, (await Server.start(t, 1)).socket, { timeout: 2 ** 31 - 1 });
  await expectWait(client, 1);
});

test("what is no question rejects", async (t) => {
  const client = newClient(t, "/tmp/windlass-nobody/policy.sock");
  await assert.rejects(client.retry({ attempt: -1 }, never), /cannot encode|invalid uint32/);
});

test("whoever forgets to close a client is not kept from ending", async (t) => {
  const server = await Server.start(t, 1);
  const program = `
    import { Client } from "windlass-client";
    const client = new Client(${JSON.stringify(server.socket)}, { timeout: 60000 });
    console.log(String((await client.status()).counters.connections));`;
  const said = execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: import.meta.dirname ?? new URL(".", import.meta.url).pathname, encoding: "utf8", timeout: 60_000,
  });
  assert.equal(said, "1\n");
});

// Eight callers ask without a pause: each question gets an answer of the rules as they are or were, or the own default
// while no server is there.
test("nothing is lost while servers are killed and rules swapped", async (t) => {
  const server = await Server.start(t, 1);
  const client = newClient(t, server.socket, { connections: 4 });
  let [decided, own, stop] = [0, 0, false];
  const callers = Array.from({ length: 8 }, async () => {
    while (!stop) {
      const decision = await client.retry(failed(), giveUp);
      if (decision.error === undefined) {
        const wait = waitOf(decision.answer);
        assert.ok(wait >= 1 && wait <= 6, String(wait));
        decided += 1;
      } else {
        own += 1;
      }
      await new Promise(setImmediate);
    }
  });
  try {
    for (let round = 2; round <= 6; round += 1) {
      const isNew = async () => (await waits(client)) === round;
      server.rules(round);
      await eventually("the new rules decide", isNew);
      if (round % 2 > 0) continue;
      const before = own;
      await server.kill();
      await eventually("the own default applies", () => own > before);
      await server.start();
      await eventually("the server decides again", isNew);
    }
  } finally {
    stop = true;
    await Promise.all(callers);
  }
  assert.ok(decided > 0 && own > 0, `${decided} decided, ${own} by the own default`);
});
