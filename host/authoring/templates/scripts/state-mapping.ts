// A policy for the slot `@SLOT@`. @SUMMARY@

import type { Answer, Question } from "./windlass";

/** The settings that an operator can give, as JSON Schema; `graceMs` here is `grace-ms` in a configuration. */
export const settings = {
  graceMs: {
    type: "integer",
    minimum: 0,
    default: 600000,
    description: "The time in which somebody may look into a server that stopped after it ran, in milliseconds.",
  },
};

/** Returns nothing where the next policy is to decide, at last the built-in default. */
export function decide(question: Question, settings: { graceMs: number }): Array<Answer | undefined> | undefined {
  return question.servers.map((server): Answer | undefined => {
    const stopped = server.state === "stopped" && server.hasRun && server.inFlight === "none";
    if (stopped && server.stateAge < settings.graceMs) {
      // An autoscaler gives no work to what is being created, and keeps its place.
      return {
        verdict: { tag: "mapped", val: { report: "creating", action: "none" } },
        reason: "stopped; somebody may look into it",
      };
    }
  });
}
