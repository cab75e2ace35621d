import { create, type MessageInitShape as Init } from "@bufbuild/protobuf";

import { BuiltInError, DeferredError, MalformedError, ServerError } from "./errors.js";
import * as p from "./policyv1/index.js";
import { Pool, type CallOptions } from "./pool.js";

/** Options of a client. */
export interface ClientOptions {
  /** The longest that a call takes, in milliseconds: more than 0, at most 2,147,483,647. Default 2,000. */
  timeout?: number;
  /** The most connections, and so the most calls at the same time; further ones wait for their turn. Default 8. */
  connections?: number;
  /** The largest response that is read, in bytes. Default 8 MiB, which no honest server exceeds. */
  maxResponseBytes?: number;
  /**
   * Whether the server's built-in default counts as no decision, so that the caller's own default applies where no
   * policy that somebody configured decides.
   */
  ownDefaults?: boolean;
}

/** An answer, and where it comes from. */
export interface Decision<A> {
  answer: A;
  /** For people; never to be parsed. */
  reason: string;
  /** Under which it is in the server's decision log. Empty where the caller's own default applies. */
  id: string;
  /** The policy that decided. Undefined where the caller's own default applies, or the server's last resort. */
  decidedBy?: p.Policy;
  /** Policies that failed before. */
  fallbacks: p.Fallback[];
  /**
   * Why the caller's own default applies: a WindlassError, an error of Node.js with a `code`, or why the call's signal
   * was aborted. Undefined where the server decided.
   */
  error?: Error;
}

/** False for an answer that decides nothing. */
function decides(answer: { verdict?: { verdict: { case: string | undefined } } }): boolean {
  const verdict = answer.verdict?.verdict.case;
  return verdict !== undefined && verdict !== "defer";
}

/**
 * Policies are asked for decisions: those in force at the time, or those of a pin.
 *
 * `own` gives the caller's own default. A question that is no such message rejects, and so does a timeout that is out
 * of range; nothing else does.
 */
export class Policies {
  readonly #pool: Pool;
  readonly #ownDefaults: boolean;
  readonly #pin: Uint8Array<ArrayBuffer>;

  /** @internal */
  constructor(pool: Pool, ownDefaults: boolean, pin: Uint8Array) {
    this.#pool = pool;
    this.#ownDefaults = ownDefaults;
    this.#pin = new Uint8Array(pin);
  }

  /**
   * Asks many questions in one call, of any slots, all under the same policies. There is one outcome for each, in their
   * order; a caller has to look into each whether it is a decision. Rejects where there is no response.
   */
  async decide(questions: Init<typeof p.QuestionSchema>[], options: CallOptions = {}): Promise<p.Outcome[]> {
    const value = create(p.DecideSchema, { pin: this.#pin, questions });
    const { result } = await this.#pool.call(this.#pool.encode({ case: "decide", value }, options));
    return outcomesOf(result, questions.length);
  }

  /** Asks what to report about each server, and what to do. There is one answer for each server. */
  async stateMapping(
    question: Init<typeof p.StateMappingQuestionSchema>,
    own: () => Init<typeof p.StateMappingAnswerSchema>[],
    options: CallOptions = {},
  ): Promise<Decision<p.StateMappingAnswer[]>> {
    const value = create(p.StateMappingQuestionSchema, question);
    return this.#ask(
      { case: "stateMapping", value },
      () => own().map((answer) => create(p.StateMappingAnswerSchema, answer)),
      ({ slot }) => {
        if (slot.case !== "stateMapping" || slot.value.answers.length !== value.servers.length) return undefined;
        return slot.value.answers.every(decides) ? slot.value.answers : undefined;
      },
      options,
    );
  }

  /** Asks whether a failed step is tried again, and when. */
  async retry(
    question: Init<typeof p.RetryQuestionSchema>,
    own: () => Init<typeof p.RetryAnswerSchema>,
    options: CallOptions = {},
  ): Promise<Decision<p.RetryAnswer>> {
    const value = create(p.RetryQuestionSchema, question);
    return this.#ask(
      { case: "retry", value },
      () => create(p.RetryAnswerSchema, own()),
      ({ slot }) => (slot.case === "retry" && decides(slot.value) ? slot.value : undefined),
      options,
    );
  }

