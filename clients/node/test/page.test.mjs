// The example of the page about the policy server, run as it stands.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Server } from "./support.mjs";

const client = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(new URL("../../../docs/policy-server.md", import.meta.url), "utf8");
const [, example] = page.match(/^## Use it from Node.js\n.*?^```js\n(.*?)^```$/ms);
const [, rules] = page.match(/<!-- file: patience.rules.toml -->\n```toml\n(.*?)^```$/ms);

/** A folder that has this package installed. */
function userFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), "windlass-"));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(client, join(folder, "node_modules/windlass-client"));
  return folder;
}

test("the example of the page does what it says", async (t) => {
  const folder = userFolder(t);
  const server = await Server.start(t, 1);
  server.write("retry.rules.toml", rules);
  await server.kill();
  await server.start();
  // Nothing of it may need the time that a busy machine takes.
  const program = example.replace(/"\/run\/[^"]*"/, `${JSON.stringify(server.socket)}, { timeout: 60_000 }`)
    .replace("timeout(100)", "timeout(60_000)");
  writeFileSync(join(folder, "example.mjs"), program);
  const run = () => spawnSync(process.execPath, ["example.mjs"], { cwd: folder, encoding: "utf8" });
  const decided = run();
  assert.equal(decided.stdout, "verdict: { case: 'wait', value: 60000n } stock may come back\n", decided.stderr);
  await server.kill();
  assert.match(run().stdout, /^using the local default: Error: connect ECONNREFUSED/);
});
