// Reads a page again when something has changed. Pages work without it.
"use strict";

let due = false;
let reading = false;

function isTyping() {
  return document.activeElement?.closest("main form") != null;
}

async function readAgain() {
  // What somebody reads or types in is not pulled away; it is due when they look again.
  if (document.hidden || reading || isTyping()) {
    due = true;
    return;
  }
  reading = true;
  due = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const before = document.querySelector("main");
    const after = page.querySelector("main");
    if (!after || before.innerHTML === after.innerHTML) return;
    const open = [...before.querySelectorAll("details")].map((details) => details.open);
    after.querySelectorAll("details").forEach((details, position) => (details.open = open[position] ?? false));
    const focused = [...before.querySelectorAll("a, summary, [tabindex]")].indexOf(document.activeElement);
    before.replaceWith(after);
    if (focused >= 0) after.querySelectorAll("a, summary, [tabindex]")[focused]?.focus({ preventScroll: true });
  } finally {
    reading = false;
    if (due && !document.hidden) setTimeout(readAgain, 250);
  }
}

const changes = new EventSource("/changes");
changes.addEventListener("changed", readAgain);
document.addEventListener("visibilitychange", () => due && readAgain());
// The next element has the focus only afterwards.
document.addEventListener("focusout", () => due && setTimeout(readAgain, 0));
