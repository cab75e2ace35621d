// A policy for the slot `@SLOT@`. @SUMMARY@

/** The settings that an operator can give, as JSON Schema; `waitMs` here is `wait-ms` in a configuration. */
export const settings = {
  waitMs: { type: "integer", minimum: 0, default: 60000, description: "Milliseconds between two attempts." },
};

/**
 * Returns nothing where the next policy is to decide, at last the built-in default.
 *
 * @param {import("./windlass").Question} question
 * @param {{ waitMs: number }} settings
 * @returns {import("./windlass").Answer | undefined}
 */
export function decide(question, settings) {
  if (question.failure.class === "out-of-stock") {
    return { verdict: { tag: "wait", val: settings.waitMs }, reason: "stock may come back" };
  }
}
