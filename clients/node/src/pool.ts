import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";

import { Connection, isGone, LENGTH_BYTES } from "./connection.js";
import { ClosedError, MalformedError, ServerError, TimeoutError } from "./errors.js";
import { RequestSchema, ResponseSchema, type Response } from "./policyv1/index.js";

/** Bounds of one call. */
export interface CallOptions {
  /** Shortens the client's time for this call, in milliseconds: more than 0, at most 2,147,483,647. */
  timeout?: number;
  /** Calls it off. */
  signal?: AbortSignal;
}

/**
 * A request as it is sent, and the bounds of its call.
 *
 * @internal
 */
export interface Encoded {
  id: bigint;
  frame: Uint8Array;
  timeout: number;
  signal: AbortSignal | undefined;
}

// In milliseconds. A timer of Node.js with more ends at once.
const LONGEST_TIMEOUT = 2 ** 31 - 1;

// In bytes: what a length may say.
const LARGEST_RESPONSE = 2 ** 32 - 1;

/** When a call ends that has got no response: after its time, or when it is called off. */
class Bound {
  readonly #timer: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#end(reasonOf(this.#signal));
  #reason: Error | undefined;
  #onEnd: ((reason: Error) => void) | undefined;

  constructor(timeout: number, signal: AbortSignal | undefined) {
    this.#timer = setTimeout(() => this.#end(new TimeoutError()), timeout);
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (signal?.aborted) this.#onAbort();
  }

  /** What `begin` calls back with, unless the bound comes first: then `undo` is called. */
  until<T>(begin: (callback: { resolve(value: T): void; reject(error: Error): void }) => void, undo = () => {}) {
    return new Promise<T>((resolve, reject) => {
      if (this.#reason !== undefined) return reject(this.#reason);
      this.#onEnd = (reason) => {
        reject(reason);
        undo();
      };
      begin({ resolve, reject });
    });
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  #end(reason: Error): void {
    this.#reason ??= reason;
    this.#onEnd?.(this.#reason);
  }
}

function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new Error(`the call was aborted: ${String(reason)}`, { cause: reason });
}

interface Turn {
  resolve(connection: Connection | undefined): void;
  reject(error: Error): void;
}

/**
 * The connections to one server. Each is used by one call at a time.
 *
 * @internal
 */
export class Pool {
  readonly #path: string;
  readonly #timeout: number;
  readonly #largest: number;
  #last = 0n;
  #isClosed = false;
  // One entry for each connection that no call uses: undefined where it is not made. The last is taken first.
  #idle: (Connection | undefined)[];
  #turns: Turn[] = [];

  constructor(path: string, timeout: number, connections: number, largest: number) {
    if (!(Number.isInteger(connections) && connections > 0)) {
      throw new RangeError(`connections must be an integer of at least 1, not ${connections}`);
    }
    if (!(largest > 0 && largest <= LARGEST_RESPONSE)) {
      throw new RangeError(`maxResponseBytes must be from 1 to ${LARGEST_RESPONSE}, not ${largest}`);
    }
    this.#path = path;
    this.#timeout = checkedTimeout(timeout);
    this.#largest = largest;
    this.#idle = new Array<undefined>(connections).fill(undefined);
  }

  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle) connection?.destroy();
    for (const turn of this.#turns) turn.reject(new ClosedError());
    this.#idle = [];
    this.#turns = [];
  }

  /** Throws where the call is no such message, or its timeout is out of range. */
  encode(
    call: MessageInitShape<typeof RequestSchema>["call"],
    { timeout = this.#timeout, signal }: CallOptions,
  ): Encoded {
    const id = ++this.#last;
    const message = toBinary(RequestSchema, create(RequestSchema, { id, call }));
    const frame = Buffer.allocUnsafe(LENGTH_BYTES + message.length);
    frame.writeUInt32BE(message.length);
    frame.set(message, LENGTH_BYTES);
    return { id, frame, timeout: Math.min(checkedTimeout(timeout), this.#timeout), signal };
  }

  /**
   * Sends a request and reads its response. A connection that the server has closed meanwhile is made anew once:
   * decisions change nothing, so that asking twice does no harm.
   */
  async call({ id, frame, timeout, signal }: Encoded): Promise<Response> {
    const bound = new Bound(timeout, signal);
    try {
      const response = await this.#answered(bound, id, frame);
      const { result } = response;
      if (result.case === "error") throw new ServerError(result.value.code, result.value.message);
      return response;
    } finally {
      bound.release();
    }
  }

  async #answered(bound: Bound, id: bigint, frame: Uint8Array): Promise<Response> {
    let connection = await this.#take(bound);
    let isReused = connection !== undefined;
    try {
      // What came unasked closes it, and so does the server's end of it; neither is to be taken for the response.
      if (isReused) await polled();
      for (;;) {
        if (this.#isClosed) throw new ClosedError();
        connection ??= new Connection(this.#path, this.#largest, (ended) => this.#forget(ended));
        try {
          const used = connection;
          const message = await bound.until<Uint8Array>((callback) => used.exchange(frame, callback));
          const response = decoded(id, message);
          this.#put(connection);
          return response;
        } catch (error) {
          connection.destroy();
          if (!isReused || !isGone(error)) throw error;
        }
        connection = undefined;
        isReused = false;
      }
    } catch (error) {
      this.#put(undefined);
      throw error;
    }
  }

  #take(bound: Bound): Promise<Connection | undefined> {
    let turn: Turn | undefined;
    return bound.until<Connection | undefined>(
      (callback) => {
        if (this.#isClosed) return callback.reject(new ClosedError());
        if (this.#idle.length > 0) return callback.resolve(this.#idle.pop());
        turn = callback;
        this.#turns.push(turn);
      },
      () => {
        this.#turns = this.#turns.filter((other) => other !== turn);
      },
    );
  }

  #put(connection: Connection | undefined): void {
    const usable = connection?.isOpen ? connection : undefined;
    const turn = this.#turns.shift();
    if (this.#isClosed) connection?.destroy();
    else if (turn !== undefined) turn.resolve(usable);
    else if (usable === undefined) this.#idle.unshift(undefined);
    else this.#idle.push(usable);
  }

  /** One that ended while no call used it. */
  #forget(connection: Connection): void {
    const place = this.#idle.indexOf(connection);
    if (place < 0) return;
    this.#idle.splice(place, 1);
    this.#idle.unshift(undefined);
  }
}

function checkedTimeout(timeout: number): number {
  if (timeout > 0 && timeout <= LONGEST_TIMEOUT) return timeout;
  throw new RangeError(`timeout must be greater than 0 and at most ${LONGEST_TIMEOUT} milliseconds, not ${timeout}`);
}

/** Resolves when all sockets have been read that had something to read at the time of the call. */
function polled(): Promise<void> {
  // The first may come at the end of the turn of the event loop that has looked at the sockets before.
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

function decoded(id: bigint, message: Uint8Array): Response {
  let response: Response;
  try {
    response = fromBinary(ResponseSchema, message);
  } catch (error) {
    throw new MalformedError(error instanceof Error ? error.message : String(error), error);
  }
  // What is wrong with a request that can't be read, or with its sender, is told under no number.
  if (response.id !== id && !(response.id === 0n && response.result.case === "error")) {
    throw new MalformedError("a response to another request");
  }
  return response;
}
