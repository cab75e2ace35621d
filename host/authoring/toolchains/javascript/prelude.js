// Runs before a policy's own source. What could differ from one run to the next is taken away: a decision depends on
// its question alone.
const refuse = (what, remedy) => () => {
  throw new Error(`${what} is not available in a policy: ${remedy}`);
};
const TIME = "the time is `question.now`, in milliseconds since 1970";
const RANDOM = "the question brings a random number, `question.random`";
const WAITING = "a decision can't wait; it answers at once";

const ExactDate = Date;
const now = refuse("the time of the machine", TIME);
globalThis.Date = new Proxy(ExactDate, {
  apply: now,
  construct: (target, given, self) => (given.length === 0 ? now() : Reflect.construct(target, given, self)),
});
ExactDate.prototype.constructor = globalThis.Date;
ExactDate.now = now;
Math.random = refuse("Math.random()", RANDOM);
if (globalThis.performance) globalThis.performance.now = refuse("performance.now()", TIME);
if (globalThis.crypto) {
  for (const name of ["getRandomValues", "randomUUID"]) {
    Object.defineProperty(globalThis.crypto, name, { value: refuse(`crypto.${name}()`, RANDOM) });
  }
}
for (const name of ["setTimeout", "setInterval", "queueMicrotask", "fetch"]) {
  globalThis[name] = refuse(`${name}()`, WAITING);
}
