"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Answer, Assignment, Question, Verdict_Place

# The settings that an operator can give, as JSON Schema.
SETTINGS = {
    "failures": {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "After so many failed creations in a row a place comes last.",
    },
}


def decide(question: Question, settings: dict) -> Optional[Answer]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    places = list(enumerate(question.places))
    order = [(position, place) for position, place in places
             if place.backoff_until is None or place.backoff_until <= question.now]
    if question.wanted == 0 or not any(place.failures >= settings["failures"] for _, place in order):
        return None
    order.sort(key=lambda entry: entry[1].failures >= settings["failures"])
    # A creation is in one zone, and may try several types there.
    in_its_zone = [position for position, place in order if place.zone == order[0][1].zone]
    return Answer(Verdict_Place([Assignment(question.wanted, in_its_zone)]), "what keeps failing comes last")
