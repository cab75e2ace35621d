import { Socket } from "node:net";

import { MalformedError } from "./errors.js";

/**
 * The bytes before each message: its length, the most significant byte first.
 *
 * @internal
 */
export const LENGTH_BYTES = 4;

interface Waiting {
  resolve(message: Uint8Array): void;
  reject(error: Error): void;
}

/**
 * A server that refuses answers without having read: what it says counts more than that it reads no further. So a write
 * that fails for that is no error; the end of what can be read is.
 */
class Listening extends Socket {
  override _write(chunk: Buffer, encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    super._write(chunk, encoding, (error) => callback(isGone(error) ? undefined : error));
  }
}

/**
 * One connection, used by one call at a time. It stays open until it ends by itself, an error, or `destroy`.
 *
 * @internal
 */
export class Connection {
  isOpen = true;
  readonly #socket: Socket;
  readonly #largest: number;
  #waiting: Waiting | undefined;
  // Memory for a response is taken as it comes, whatever length was announced, and however small the pieces are.
  #bytes = Buffer.alloc(0);
  #received = 0;
  #expected = LENGTH_BYTES;

  constructor(path: string, largest: number, onEnd: (connection: Connection) => void) {
    this.#largest = largest;
    this.#socket = new Listening();
    this.#socket.on("data", (chunk) => this.#take(chunk));
    this.#socket.on("error", (error) => this.#end(error));
    this.#socket.on("end", () => this.#end(this.#received > 0 ? lost() : gone()));
    this.#socket.on("close", () => {
      this.#end(gone());
      onEnd(this);
    });
    this.#socket.connect({ path });
  }

  /** Sends a frame, and calls back with the message that comes for it. */
  exchange(frame: Uint8Array, waiting: Waiting): void {
    if (!this.isOpen) return waiting.reject(gone());
    this.#waiting = waiting;
    this.#socket.ref();
    this.#socket.write(frame);
  }

  destroy(): void {
    this.#end(gone());
  }

  #take(chunk: Buffer): void {
    // Nobody asked.
    if (this.#waiting === undefined) return this.destroy();
    if (this.#received + chunk.length > this.#bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#received + chunk.length));
      this.#bytes.copy(grown, 0, 0, this.#received);
      this.#bytes = grown;
    }
    this.#bytes.set(chunk, this.#received);
    this.#received += chunk.length;
    if (this.#expected === LENGTH_BYTES && this.#received >= LENGTH_BYTES) {
      const length = this.#bytes.readUInt32BE();
      if (length > this.#largest) {
        const what = `its length, ${length} bytes, exceeds maxResponseBytes (${this.#largest})`;
        return this.#end(new MalformedError(what));
      }
      this.#expected += length;
    }
    if (this.#received > this.#expected) return this.#end(new MalformedError("unexpected bytes after the response"));
    if (this.#received < this.#expected) return;
    const message = this.#bytes.subarray(LENGTH_BYTES, this.#expected);
    const waiting = this.#waiting;
    this.#rest();
    waiting.resolve(message);
  }

  /** Whoever forgets to close a client is not kept from ending. */
  #rest(): void {
    this.#waiting = undefined;
    this.#bytes = Buffer.alloc(0);
    this.#received = 0;
    this.#expected = LENGTH_BYTES;
    this.#socket.unref();
  }

  #end(error: Error): void {
    const waiting = this.#waiting;
    this.isOpen = false;
    this.#rest();
    this.#socket.destroy();
    waiting?.reject(error);
  }
}

function gone(): Error {
  return Object.assign(new Error("the server closed the connection"), { code: "ECONNRESET" });
}

function lost(): Error {
  return Object.assign(new Error("the server closed the connection within a response"), { code: "ECONNABORTED" });
}

/**
 * Whether a connection was closed by the server before it took the request.
 *
 * @internal
 */
export function isGone(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code;
  return code === "ECONNRESET" || code === "EPIPE";
}
