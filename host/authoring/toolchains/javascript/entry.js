// Joins a policy to the contract: settings in, questions in, answers out. A policy that throws, or whose answer has
// another shape, has failed: the host hears why and asks the next one.
import "./prelude.js";
import { write } from "windlass:policy/log@@VERSION@";
import * as script from "../policy/@SOURCE@";

const DESCRIPTION = @DESCRIPTION@;
/** The shape of the answer, as the contract has it. */
const ANSWER = @ANSWER@;
const LENGTH_OF = @BATCH@;

// Kept from before the policy runs, which may change what these names mean.
const { isArray } = Array;
const { isSafeInteger, isInteger } = Number;
const { hasOwn, keys, entries, fromEntries } = Object;
const { parse, stringify } = JSON;

if (typeof script.decide !== "function") throw new Error("@SOURCE@ exports no function `decide`");

let settings = {};
let deciding = false;

/** Writes a line into the host's log, while a question is being decided. */
const log = (level) => (...values) => {
  if (!deciding) return;
  write(level, values.map((value) => (typeof value === "string" ? value : text(value))).join(" "));
};
const text = (value) => {
  if (value instanceof Error) return String(value);
  return stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner)) ?? String(value);
};
const console = { debug: log("debug"), log: log("info"), info: log("info"), warn: log("warn"), error: log("error") };
globalThis.console = console;

const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
const properties = script.settings ?? {};

/** A whole number that a double can't hold stays whole. */
const exact = (_, value, context) =>
  typeof value === "number" && isInteger(value) && !isSafeInteger(value) && context?.source
    ? BigInt(context.source)
    : value;
const schemaText = () => {
  const named = fromEntries(entries(properties).map(([name, schema]) => [kebab(name), schema]));
  return stringify({ type: "object", properties: named, additionalProperties: false }, (_, value) =>
    typeof value === "bigint" ? JSON.rawJSON(`${value}`) : value,
  );
};

/** What was thrown, in words, with the place of it in the policy's source. */
const thrown = (error) => {
  let words = "a value that can't be described";
  let place = "";
  try {
    words = error instanceof Error ? `${error.name}: ${error.message}` : `thrown: ${text(error)}`;
    place = (/policy\/([^\s()]+?:\d+(?::\d+)?)/.exec(String(error?.stack ?? "")) ?? [])[1] ?? "";
  } catch {
    // Whatever was thrown defends itself against being looked at.
  }
  return place === "" ? words : `${place}: ${words}`;
};

const INTEGERS = { u8: 0xffn, u16: 0xffffn, u32: 0xffffffffn, u64: 0xffffffffffffffffn };
const wrong = (place, expected, value) => new TypeError(`${place}: expected ${expected}, found ${text(value)}`);

/** The value as the contract has it, or an error that says what is wrong where. */
function checked(shape, value, place) {
  if (typeof shape === "string") {
    if (shape === "string" || shape === "boolean") {
      if (typeof value !== shape) throw wrong(place, `a ${shape}`, value);
      return value;
    }
    const whole = typeof value === "bigint" || isSafeInteger(value) ? BigInt(value) : -1n;
    if (whole < 0n || whole > INTEGERS[shape]) throw wrong(place, `a whole number from 0 to ${INTEGERS[shape]}`, value);
    return shape === "u64" ? whole : Number(whole);
  }
  if (shape.option) return value === undefined || value === null ? undefined : checked(shape.option, value, place);
  if (shape.list) {
    if (!isArray(value)) throw wrong(place, "an array", value);
    const items = [];
    for (let index = 0; index < value.length; index++) {
      items[index] = checked(shape.list, value[index], `${place}[${index}]`);
    }
    return items;
  }
  if (shape.enum) {
    for (const word of shape.enum) if (word === value) return value;
    throw wrong(place, `one of ${shape.enum.join(", ")}`, value);
  }
  if (typeof value !== "object" || value === null) throw wrong(place, "an object", value);
  if (shape.variant) {
    const { tag, val } = value;
    if (typeof tag !== "string" || !hasOwn(shape.variant, tag)) {
      throw wrong(`${place}.tag`, `one of ${keys(shape.variant).join(", ")}`, tag);
    }
    const payload = shape.variant[tag];
    return payload === null ? { tag } : { tag, val: checked(payload, val, `${place}.val`) };
  }
  const record = {};
  for (const name of keys(shape.record)) record[name] = checked(shape.record[name], value[name], `${place}.${name}`);
  for (const name of keys(value)) {
    if (!hasOwn(shape.record, name)) {
      throw new TypeError(`${place}: unknown key \`${name}\`; the keys are ${keys(shape.record).join(", ")}`);
    }
  }
  return record;
}

const DEFER = { verdict: { tag: "defer" }, reason: undefined };
/** No answer at all leaves the question to the next policy. */
const orDefer = (answer) => (answer === undefined || answer === null ? DEFER : answer);

/** The answer to a question, or to each item of a batch. */
function answered(question) {
  const answer = script.decide(question, settings);
  if (LENGTH_OF === null) return checked(ANSWER, orDefer(answer), "answer");
  if (answer === undefined || answer === null) return question[LENGTH_OF].map(() => DEFER);
  if (!isArray(answer)) throw wrong("answer", `an array with one answer for each of question.${LENGTH_OF}`, answer);
  const answers = [];
  for (let index = 0; index < answer.length; index++) {
    answers[index] = checked(ANSWER, orDefer(answer[index]), `answer[${index}]`);
  }
  return answers;
}

export const policy = {
  describe: () => ({ ...DESCRIPTION, settingsSchema: schemaText() }),
  configure(given) {
    const values = parse(given, exact);
    settings = {};
    for (const [name, schema] of entries(properties)) settings[name] = values[kebab(name)] ?? schema.default;
    try {
      script.configure?.(settings);
    } catch (error) {
      throw thrown(error);
    }
  },
};

export const @SLOT@ = {
  decide(question) {
    deciding = true;
    try {
      return answered(question);
    } catch (error) {
      // The last error that is logged is the host's reason for the failure.
      write("error", thrown(error));
      throw error;
    }
  },
};
