// Makes a component of a policy in JavaScript or TypeScript. `node build.mjs REQUEST.json`, from the toolchain's folder.
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { chdir, exit, stderr } from "node:process";

import { componentize } from "@bytecodealliance/componentize-js";
import { transformSync } from "amaro";

const NOT_SOURCES = new Set(["node_modules", "fixtures", "schemas"]);

/** Copies the sources. Types become spaces, so that every line and column stays where it is. */
async function copySources(from, to) {
  await mkdir(to, { recursive: true });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      if (!NOT_SOURCES.has(entry.name) && !entry.name.startsWith(".")) await copySources(source, target);
    } else if (entry.name.endsWith(".d.ts")) {
      // Types only.
    } else if (extname(entry.name) === ".ts") {
      const text = await readFile(source, "utf8");
      await writeFile(target, transformSync(text, { mode: "strip-only", filename: source }).code);
    } else if ([".js", ".mjs"].includes(extname(entry.name))) {
      await copyFile(source, target);
    }
  }
}

const { sources, entry, wit, world, folder, out } = JSON.parse(await readFile(process.argv[2], "utf8"));
try {
  await copySources(sources, join(folder, "policy"));
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
