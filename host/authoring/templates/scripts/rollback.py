"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Action, Answer, Question, Step, Verdict_Plan

# The settings that an operator can give, as JSON Schema; `keep_after` here is `keep-after` in a configuration.
SETTINGS = {
    "keep_after": {
        "type": "string",
        "default": "other",
        "description": "The class of failure after which everything stays, to be looked at.",
    },
}


def decide(question: Question, settings: dict) -> Optional[Answer]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    if question.cause is None or question.cause.class_.name != settings["keep_after"].replace("-", "_").upper():
        return None
    plan = [Step(position, Action.KEEP, []) for position in range(len(question.resources))]
    return Answer(Verdict_Plan(plan), "kept, to be looked at")
