import type { Error_Code } from "./policyv1/index.js";

/**
 * Why the caller's own default applies, beside what the network says (an Error of Node.js with a `code`) and why a
 * signal was aborted.
 */
export class WindlassError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No policy decides. */
export class DeferredError extends WindlassError {
  constructor() {
    super("no policy decides");
  }
}

/** Only the server's built-in default decides, and the client has `ownDefaults`. */
export class BuiltInError extends WindlassError {
  constructor() {
    super("no configured policy decides");
  }
}

/** The server answered what makes no sense. */
export class MalformedError extends WindlassError {
  constructor(what: string, cause?: unknown) {
    super(`malformed response: ${what}`, { cause });
  }
}

/** The client was closed. */
export class ClosedError extends WindlassError {
  constructor() {
    super("the client is closed");
  }
}

/** The call timed out. */
export class TimeoutError extends WindlassError {
  constructor() {
    super("the call timed out");
  }
}

/** What the server says instead of an answer. */
export class ServerError extends WindlassError {
  constructor(
    readonly code: Error_Code,
    message: string,
  ) {
    super(`policy server: ${message}`);
  }
}
