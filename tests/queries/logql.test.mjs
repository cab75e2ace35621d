// The LogQL of docs/telemetry.md, by the grammar of Loki's own editor: that it is LogQL, and asks for what log records
// have. What it answers is not tested, since that needs Loki.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { parser } from "@grafana/lezer-logql";

const page = readFileSync(new URL("../../docs/telemetry.md", import.meta.url), "utf8");
const queries = [...page.matchAll(/^```logql\n(.*?)^```/gms)].map(([, query]) => query);

// The nodes of a query that hold no others: [kind, text].
function leaves(query) {
  const found = [];
  parser.parse(query).iterate({
    enter({ type, node, from, to }) {
      if (type.isError || !node.firstChild) found.push([type.isError ? "error" : type.name, query.slice(from, to)]);
    },
  });
  return found;
}

test("the queries are LogQL", () => {
  assert.equal(queries.length, 1);
  for (const query of queries) {
    assert.deepEqual(leaves(query).filter(([kind]) => kind === "error"), [], query);
    // A grammar that takes anything proves nothing.
    assert.ok(leaves(query.replace("[7d]", "")).some(([kind]) => kind === "error"));
  }
});

test("the queries ask for attributes of the page's lists, as Loki writes them", () => {
  const attributes = [...page.matchAll(/`((?:windlass|cloud|error)(?:\.[a-z_]+)+)`/g)].map(([, name]) => name);
  const labels = new Set(["service_name", ...attributes.map((name) => name.replaceAll(".", "_"))]);
  assert.ok(labels.has("windlass_decision_policy") && labels.has("error_message"));
  for (const query of queries) {
    const asked = leaves(query).filter(([kind]) => kind === "Identifier").map(([, name]) => name);
    assert.ok(asked.length > 4, query);
    assert.deepEqual(asked.filter((name) => !labels.has(name)), []);
  }
});
