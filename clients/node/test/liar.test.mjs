// Servers that lie, hang up and go on for ever.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  Client, ClosedError, DeferredError, MalformedError, policyv1 as p, ServerError, TimeoutError,
} from "windlass-client";

import { decided, eventually, expectOwn, framed, liar, newClient, outcomes, retried } from "./support.mjs";

const wait = retried({ case: "wait", value: 1n });

function says(bytes) {
  return (connection) => connection.write(bytes);
}

function bytes(length, ...rest) {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(length);
  return Buffer.concat([head, ...rest]);
}

const LIES = {
  garbage: [says(bytes(16, Buffer.alloc(16, 0xff))), MalformedError],
  "groups within groups": [says(bytes(0xfffff, Buffer.alloc(0xfffff, 0x0b))), MalformedError],
  "another protocol": [says("HTTP/1.1 400 Bad Request\r\n\r\n"), MalformedError],
  "a giant length": [says(bytes(0xffff_ffff)), MalformedError],
  "half a response": [(connection) => connection.end(bytes(9, Buffer.from([8]))), "ECONNABORTED"],
  "half a length": [(connection) => connection.end(Buffer.from([0])), "ECONNABORTED"],
  "nothing, and the end": [(connection) => connection.end(), "ECONNRESET"],
  "an empty response": [says(bytes(0)), MalformedError],
  "another's response": [
    (connection, { id }) => connection.write(decided({ id: id + 1n }, wait)),
    MalformedError,
  ],
  "a response twice": [
    (connection, request) => connection.write(Buffer.concat([decided(request, wait), decided(request, wait)])),
    MalformedError,
  ],
  "no outcome": [(connection, request) => connection.write(outcomes(request)), MalformedError],
  "an empty outcome": [(connection, request) => connection.write(outcomes(request, {})), MalformedError],
  "an empty decision": [(connection, request) => connection.write(decided(request)), DeferredError],
  "no verdict": [(connection, request) => connection.write(decided(request, retried())), DeferredError],
  "a deferral": [
    (connection, request) => connection.write(decided(request, retried({ case: "defer", value: {} }))),
    DeferredError,
  ],
  "an answer of another slot": [
    (connection, request) => connection.write(decided(request, { case: "release", value: {} })),
    DeferredError,
  ],
};

for (const [name, [tell, why]] of Object.entries(LIES)) {
  test(`a server that lies means the own default: ${name}`, async (t) => {
    const client = newClient(t, (await liar(t, tell)).path);
    // Twice: what the first call left behind must not answer the second.
    for (let call = 0; call < 2; call += 1) {
      const error = await expectOwn(client);
      if (typeof why === "string") assert.equal(error.code, why, error);
      else assert.ok(error instanceof why, error);
    }
  });
}

test("an announced length takes no memory, however small the pieces are that come", async (t) => {
  const { path } = await liar(t, async (connection) => {
    connection.write(bytes(8 << 20));
    for (let piece = 0; piece < 20_000; piece += 1) {
      connection.write(Buffer.from([0]));
      // Each a piece of its own for the one that reads.
      if (piece % 10 === 0) await new Promise(setImmediate);
    }
    connection.end();
  });
  const client = newClient(t, path);
  const allocated = [];
  const { allocUnsafe } = Buffer;
  t.mock.method(Buffer, "allocUnsafe", (size) => {
    allocated.push(size);
    return allocUnsafe(size);
  });
  assert.equal((await expectOwn(client)).code, "ECONNABORTED");
  assert.ok(allocated.length < 100 && Math.max(...allocated) < 1 << 20, `${allocated}`);
});

test("the defaults are those of the client in Go", async (t) => {
  const go = readFileSync(new URL("../../go/windlass.go", import.meta.url), "utf8");
  const [, timeout] = go.match(/const DefaultTimeout = (\d+) \* time.Second\n/);
  const [, mebibytes] = go.match(/options.MaxResponseBytes = (\d+) << 20\n/);
  const [, connections] = go.match(/options.Connections = (\d+)\n/);
  // No time passes; eight calls at the same time are what "after close no call connects" has.
  const times = [];
  t.mock.method(globalThis, "setTimeout", (_, milliseconds) => times.push(milliseconds));
  for (const [more, why] of [[0, "ECONNABORTED"], [1, undefined]]) {
    const { path } = await liar(t, (connection) => connection.end(bytes((mebibytes << 20) + more)));
    const { error } = await new Client(path).retry({}, () => ({}));
    assert.deepEqual([error.code, error instanceof MalformedError], [why, more > 0]);
  }
  assert.deepEqual([times, connections], [[1000 * timeout, 1000 * timeout], "8"]);
});

