// The generated messages, and the types of all that is public.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const client = fileURLToPath(new URL("..", import.meta.url));

test("the messages are those of the protocol", (t) => {
  const made = mkdtempSync(join(tmpdir(), "windlass-"));
  t.after(() => rmSync(made, { recursive: true }));
  const generator = [join(client, "generate/generate.mjs"), join(client, "../../host/serve/proto"), made];
  execFileSync(process.execPath, generator, { stdio: ["ignore", "inherit", "inherit"] });
  const messages = join(client, "src/policyv1");
  const files = readdirSync(made);
  assert.deepEqual(readdirSync(messages).filter((name) => name !== "index.ts"), files);
  for (const name of files) {
    const isNow = readFileSync(join(messages, name), "utf8") === readFileSync(join(made, name), "utf8");
    assert.ok(isNow, `src/policyv1/${name} is not what host/serve/proto says: just bindings`);
  }
});

test("all that is public is typed", () => {
  const tsc = join(client, "node_modules/.bin/tsc");
  const checked = spawnSync(tsc, ["--project", join(client, "test")], { encoding: "utf8" });
  assert.equal(checked.status, 0, checked.stdout);
});
