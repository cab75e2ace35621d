// The programs whose console is walked through, and which pages it has.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TARGET } from "./browser.mjs";

// Starts a program and waits for a line of its output that `find` makes something of.
function start(program, args, find, stream) {
  const home = mkdtempSync(join(tmpdir(), "windlass-browser-"));
  const env = { PATH: process.env.PATH, HOME: home, TMPDIR: home };
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env });
  const said = [];
  const found = new Promise((resolve, reject) => {
    for (const [name, output] of [["stdout", child.stdout], ["stderr", child.stderr]]) {
      createInterface({ input: output }).on("line", (line) => {
        said.push(line);
        const made = name === stream ? find(line) : undefined;
        if (made) resolve(made);
      });
    }
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}:\n${said.slice(-20).join("\n")}`)));
  });
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const says = async (words) => {
    for (let waits = 0; !said.some((line) => line.includes(words)); waits += 1) {
      if (waits > 6_000) throw new Error(`${program} does not say ${words}:\n${said.slice(-20).join("\n")}`);
      if (hasEnded()) throw new Error(`${program} ended before it said ${words}`);
      await new Promise((wait) => setTimeout(wait, 100));
    }
  };
  const end = () => new Promise((ended) => {
    if (hasEnded()) return ended();
    child.removeAllListeners("exit");
    child.on("exit", ended);
    child.stdin.end();
    child.kill("SIGINT");
  });
  return found.then((found) => ({ found, says, end }), (error) => { throw error; });
}

export const startWorld = () =>
  start(join(TARGET, "debug/examples/console_world"), [join(TARGET, "console-world")],
    (line) => line.startsWith("{") && JSON.parse(line), "stdout");

export const startDemo = (pace) =>
  start(join(TARGET, "debug/windlass"), ["demo", "--console", "--pace", pace],
    (line) => line.match(/Look at it: (\S+)/)?.[1], "stderr");

// One page of each kind: parts, filters, one operation of each kind and state, one decision of each slot, one of them put
// to each other policy, all clusters.
export async function pages(base) {
  const get = async (path) => {
    const answer = await fetch(base + path);
    return { status: answer.status, text: await answer.text() };
  };
  const found = (text, pattern) => [...text.matchAll(pattern)].map((match) => match[1].replaceAll("&amp;", "&"));
  const all = new Set(["/", "/operations", "/decisions", "/policies", "/clusters", "/search", "/search?q=web"]);
  for (const part of ["/operations", "/decisions"]) {
    const { text } = await get(part);
    for (const link of found(text, new RegExp(`href="(${part}\\?[^"]*)"`, "g"))) {
      // Of groups and of policies one is enough.
      const [kind] = link.match(/\?(group|policy)=/) ?? [];
      if (!kind || ![...all].some((path) => path.includes(kind))) all.add(link);
    }
  }
  const kinds = new Map();
  const operations = [...all].filter((path) => path.startsWith("/operations"));
  for (const path of operations) {
    const { text } = await get(path);
    for (const row of text.split("<tr>").slice(1)) {
      const [id] = found(row, /href="\/operations\/([^"?]+)"/g);
      const cells = found(row, /<td[^>]*>(?:<span[^>]*>)?([a-z-]*)</g);
      if (id && !kinds.has(cells.slice(0, 3).join())) kinds.set(cells.slice(0, 3).join(), id);
    }
  }
  for (const id of kinds.values()) all.add(`/operations/${id}`);
  const decisions = [...all].filter((path) => path.startsWith("/decisions?"));
  for (const path of decisions) {
    const [id] = found((await get(path)).text, /href="\/decisions\/([^"?]+)"/g);
    if (!id) continue;
    all.add(`/decisions/${id}`);
    if ([...all].some((path) => /^\/decisions\/.*\?policy=/.test(path))) continue;
    const { text } = await get(`/decisions/${id}`);
    for (const link of found(text, /href="(\/decisions\/[^"?]+\?policy=[^"#]*)/g)) all.add(link);
  }
  for (const link of found((await get("/clusters")).text, /href="(\/clusters\/[^"]+)"/g)) all.add(link);
  return [...all];
}