test("the largest response may be set", async (t) => {
  const { path } = await liar(t, (connection, request) => connection.write(decided(request, wait)));
  const error = await expectOwn(newClient(t, path, { maxResponseBytes: 4 }));
  assert.ok(error instanceof MalformedError, error);
  assert.equal(error.message, "malformed response: its length, 19 bytes, exceeds maxResponseBytes (4)");
});

test("an endless answer ends with the time", async (t) => {
  let isClosed = false;
  const { path } = await liar(t, (connection) => {
    connection.write(bytes(0x100000));
    const drip = setInterval(() => connection.write(Buffer.from([0])), 1);
    connection.on("close", () => {
      clearInterval(drip);
      isClosed = true;
    });
  });
  const client = newClient(t, path, { timeout: 50 });
  const error = await expectOwn(client);
  assert.ok(error instanceof TimeoutError, error);
  assert.equal(error.message, "the call timed out");
  await eventually("the client closed the connection", () => isClosed);
});

test("a server's refusal is told", async (t) => {
  const value = { code: p.Error_Code.DENIED, message: "user 7 may not ask" };
  const { path } = await liar(t, (connection) => connection.end(framed({ result: { case: "error", value } })));
  const client = newClient(t, path);
  for (let call = 0; call < 2; call += 1) {
    const error = await expectOwn(client);
    assert.ok(error instanceof ServerError, error);
    assert.deepEqual([error.code, error.message], [p.Error_Code.DENIED, "policy server: user 7 may not ask"]);
  }
});

test("answers of a batch that miss a server are none", async (t) => {
  const answers = [{ verdict: { verdict: { case: "mapped", value: {} } } }];
  const { path } = await liar(t, (connection, request) => {
    connection.write(decided(request, { case: "stateMapping", value: { answers } }));
  });
  const client = newClient(t, path);
  assert.equal((await client.stateMapping({ servers: [{}] }, () => [])).error, undefined);
  assert.ok((await client.stateMapping({ servers: [{}, {}] }, () => [])).error instanceof DeferredError);
});

test("a connection that the server closed is made anew once", async (t) => {
  const server = await liar(t, (connection, request) => connection.end(decided(request, wait)));
  const client = newClient(t, server.path);
  for (let asked = 1; asked < 4; asked += 1) {
    assert.equal((await client.retry({}, () => ({}))).error, undefined);
    assert.equal(server.connections, asked);
  }
});

test("what comes unasked is no answer", async (t) => {
  let last;
  const server = await liar(t, (connection, request) => {
    last = connection;
    connection.write(decided(request, wait));
  });
  const client = newClient(t, server.path);
  for (let asked = 1; asked < 4; asked += 1) {
    const { error, answer } = await client.retry({}, () => ({}));
    assert.deepEqual([error, answer.verdict.verdict.value], [undefined, 1n]);
    assert.equal(server.connections, asked);
    // The answer to the next question, before that is put.
    last.write(decided({ id: BigInt(asked + 1) }, retried({ case: "wait", value: 99n })));
  }
});

test("a server that refuses without having read is heard", async (t) => {
  const value = { code: p.Error_Code.BUSY, message: "no room" };
  const tell = () => assert.fail("it reads nothing");
  const { path } = await liar(t, tell, (connection) => {
    connection.write(framed({ result: { case: "error", value } }));
    connection.destroy();
  });
  const client = newClient(t, path);
  for (let call = 0; call < 2; call += 1) assert.equal((await expectOwn(client)).code, p.Error_Code.BUSY);
});

test("after close no call connects", async (t) => {
  const held = [];
  const server = await liar(t, (connection) => held.push(connection));
  const client = newClient(t, server.path);
  const calls = Array.from({ length: 8 }, () => assert.rejects(client.pin(), { code: "ECONNRESET" }));
  const waiting = assert.rejects(client.pin(), ClosedError);
  await eventually("all have come", () => held.length === 8);
  client.close();
  await waiting;
  // Calls under way end as they end: here, with the connection.
  for (const connection of held) connection.end();
  await Promise.all(calls);
  for (let call = 0; call < 200; call += 1) await assert.rejects(client.pin(), ClosedError);
  assert.deepEqual([server.connections, held.length], [8, 8]);
});
