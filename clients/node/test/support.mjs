// A real `windlass policy serve`, and servers that lie.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, policyv1 as p } from "windlass-client";

/** A busy machine may take its time, where the time is not what a test is about. */
export const PATIENT = 60_000;

/** Makes a client that is closed when the test ends. */
export function newClient(t, path, options = {}) {
  const client = new Client(path, { timeout: PATIENT, ...options });
  t.after(() => client.close());
  return client;
}

// The address of a socket is short, and the folders of tests are not.
function newFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), "windlass-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function commandLine() {
  const program = process.env.WINDLASS_COMMAND_LINE;
  assert.ok(program, "WINDLASS_COMMAND_LINE names no program: just test-clients-node");
  return program;
}

/** Gives a new state directory the compiled policies of WINDLASS_COMPILED, so that no test compiles the defaults. */
function lendCompiled(state) {
  const compiled = process.env.WINDLASS_COMPILED;
  if (!compiled || existsSync(state)) return;
  mkdirSync(state, { mode: 0o700 });
  for (const name of ["cache", "cache.key"]) cpSync(join(compiled, name), join(state, name), { recursive: true });
}

/** In a folder of its own; its retry policy is a file of rules. */
export class Server {
  static async start(t, wait) {
    const server = new Server();
    // Hooks run in their order: it has ended before its folder is removed.
    t.after(() => server.process && server.kill());
    server.folder = newFolder(t);
    server.socket = join(server.folder, "policy.sock");
    server.rules(wait);
    server.configure(join(server.folder, "retry.rules.toml"));
    await server.start();
    return server;
  }

  /** Puts other rules in place. */
  rules(wait) {
    const file = join(this.folder, "retry.rules.toml");
    const when = "failure.class == 'gateway'";
    const rule = `name = "wait"\nwhen = "${when}"\nanswer = { wait = ${wait} }\nreason = "waits ${wait}"\n`;
    writeFileSync(`${file}.new`, `slot = "retry"\n[[rules]]\n${rule}`);
    renameSync(`${file}.new`, file);
  }

  configure(path) {
    this.write("config.toml", `[policies.retry]\npath = "${path}"\n`);
  }

  write(name, text) {
    writeFileSync(join(this.folder, name), text);
  }

  /** Begins to serve, and returns when the socket is there. */
  async start(...options) {
    const { folder } = this;
    const places = ["--config", join(folder, "config.toml"), "--state-dir", join(folder, "state")];
    lendCompiled(join(folder, "state"));
    const serve = ["policy", "serve", "--listen", `unix:${this.socket}`, ...options];
    this.process = spawn(commandLine(), ["--quiet", ...places, ...serve], {
      env: { ...process.env, HOME: folder, SCW_CONFIG_PATH: join(folder, "none") },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [said] = await once(createInterface(this.process.stdout), "line");
    assert.equal(said, `unix:${this.socket}`);
  }

  /** Lets it hang, until SIGCONT. */
  async stop() {
    this.process.kill("SIGSTOP");
    const state = () => execFileSync("ps", ["-o", "state=", "-p", String(this.process.pid)], { encoding: "utf8" });
    await eventually("the server hangs", () => state().startsWith("T"));
  }

  /** Ends it without a word. */
  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }
}

/** Answers each request on each connection by what `tell(connection, request)` writes. None of it is true. */
export async function liar(t, tell, greet = () => {}) {
  const path = join(newFolder(t), "liar.sock");
  const connections = new Set();
  const server = createServer((connection) => {
    made.connections += 1;
    connections.add(connection);
    greet(connection);
    let bytes = Buffer.alloc(0);
    connection.on("error", () => {});
    connection.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE()) {
        const end = 4 + bytes.readUInt32BE();
        const request = fromBinary(p.RequestSchema, bytes.subarray(4, end));
        bytes = bytes.subarray(end);
        tell(connection, request);
      }
    });
  });
  t.after(() => {
    server.close();
    for (const connection of connections) connection.destroy();
  });
  const made = { path, connections: 0 };
  server.listen(path);
  await once(server, "listening");
  return made;
}

export function framed(response) {
  const message = toBinary(p.ResponseSchema, create(p.ResponseSchema, response));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.length);
  return Buffer.concat([length, message]);
}

export function outcomes({ id }, ...made) {
  return framed({ id, result: { case: "outcomes", value: { outcomes: made } } });
}

/** A response whose single outcome has this answer. */
export function decided(request, slot) {
  const answer = slot && { slot };
  return outcomes(request, { outcome: { case: "decision", value: { id: "1", answer } } });
}

export function retried(verdict) {
  return { case: "retry", value: { verdict: verdict && { verdict } } };
}

export const subject = { program: p.Program.OTHER, owner: "tests" };

/** A question that the rules decide, where a gateway failed. */
export function failed(kind = p.FailureClass.GATEWAY) {
  return {
    now: 1_767_225_600_000n, random: 7n, operation: "create-server", step: "power-on", attempt: 2, elapsed: 100n,
    zone: "fr-par-1", subject, failure: { class: kind, message: "bad gateway" },
  };
}

/** The caller's own default. */
export function giveUp() {
  return { verdict: { verdict: { case: "giveUp", value: {} } } };
}

export function never() {
  throw new Error("the server decides");
}

/** What the answer to a decision has to wait. */
export function waitOf(answer) {
  const verdict = answer?.verdict?.verdict;
  return verdict?.case === "wait" ? Number(verdict.value) : undefined;
}

export async function waits(policies) {
  return waitOf((await policies.retry(failed(), giveUp)).answer);
}

export async function expectWait(policies, wait) {
  const decision = await policies.retry(failed(), giveUp);
  assert.equal(decision.error, undefined);
  assert.equal(waitOf(decision.answer), wait);
}

/** Puts the question, expects the caller's own default, and gives why it applies. */
export async function expectOwn(client, options) {
  let asked = 0;
  const own = () => {
    asked += 1;
    return giveUp();
  };
  const decision = await client.retry(failed(), own, options);
  assert.deepEqual([asked, decision.decidedBy, decision.id], [1, undefined, ""]);
  assert.equal(decision.answer.verdict.verdict.case, "giveUp");
  assert.ok(decision.error instanceof Error);
  return decision.error;
}

/** Waits for what the server notices by itself, for far longer than it takes. */
export async function eventually(what, isSo) {
  for (const end = Date.now() + PATIENT; Date.now() < end; await sleep(10)) {
    if (await isSo()) return;
  }
  assert.fail(`it never came to this: ${what}`);
}
