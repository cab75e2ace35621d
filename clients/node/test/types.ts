// What TypeScript makes of the client; nobody runs it.
import { Client, policyv1, ServerError } from "windlass-client";

const client = new Client("policy.sock", { timeout: 250, ownDefaults: true });
const giveUp = () => ({ verdict: { verdict: { case: "giveUp" as const, value: {} } } });

const decision = await client.retry({ attempt: 1, now: 1n }, giveUp, { signal: AbortSignal.timeout(1) });
const answer: policyv1.RetryAnswer = decision.answer;
if (answer.verdict?.verdict.case === "wait") answer.verdict.verdict.value satisfies bigint;
if (decision.error instanceof ServerError) decision.error.code satisfies policyv1.Error_Code;
(await client.stateMapping({ servers: [{}] }, () => [])).answer satisfies policyv1.StateMappingAnswer[];
(await client.pinned((await client.pin()).token).decide([{}])) satisfies policyv1.Outcome[];

// @ts-expect-error: the caller's own default is of the same slot.
await client.retry({}, () => ({ verdict: { verdict: { case: "terminate" as const, value: {} } } }));
// @ts-expect-error: a number is no bigint.
await client.retry({ now: 1 }, giveUp);
// @ts-expect-error: a pin is asked through `pinned`.
await client.retry({}, giveUp, { pin: new Uint8Array() });
