// A policy for the slot `@SLOT@`. @SUMMARY@

/** The settings that an operator can give, as JSON Schema; `graceMs` here is `grace-ms` in a configuration. */
export const settings = {
  graceMs: {
    type: "integer",
    minimum: 0,
    default: 600000,
    description: "The time in which somebody may look into a server that stopped after it ran, in milliseconds.",
  },
};

/**
 * Returns nothing where the next policy is to decide, at last the built-in default.
 *
 * @param {import("./windlass").Question} question
 * @param {{ graceMs: number }} settings
 * @returns {Array<import("./windlass").Answer | undefined> | undefined}
 */
export function decide(question, settings) {
  return question.servers.map((server) => {
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
