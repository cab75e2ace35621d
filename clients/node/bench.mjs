// A decision beside a plain echo of the same bytes by another process, in turns: node bench.mjs COUNT
// WINDLASS_COMMAND_LINE names the program `windlass`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";

import { policyv1 } from "windlass-client";

import { failed, giveUp, newClient, Server } from "./test/support.mjs";

const count = Number(process.argv[2]);
const undo = [];
const scope = { after: (step) => undo.unshift(step) };
const server = await Server.start(scope, 1234);
const client = newClient(scope, server.socket);

const path = join(server.folder, "echo");
const program = `require("net").createServer((c) => c.pipe(c)).listen(${JSON.stringify(path)}, () => console.log())`;
const echoing = spawn(process.execPath, ["--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
scope.after(() => echoing.kill());
await once(echoing.stdout, "data");
const echo = connect(path);
const payload = Buffer.alloc(200);

const decide = async (question) => {
  const { error } = await client.retry(question, giveUp);
  if (error !== undefined) throw error;
};
const kinds = {
  "an echo": async () => {
    echo.write(payload);
    await once(echo, "data");
  },
  rules: () => decide(failed()),
  "built-in": () => decide(failed(policyv1.FailureClass.CONFLICT)),
};
const took = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
for (let round = 0; round < count; round += 1) {
  for (const [name, call] of Object.entries(kinds)) {
    const began = process.hrtime.bigint();
    await call();
    took[name].push(Number(process.hrtime.bigint() - began) / 1000);
  }
}
for (const [name, micros] of Object.entries(took)) {
  micros.sort((one, other) => one - other);
  const [p50, p99] = [0.5, 0.99].map((share) => micros[Math.floor(share * (count - 1))].toFixed(0));
  console.log(`${name}: p50 ${p50} µs, p99 ${p99} µs`);
}
echo.destroy();
for (const step of undo) step();
