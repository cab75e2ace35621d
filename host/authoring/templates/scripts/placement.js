// A policy for the slot `@SLOT@`. @SUMMARY@

/** The settings that an operator can give, as JSON Schema. */
export const settings = {
  failures: {
    type: "integer",
    minimum: 1,
    default: 3,
    description: "After so many failed creations in a row a place comes last.",
  },
};

/**
 * Returns nothing where the next policy is to decide, at last the built-in default.
 *
 * @param {import("./windlass").Question} question
 * @param {{ failures: number }} settings
 * @returns {import("./windlass").Answer | undefined}
 */
export function decide(question, settings) {
  const places = question.places.map((place, position) => ({
    position,
    zone: place.zone,
    fails: place.failures >= settings.failures,
    mayBeTried: place.backoffUntil === undefined || place.backoffUntil <= question.now,
  }));
  const order = places.filter((place) => place.mayBeTried);
  if (question.wanted === 0 || !order.some((place) => place.fails)) return undefined;
  order.sort((one, other) => Number(one.fails) - Number(other.fails));
  // A creation is in one zone, and may try several types there.
  const inItsZone = order.filter((place) => place.zone === order[0].zone).map((place) => place.position);
  return {
    verdict: { tag: "place", val: [{ count: question.wanted, places: inItsZone }] },
    reason: "what keeps failing comes last",
  };
}
