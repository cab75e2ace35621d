// Makes the messages in src/policyv1 from the definitions of the policy server's protocol, by protobuf-es' own
// generator: node generate.mjs PROTO-FOLDER OUT-FOLDER
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = "windlass/policy/v1";
const programs = fileURLToPath(new URL("node_modules/.bin/", import.meta.url));

function generate(protos, out) {
  const work = mkdtempSync(join(tmpdir(), "windlass-"));
  try {
    // Where Go's package is concerns nobody else.
    mkdirSync(join(work, "protos", FOLDER), { recursive: true });
    for (const name of readdirSync(join(protos, FOLDER))) {
      const text = readFileSync(join(protos, FOLDER, name), "utf8").replace(/^option go_package = .*\n/m, "");
      writeFileSync(join(work, "protos", FOLDER, name), text);
    }
    const plugin = { local: join(programs, "protoc-gen-es"), out: "made", opt: ["target=ts", "import_extension=js"] };
    const template = JSON.stringify({ version: "v2", plugins: [plugin] });
    execFileSync(join(programs, "buf"), ["generate", "protos", "--template", template], { cwd: work, stdio: "inherit" });
    for (const name of readdirSync(join(work, "made", FOLDER))) {
      copyFileSync(join(work, "made", FOLDER, name), join(out, name));
    }
  } finally {
    rmSync(work, { recursive: true });
  }
}

const [protos, out] = process.argv.slice(2);
if (out === undefined) {
  console.error("usage: node generate.mjs PROTO-FOLDER OUT-FOLDER");
  process.exit(2);
}
generate(protos, out);
