// The pages of the site in Chromium: whole at three widths in both schemes, found by search, and nothing asked
// elsewhere.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { extname, join } from "node:path";
import { PICTURES, TARGET, THEMES, browse, open } from "./browser.mjs";

const SITE = join(TARGET, "site");
const WIDTHS = [360, 820, 1440];
// One of each kind of content: pictures, a long table, code, generated references.
const PICTURED = ["index", "gitlab-runner", "commands", "slots", "kubernetes-reference", "performance"];
const TYPES = {
  ".html": "text/html", ".js": "text/javascript", ".css": "text/css",
  ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2",
};
const names = readdirSync(SITE).filter((name) => name.endsWith(".html") && name !== "404.html" && name !== "toc.html");

let browser, server, base;

before(async () => {
  mkdirSync(join(PICTURES, "site"), { recursive: true });
  server = createServer((request, answer) => {
    const asked = decodeURIComponent(new URL(request.url, "http://127.0.0.1").pathname);
    const path = asked.endsWith("/") ? `${asked}index.html` : asked;
    try {
      const file = readFileSync(join(SITE, path));
      answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(file);
    } catch {
      answer.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  base = `http://127.0.0.1:${server.address().port}`;
  browser = await browse();
});

after(async () => {
  await browser?.close();
  server?.close();
});

for (const theme of THEMES) {
  test(`no page is wider than the window, lacks a picture or asks elsewhere in ${theme} colours`, async () => {
    const wrong = [];
    assert.ok(names.length > 40, `${names.length} pages`);
    for (const width of WIDTHS) {
      const page = await open(browser, { theme, width });
      for (const name of names) {
        page.wrong.length = 0;
        await page.goto(`${base}/${name}`, { waitUntil: "load" });
        const seen = await page.evaluate(() => {
          const shown = [...document.images].filter((image) => image.getClientRects().length > 0);
          const main = document.querySelector("main");
          // Tables and code scroll in a box of their own. Text is measured itself: its paragraph is as wide as the
          // page.
          const loose = [];
          const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
          const range = document.createRange();
          while (texts.nextNode()) {
            const text = texts.currentNode;
            if (!text.data.trim() || text.parentElement.closest(".table-wrapper, pre")) continue;
            range.selectNodeContents(text);
            if (range.getBoundingClientRect().right > window.innerWidth + 1) loose.push(text.data.slice(0, 60));
          }
          const isLoose = (image) => image.getBoundingClientRect().right > window.innerWidth + 1;
          loose.push(...shown.filter(isLoose).map((image) => image.src));
          return {
            wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            missing: shown.filter((image) => image.naturalWidth === 0).map((image) => image.src),
            loose: loose.slice(0, 3),
            headings: main.querySelectorAll("h1").length,
            colors: document.documentElement.classList.contains("navy") ? "dark" : "light",
          };
        });
        const at = `${name} ${width}`;
        if (seen.wide > 0) wrong.push(`${at}: ${seen.wide} pixels wider than the window`);
        if (seen.colors !== theme) wrong.push(`${at}: ${seen.colors} colours`);
        if (seen.headings !== 1) wrong.push(`${at}: ${seen.headings} headings`);
        wrong.push(...seen.missing.map((image) => `${at}: ${image} is not shown`));
        wrong.push(...seen.loose.map((text) => `${at}: beyond the window: ${text}`));
        wrong.push(...page.wrong.map((said) => `${at}: ${said}`));
        if (PICTURED.includes(name.replace(".html", ""))) {
          await page.screenshot({ path: join(PICTURES, "site", `${name.replace(".html", "")}-${theme}-${width}.png`) });
        }
      }
      await page.context().close();
    }
    assert.deepEqual(wrong, []);
  });
}

test("a word is searched and leads to its page", async () => {
  const page = await open(browser);
  await page.goto(base);
  await page.keyboard.press("s");
  await page.locator("#mdbook-searchbar").pressSequentially("remediation");
  const found = page.locator("#mdbook-searchresults a");
  await found.first().waitFor();
  const targets = await found.evaluateAll((links) => links.map((link) => link.getAttribute("href")));
  assert.ok(targets.some((target) => target.includes("kubernetes")), targets.join(" "));
  await found.first().click();
  await page.waitForLoadState();
  assert.match((await page.textContent("main")).toLowerCase(), /remediation/);
  await page.context().close();
});

test("a reader on a phone opens the list of pages and goes to one", async () => {
  const page = await open(browser, { width: 360 });
  await page.goto(base);
  await page.click("#mdbook-sidebar-toggle");
  const link = page.locator(".chapter a", { hasText: "Exit codes" }).first();
  await link.scrollIntoViewIfNeeded();
  await link.click();
  await page.waitForURL(/exit-codes\.html/);
  assert.match(await page.textContent("main h1"), /Exit codes/);
  await page.context().close();
});
