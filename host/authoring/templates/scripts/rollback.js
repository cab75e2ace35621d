// A policy for the slot `@SLOT@`. @SUMMARY@

/** The settings that an operator can give, as JSON Schema; `keepAfter` here is `keep-after` in a configuration. */
export const settings = {
  keepAfter: {
    type: "string",
    default: "other",
    description: "The class of failure after which everything stays, to be looked at.",
  },
};

/**
 * Returns nothing where the next policy is to decide, at last the built-in default.
 *
 * @param {import("./windlass").Question} question
 * @param {{ keepAfter: string }} settings
 * @returns {import("./windlass").Answer | undefined}
 */
export function decide(question, settings) {
  if (question.cause?.class !== settings.keepAfter) return undefined;
  /** @type {import("./windlass").Step[]} */
  const plan = question.resources.map((_, position) => ({ resource: position, action: "keep", after: [] }));
  return { verdict: { tag: "plan", val: plan }, reason: "kept, to be looked at" };
}
