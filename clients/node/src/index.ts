/**
 * Asks policies of Windlass for decisions, over the Unix socket of `windlass policy serve`.
 *
 * A question always gets an answer, within the time that it may take: where the server is dead, slow, overloaded or
 * answers what makes no sense, that is the caller's own default, and `error` of the decision says why. Nothing in here
 * waits longer than the timeouts and the call's signal allow.
 */
export { Client, Policies, type ClientOptions, type Decision } from "./client.js";
export * from "./errors.js";
export * as policyv1 from "./policyv1/index.js";
export type { CallOptions } from "./pool.js";
