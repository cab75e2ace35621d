// The programs whose pages are walked through, the browser, and what every page is held to.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { existsSync, mkdtempSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const TARGET = process.env.WINDLASS_TARGET;
export const PICTURES = join(TARGET, "console-browser");
export const WIDTHS = [360, 1024, 1920];
export const THEMES = ["light", "dark"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

mkdirSync(PICTURES, { recursive: true });

export const BROWSER = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
  (path) => path && existsSync(path),
);

export const browse = () =>
  chromium.launch({
    executablePath: BROWSER,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    ],
  });

// Starts a program and waits for a line of its output that `find` makes something of.
function start(program, args, find, stream) {
  const home = mkdtempSync(join(tmpdir(), "windlass-browser-"));
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env: { PATH: process.env.PATH, HOME: home, TMPDIR: home } });
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
  const says = async (words) => {
    while (!said.some((line) => line.includes(words))) {
      if (child.exitCode !== null) throw new Error(`${program} ended before it said ${words}`);
      await new Promise((wait) => setTimeout(wait, 100));
    }
  };
  const end = () => new Promise((ended) => {
    if (child.exitCode !== null) return ended();
    child.removeAllListeners("exit");
    child.on("exit", ended);
    child.stdin.end();
    child.kill("SIGINT");
  });
  return found.then((found) => ({ found, says, end }), (error) => { throw error; });
}

export const startWorld = () =>
  start(join(TARGET, "debug/examples/console_world"), [join(TARGET, "console-world")], (line) => line.startsWith("{") && JSON.parse(line), "stdout");

export const startDemo = (pace) =>
  start(join(TARGET, "debug/windlass"), ["demo", "--console", "--pace", pace],
    (line) => line.match(/Look at it: (\S+)/)?.[1], "stderr");

// A page whose errors are kept, whoever says them.
export async function open(browser, { theme = "light", width = 1024, scripts = true } = {}) {
  const context = await browser.newContext({
    colorScheme: theme, viewport: { width, height: 900 }, javaScriptEnabled: scripts, reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.wrong = [];
  page.on("console", (said) => ["error", "warning"].includes(said.type()) && page.wrong.push(`console: ${said.text()}`));
  page.on("pageerror", (error) => page.wrong.push(`script: ${error.message}`));
  page.on("dialog", (dialog) => { page.wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.hostname !== "127.0.0.1") page.wrong.push(`asked elsewhere: ${url}`);
  });
  if (scripts) {
    await page.addInitScript(() => {
      window.refusals = [];
      document.addEventListener("securitypolicyviolation", (event) =>
        window.refusals.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
  }
  return page;
}

// Goes to a page; what is wrong with it.
export async function look(page, url, expected = 200) {
  page.wrong.length = 0;
  const answer = await page.goto(url, { waitUntil: "load" });
  const wrong = [];
  if (answer.status() !== expected) wrong.push(`status ${answer.status()}`);
  const seen = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    refusals: window.refusals ?? [],
    headings: document.querySelectorAll("h1").length,
    title: document.title,
  }));
  if (seen.wide > 0) wrong.push(`${seen.wide} pixels wider than the window`);
  if (seen.headings !== 1 || !seen.title) wrong.push(`${seen.headings} headings, title "${seen.title}"`);
  wrong.push(...seen.refusals.map((refusal) => `policy: ${refusal}`));
  // That a page is not there is an error to the browser, and what was asked for.
  wrong.push(...page.wrong.filter((said) => expected === 200 || !said.includes(String(expected))));
  return wrong;
}

export async function axe(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((violation) =>
    `${violation.id}: ${violation.help}: ${violation.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`);
}

// The links of a page, in order, each once.
export const links = (page) =>
  page.$$eval("a[href]", (found) => [...new Set(found.map((link) => link.href.split("#")[0]))]);

// One page of each kind: parts, filters, one operation of each kind and state, one decision of each slot, all clusters.
export async function pages(base) {
  const get = async (path) => {
    const answer = await fetch(base + path);
    return { status: answer.status, text: await answer.text() };
  };
  const found = (text, pattern) => [...text.matchAll(pattern)].map((match) => match[1].replaceAll("&amp;", "&"));
  const all = new Set(["/", "/operations", "/decisions", "/policies", "/clusters"]);
  for (const part of ["/operations", "/decisions"]) {
    const { text } = await get(part);
    for (const link of found(text, new RegExp(`href="(${part}\\?[^"]*)"`, "g"))) all.add(link);
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
    for (const link of found((await get(`/decisions/${id}`)).text, /href="(\/decisions\/[^"?]+\?policy=[^"#]*)/g)) all.add(link);
  }
  for (const link of found((await get("/clusters")).text, /href="(\/clusters\/[^"]+)"/g)) all.add(link);
  return [...all];
}
