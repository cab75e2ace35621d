// A policy for the slot `@SLOT@`. @SUMMARY@

import type { Answer, Question } from "./windlass";

/** The settings that an operator can give, as JSON Schema. */
export const settings = {
  failures: {
    type: "integer",
    minimum: 1,
    default: 3,
    description: "After so many set-ups that failed, a machine is kept, to be looked at.",
  },
};

/** Returns nothing where the next policy is to decide, at last the built-in default. */
export function decide(question: Question, settings: { failures: number }): Answer | undefined {
  if (question.trigger === "bootstrap-failed" && question.machine.bootstrapFailures >= settings.failures) {
    return { verdict: { tag: "keep" }, reason: "its set-up fails again and again; somebody should look" };
  }
}
