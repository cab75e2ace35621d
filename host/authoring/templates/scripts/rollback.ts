// A policy for the slot `@SLOT@`. @SUMMARY@

import type { Answer, Question, Step } from "./windlass";

/** The settings that an operator can give, as JSON Schema; `keepAfter` here is `keep-after` in a configuration. */
export const settings = {
  keepAfter: {
    type: "string",
    default: "other",
    description: "The class of failure after which everything stays, to be looked at.",
  },
};

/** Returns nothing where the next policy is to decide, at last the built-in default. */
export function decide(question: Question, settings: { keepAfter: string }): Answer | undefined {
  if (question.cause?.class !== settings.keepAfter) return undefined;
  const plan: Step[] = question.resources.map((_, position) => ({ resource: position, action: "keep", after: [] }));
  return { verdict: { tag: "plan", val: plan }, reason: "kept, to be looked at" };
}
