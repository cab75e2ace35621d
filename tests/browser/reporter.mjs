// One line for each test, what failed in full, and the sum that `tests/run` reads.
export default async function* reporter(source) {
  let [passed, failed, skipped] = [0, 0, 0];
  for await (const event of source) {
    if (event.type === "test:pass" && typeof event.data.skip === "string") {
      skipped += 1;
      yield `SKIPPED: ${event.data.skip}\n`;
    } else if (event.type === "test:pass" && event.data.skip === undefined && event.data.details?.type !== "suite") {
      passed += 1;
      yield `ok ${event.data.name} (${Math.round(event.data.details.duration_ms / 1000)} s)\n`;
    } else if (event.type === "test:fail" && event.data.details?.type !== "suite") {
      failed += 1;
      const error = event.data.details.error;
      yield `FAILED ${event.data.name}\n${error?.cause?.stack ?? error?.message ?? error}\n`;
      const actual = error?.cause?.actual;
      if (Array.isArray(actual)) yield `${actual.slice(0, 40).join("\n")}\n`;
    } else if (event.type === "test:stderr" || event.type === "test:stdout") {
      yield event.data.message;
    }
  }
  yield `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`;
}
