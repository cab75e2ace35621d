// Makes a component of a policy in JavaScript or TypeScript. `node build.mjs REQUEST.json`, from the toolchain's
// folder.
import { readFile, readdir, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { chdir, exit, stderr } from "node:process";

import { componentize } from "@bytecodealliance/componentize-js";
import { transformSync } from "amaro";

/** Takes the types out of TypeScript. They become spaces, so that every line and column stays where it is. */
async function stripTypes(folder) {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      await stripTypes(path);
    } else if (extname(entry.name) === ".ts") {
      const source = await readFile(path, "utf8");
      await writeFile(path, transformSync(source, { mode: "strip-only", filename: entry.name }).code);
    }
  }
}

const { entry, wit, world, folder, out } = JSON.parse(await readFile(process.argv[2], "utf8"));
try {
  await stripTypes(join(folder, "policy"));
  chdir(folder);
  const { component } = await componentize({
    sourcePath: entry,
    witPath: wit,
    worldName: world,
    // What is left imports nothing of WASI: no clock, no randomness, no output, no network.
    disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
  });
  await writeFile(out, component);
} catch (error) {
  stderr.write(`${error?.message ?? error}\n`);
  exit(1);
}
