// A walk through all pages of the console in Chromium: as people see them, without scripts, by keyboard, and with texts
// that want to be more than text.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { join } from "node:path";
import { PICTURES, THEMES, WIDTHS, axe, browse, links, look, open } from "./browser.mjs";
import { pages, startDemo, startWorld } from "./console.mjs";

let browser, world, demo, good, hostile, all;

before(async () => {
  // All have an end, so that what has started is ended although another one did not start.
  const started = await Promise.allSettled([browse(), startWorld(), startDemo("8")]);
  [browser, world, demo] = started.map((one) => one.value);
  for (const { reason } of started) if (reason) throw reason;
  good = world.found.world;
  hostile = world.found.hostile;
  all = await pages(good);
});

after(async () => {
  await browser?.close();
  await Promise.all([world?.end(), demo?.end()]);
});

const named = (path) => path.replace(/^\//, "").replace(/[^a-z0-9]+/gi, "-").replace(/-$/, "") || "now";
// Of pages of one kind one picture is enough.
const kindOf = (path) =>
  named(path.replace(/^\/(operations|decisions)\/[^?]*/, "/one-$1").replace(/(before|policy)=.*/, "$1"));

test("the world has pages of every kind", () => {
  const count = (pattern) => all.filter((path) => pattern.test(path)).length;
  assert.ok(count(/^\/operations\/./) >= 5, all.join(" "));
  assert.ok(count(/^\/operations\?state=/) === 7 && count(/^\/operations\?before=/) === 1, all.join(" "));
  assert.ok(count(/^\/decisions\/[^?]+$/) >= 4 && count(/^\/decisions\/.*\?policy=/) >= 4, all.join(" "));
  assert.equal(count(/^\/clusters\/./), 2, all.join(" "));
});

for (const theme of THEMES) {
  test(`no page overflows, complains or breaks the policy in ${theme} colours, and axe finds nothing`, async () => {
    const wrong = [];
    const pictured = new Set();
    for (const width of WIDTHS) {
      const page = await open(browser, { theme, width });
      for (const path of all) {
        for (const problem of await look(page, good + path)) wrong.push(`${path} ${width}: ${problem}`);
        if (width === 1024) for (const problem of await axe(page)) wrong.push(`${path}: ${problem}`);
        const picture = `${kindOf(path)}-${theme}-${width}.png`;
        if (pictured.has(picture)) continue;
        pictured.add(picture);
        await page.screenshot({ path: join(PICTURES, picture), fullPage: true, clip: undefined });
      }
      await page.context().close();
    }
    assert.deepEqual(wrong, []);
  });
}

test("a page that is not there says so and is as sound as the others", async () => {
  for (const theme of THEMES) {
    const page = await open(browser, { theme });
    for (const path of ["/operations/ci-000000000000", "/decisions/nope", "/clusters/none", "/nope"]) {
      assert.deepEqual(await look(page, good + path, 404), [], path);
      assert.deepEqual(await axe(page), [], path);
    }
    await page.context().close();
  }
});

test("each page tells what it is there for", async () => {
  const page = await open(browser);
  const says = async (path, ...expected) => {
    await page.goto(good + path);
    const text = (await page.textContent("main")).replace(/\s+/g, " ");
    for (const words of expected) assert.match(text, words, `${path}: ${words}`);
  };
  await says("/",
    /\d+ ?servers/, /1 ?Macs/, /0\.\d{4} € ?an hour, by the catalogue, 1 without a price/, /3 ?unexplained/,
    /removing by web-/,
    /creating/, /“the runner no longer wants it”/, /the server of operation web-\w+ is gone/, /M4-S/, /7 stopped/);
  await says("/policies",
    /suspended/, /not replaced/, /shadow/, /5 brake/, /12\.5 %/, /refused/, /replaced/,
    /in the place of patience\.rules\.toml/, /19 of 20 within/);
  await says("/clusters/farm",
    /started: 2/, /A termination/, /removes farm-web-1, farm-web-2/, /runs the decommission hook/, /drained/);
  await says("/clusters/broken", /it cannot reach the registry/, /exit code 7/);
  const left = all.find((path) => path.startsWith("/operations?state=left"));
  await page.goto(good + left);
  await says(new URL(await page.getAttribute("main td a.id", "href"), good).pathname,
    /again after/, /given up/, /How it is undone/, /What became of it/, /left/, /the credentials are not allowed/);
  // The picture of the docs.
  for (const theme of THEMES) {
    const pictured = await open(browser, { theme });
    await pictured.goto(page.url());
    await pictured.screenshot({ path: join(PICTURES, `picture-${theme}.png`) });
    await pictured.context().close();
  }
  const [retry] = all.filter((path) => /^\/decisions\/[^?]+$/.test(path));
  await says(retry,
    /Question/, /Asked, in order/, /What the host did/, /Ask another policy/, /Around it, of the same slot/);
  await page.context().close();
});

test("every link of every page answers", async () => {
  const page = await open(browser);
  const to = new Map();
  for (const path of all) {
    await page.goto(good + path);
    for (const link of await links(page)) if (!to.has(link)) to.set(link, path);
    // A link within a page leads to something on it.
    const dangling = await page.$$eval("a[href*='#']", (found) => found
      .filter((link) => link.pathname === location.pathname && !document.getElementById(link.hash.slice(1)))
      .map((link) => link.getAttribute("href")));
    assert.deepEqual(dangling, [], path);
  }
  await page.context().close();
  assert.ok(to.size > 300, `${to.size} links`);
  const dead = [];
  const queue = [...to.keys()];
  await Promise.all(Array.from({ length: 4 }, async () => {
    for (let link = queue.pop(); link; link = queue.pop()) {
      const answer = await fetch(link);
      await answer.arrayBuffer();
      if (answer.status !== 200) dead.push(`${link} on ${to.get(link)}: ${answer.status}`);
    }
  }));
  assert.deepEqual(dead, []);
});

test("without scripts every page says the same", async () => {
  const [plain, live] = [await open(browser, { scripts: false }), await open(browser)];
  // Ages grow between two looks, and get another unit.
  const words = async (page) =>
    (await page.textContent("main")).replace(/(\d+(\.\d+)? ?(ms|s|min|h|d)\s*)+/g, "").replace(/\s+/g, " ");
  for (const path of all) {
    assert.deepEqual(await look(plain, good + path), [], path);
    await live.goto(good + path);
    if (!path.includes("policy=")) assert.equal(await words(plain), await words(live), path);
  }
  // From the first page to a decision that is put to another policy, by links alone.
  await plain.goto(good);
  await plain.click("nav >> text=Decisions");
  await plain.click("main td a.id >> nth=0");
  await plain.click(".choices a >> nth=0");
  assert.match(await plain.textContent("#put-to ~ h3"), /rules\.toml/);
  await plain.context().close();
  await live.context().close();
});

test("everything is reached by keyboard, in the order in which it stands, with the focus in sight", async () => {
  const page = await open(browser);
  const at = () => page.evaluate(() => {
    const of = document.activeElement;
    const all = [...document.querySelectorAll("a[href], input, button, summary, [tabindex]")];
    const focusable = all.filter((one) => one.checkVisibility());
    const box = of.getBoundingClientRect();
    const style = getComputedStyle(of);
    return {
      position: focusable.indexOf(of), of: focusable.length, text: (of.textContent || of.ariaLabel).slice(0, 60),
      outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
      inSight: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    };
  });
  const kinds = new Map(all.map((path) => [kindOf(path), path]));
  const ones = ["one-operations", "one-decisions", "one-decisions-policy"].map((kind) => kinds.get(kind));
  for (const path of ["/", "/policies", ...ones, "/clusters/farm"]) {
    await page.goto(good + path);
    await page.keyboard.press("Tab");
    const first = await at();
    assert.match(first.text, /Skip to the content/, path);
    assert.ok(first.inSight, `${path}: the skip link is out of sight`);
    for (let step = 0; step < Math.min(first.of, 60); step += 1) {
      const here = await at();
      assert.equal(here.position, step, `${path}: ${here.text}`);
      assert.ok(here.outlined && here.inSight, `${path}: the focus is not in sight on ${here.text}`);
      await page.keyboard.press("Tab");
    }
  }
  // The skip link leads past the header, and Enter opens what can be opened.
  await page.goto(good + kinds.get("one-operations"));
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.querySelector("main").contains(document.activeElement)));
  await page.focus("summary");
  await page.keyboard.press("Enter");
  assert.ok(await page.evaluate(() => document.querySelector("details").open));
  await page.focus("nav a[href='/clusters']");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/clusters");
  await page.context().close();
});

