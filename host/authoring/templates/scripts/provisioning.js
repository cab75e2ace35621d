// A policy for the slot `@SLOT@`. @SUMMARY@

/** The settings that an operator can give, as JSON Schema; `alsoTimedOut` is `also-timed-out` in a configuration. */
export const settings = {
  alsoTimedOut: {
    type: "boolean",
    default: true,
    description: "Whether nodes stay after a hook that did not end in time, too.",
  },
};

/**
 * Returns nothing where the next policy is to decide, at last the built-in default.
 *
 * @param {import("./windlass").Question} question
 * @param {{ alsoTimedOut: boolean }} settings
 * @returns {import("./windlass").Answer | undefined}
 */
export function decide(question, settings) {
  const cause = question.cause.class;
  if (cause === "hook-failed" || (cause === "hook-timed-out" && settings.alsoTimedOut)) {
    return { verdict: { tag: "recover", val: { state: "error", delete: [] } }, reason: "a hook failed: its nodes stay" };
  }
}
