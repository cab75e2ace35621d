// The browser, and what every page is held to.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const TARGET = process.env.WINDLASS_TARGET;
export const PICTURES = join(TARGET, "browser");
export const WIDTHS = [360, 1024, 1920];
export const THEMES = ["light", "dark"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

mkdirSync(PICTURES, { recursive: true });

export const BROWSER = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
  (path) => path && existsSync(path),
);

// Long enough for a busy machine.
const PATIENCE = 180_000;

export const browse = () =>
  chromium.launch({
    executablePath: BROWSER,
    timeout: PATIENCE,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    ],
  });

// A page whose errors are kept, whoever says them.
export async function open(browser, { theme = "light", width = 1024, scripts = true } = {}) {
  const context = await browser.newContext({
    colorScheme: theme, viewport: { width, height: 900 }, javaScriptEnabled: scripts, reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.wrong = [];
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) page.wrong.push(`console: ${said.text()}`);
  });
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
  return found.violations.map(({ id, help, nodes }) => {
    const where = nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ");
    return `${id}: ${help}: ${where}`;
  });
}

// The links of a page, in order, each once.
export const links = (page) =>
  page.$$eval("a[href]", (found) => [...new Set(found.map((link) => link.href.split("#")[0]))]);