test("a decision that is put to another policy shows the difference", async () => {
  const page = await open(browser);
  // Of each slot one decision is among the pages: each is put to both.
  const put = all.filter((path) => /^\/decisions\/[^?]+$/.test(path))
    .flatMap((path) => ["reap-all", "broken"].map((policy) => `${path}?policy=${policy}.rules.toml`));
  const seen = [];
  for (const path of put) {
    await page.goto(good + path);
    seen.push((await page.textContent("section[aria-labelledby=put-to]")).replace(/\s+/g, " "));
  }
  const some = (...words) => seen.some((text) => words.every((word) => text.includes(word)));
  assert.ok(some("another answer") || some("the brake"), seen.join("\n"));
  assert.ok(some("This policy cannot be asked", "did you mean"), seen.join("\n"));
  await page.goto(`${good}${put[0].split("?")[0]}?policy=..%2Fpatience.rules.toml`);
  assert.match(await page.textContent("main"), /there is no policy file/);
  await page.context().close();
});

test("text from outside never becomes markup", async () => {
  const page = await open(browser);
  const paths = await pages(hostile);
  const marks = new Set();
  for (let older = "/operations", count = 0; older && count < 6; count += 1) {
    paths.push(older);
    const text = await (await fetch(hostile + older)).text();
    older = text.match(/href="(\/operations\?before=[^"]*)"/)?.[1]?.replaceAll("&amp;", "&");
  }
  for (const path of paths) {
    const wrong = await look(page, hostile + path);
    assert.deepEqual(wrong, [], path);
    const seen = await page.evaluate(() => {
      const tags = new Set([
        "html", "head", "meta", "title", "link", "script", "body", "a", "header", "p", "nav", "main", "h1", "h2",
        "h3", "h4", "ul", "ol", "li", "section", "div", "table", "thead", "tbody", "tr", "th", "td", "span", "time",
        "dl", "dt", "dd", "details", "summary", "pre", "code", "strong", "svg", "rect", "line", "g", "text", "meter",
        "form", "input", "label", "button", "figure", "figcaption", "desc", "path"
      ]);
      const attributes = new Set([
        "lang", "charset", "name", "content", "rel", "href", "type", "src", "defer", "class", "id", "title",
        "aria-label", "aria-labelledby", "aria-current", "aria-hidden", "role", "tabindex", "scope", "datetime",
        "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "rx", "focusable", "min", "max", "value",
        "action", "method", "maxlength", "placeholder", "preserveAspectRatio", "d"
      ]);
      const strange = [];
      for (const element of document.querySelectorAll("*")) {
        if (!tags.has(element.localName)) strange.push(`<${element.localName}>`);
        for (const { name, value } of element.attributes) {
          if (!attributes.has(name)) strange.push(`${element.localName} ${name}`);
          if ((name === "href" || name === "src") && !/^[/#]/.test(value)) strange.push(`${name}=${value}`);
        }
      }
      const scripts = [...document.scripts].map((script) => script.getAttribute("src") + script.textContent);
      const marks = document.documentElement.outerHTML.match(/q7z\d{5}/g) ?? [];
      return { strange, scripts, ran: window.q7z ?? null, marks };
    });
    assert.deepEqual(seen.strange, [], path);
    assert.deepEqual([seen.scripts, seen.ran], [["/assets/live.js"], null], path);
    seen.marks.forEach((mark) => marks.add(mark));
  }
  assert.ok(marks.size >= 1000, `${marks.size} of ${world.found.hostile_texts} texts were on the pages`);
  await page.context().close();
});

test("a page of the demo follows what happens, and every page of it is sound", async () => {
  const page = await open(browser);
  // The script's own changes are looked at, not those of a page that is loaded again.
  await page.goto(demo.found);
  await page.evaluate(() => (window.sameDocument = true));
  const figures = () => page.$$eval(".figures strong", (found) => found.map((one) => one.textContent).join());
  await demo.says("The console stays open");
  const isIdle = () => document.querySelector("main")?.textContent.includes("No operations are open");
  await page.waitForFunction(isIdle, undefined);
  assert.ok(await page.evaluate(() => window.sameDocument), "the page was loaded again");
  assert.match(await figures(), /^0,0,0/);
  for (const theme of THEMES) {
    const themed = await open(browser, { theme, width: 360 });
    for (const path of await pages(demo.found)) {
      assert.deepEqual(await look(themed, demo.found + path), [], path);
      assert.deepEqual(await axe(themed), [], path);
    }
    await themed.context().close();
  }
  await page.context().close();
});