  /** Asks what is undone after a failure, in which order, and what is kept. */
  async rollback(
    question: Init<typeof p.RollbackQuestionSchema>,
    own: () => Init<typeof p.RollbackAnswerSchema>,
    options: CallOptions = {},
  ): Promise<Decision<p.RollbackAnswer>> {
    const value = create(p.RollbackQuestionSchema, question);
    return this.#ask(
      { case: "rollback", value },
      () => create(p.RollbackAnswerSchema, own()),
      ({ slot }) => (slot.case === "rollback" && decides(slot.value) ? slot.value : undefined),
      options,
    );
  }

  /** Asks what becomes of a machine that its owner no longer wants. */
  async release(
    question: Init<typeof p.ReleaseQuestionSchema>,
    own: () => Init<typeof p.ReleaseAnswerSchema>,
    options: CallOptions = {},
  ): Promise<Decision<p.ReleaseAnswer>> {
    const value = create(p.ReleaseQuestionSchema, question);
    return this.#ask(
      { case: "release", value },
      () => create(p.ReleaseAnswerSchema, own()),
      ({ slot }) => (slot.case === "release" && decides(slot.value) ? slot.value : undefined),
      options,
    );
  }

  /** Asks how a cluster recovers when one of its operations failed. */
  async provisioning(
    question: Init<typeof p.ProvisioningQuestionSchema>,
    own: () => Init<typeof p.ProvisioningAnswerSchema>,
    options: CallOptions = {},
  ): Promise<Decision<p.ProvisioningAnswer>> {
    const value = create(p.ProvisioningQuestionSchema, question);
    return this.#ask(
      { case: "provisioning", value },
      () => create(p.ProvisioningAnswerSchema, own()),
      ({ slot }) => (slot.case === "provisioning" && decides(slot.value) ? slot.value : undefined),
      options,
    );
  }

  /** Asks in which zone, and of which type, servers are created next. */
  async placement(
    question: Init<typeof p.PlacementQuestionSchema>,
    own: () => Init<typeof p.PlacementAnswerSchema>,
    options: CallOptions = {},
  ): Promise<Decision<p.PlacementAnswer>> {
    const value = create(p.PlacementQuestionSchema, question);
    return this.#ask(
      { case: "placement", value },
      () => create(p.PlacementAnswerSchema, own()),
      ({ slot }) => (slot.case === "placement" && decides(slot.value) ? slot.value : undefined),
      options,
    );
  }

  async #ask<A>(
    slot: p.Question["slot"],
    own: () => A,
    take: (answer: p.Answer) => A | undefined,
    options: CallOptions,
  ): Promise<Decision<A>> {
    const questions = [create(p.QuestionSchema, { slot })];
    const value = create(p.DecideSchema, { pin: this.#pin, questions });
    const request = this.#pool.encode({ case: "decide", value }, options);
    try {
      const { result } = await this.#pool.call(request);
      const decision = this.#decisionOf(outcomesOf(result, 1)[0]!);
      const answer = decision.answer && take(decision.answer);
      if (answer === undefined) throw new DeferredError();
      const { id, reason = "", fallbacks, decidedBy } = decision;
      return { answer, reason, id, fallbacks, ...(decidedBy.case === "policy" && { decidedBy: decidedBy.value }) };
    } catch (error) {
      return { answer: own(), reason: "", id: "", fallbacks: [], error: error as Error };
    }
  }

  #decisionOf({ outcome }: p.Outcome): p.Decision {
    if (outcome.case === "error") throw new ServerError(outcome.value.code, outcome.value.message);
    if (outcome.case === undefined) throw new MalformedError("neither a decision nor an error");
    const { decidedBy } = outcome.value;
    if (this.#ownDefaults && (decidedBy.case === "keep" || decidedBy.value?.builtIn)) throw new BuiltInError();
    return outcome.value;
  }
}

function outcomesOf(result: p.Response["result"], questions: number): p.Outcome[] {
  const outcomes = result.case === "outcomes" ? result.value.outcomes : [];
  if (outcomes.length !== questions) throw new MalformedError(`${outcomes.length} outcomes of ${questions} questions`);
  return outcomes;
}

/** Asks one server. It connects when it is first asked, and again whenever that is needed. */
export class Client extends Policies {
  readonly #pool: Pool;
  readonly #ownDefaults: boolean;

  constructor(path: string, options: ClientOptions = {}) {
    const { timeout = 2_000, connections = 8, maxResponseBytes = 8 << 20, ownDefaults = false } = options;
    const pool = new Pool(path, timeout, connections, maxResponseBytes);
    super(pool, ownDefaults, new Uint8Array());
    this.#pool = pool;
    this.#ownDefaults = ownDefaults;
  }

  /**
   * Ends the connections, that of a call under way when the call ends. Every later call ends with ClosedError, and so
   * with the caller's own default.
   */
  close(): void {
    this.#pool.close();
  }

  /**
   * The policies that are in force now, to be asked by all questions of one operation. The token is to be stored with
   * the operation, if that may outlive this process; it holds across restarts of the server as well. Rejects where
   * there is no response.
   */
  async pin(options: CallOptions = {}): Promise<p.Pin> {
    const { result } = await this.#pool.call(this.#pool.encode({ case: "pin", value: {} }, options));
    if (result.case !== "pin" || result.value.token.length === 0) throw new MalformedError("no pin");
    return result.value;
  }

  /** The policies of a pin. Those in force are asked where the token is empty. */
  pinned(token: Uint8Array): Policies {
    return new Policies(this.#pool, this.#ownDefaults, token);
  }

  /** Which policies are in force and how they are doing. Rejects where there is no response. */
  async status(options: CallOptions = {}): Promise<p.Status> {
    const { result } = await this.#pool.call(this.#pool.encode({ case: "status", value: {} }, options));
    if (result.case !== "status") throw new MalformedError("no status");
    return result.value;
  }
}
