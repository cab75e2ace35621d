// Other users, whom the server refuses unless they are named.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { expectWait, newClient, Server } from "./support.mjs";

const NOBODY = "65534";
const skip = process.getuid() === 0 ? false : "only root can become another user";

test("another user is refused unless named", { skip }, async (t) => {
  const server = await Server.start(t, 9);
  chmodSync(server.folder, 0o755);
  const program = fileURLToPath(new URL("nobody.mjs", import.meta.url));
  const asNobody = () => execFileSync(process.execPath, [program, server.socket, NOBODY], { encoding: "utf8" });
  assert.match(asNobody(), /undefined connect EACCES/);
  await server.kill();
  await server.start("--allow-uid", "12345");
  assert.equal(asNobody(), `undefined policy server: user ${NOBODY} may not ask this server\n`);
  await server.kill();
  await server.start("--allow-uid", "12345", "--allow-uid", NOBODY);
  assert.equal(asNobody(), "9 undefined\n");
  await expectWait(newClient(t, server.socket), 9);
});
