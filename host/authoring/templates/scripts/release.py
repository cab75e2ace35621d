"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Answer, Question, Trigger, Verdict_Keep

# The settings that an operator can give, as JSON Schema.
SETTINGS = {
    "failures": {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "After so many set-ups that failed, a machine is kept, to be looked at.",
    },
}


def decide(question: Question, settings: dict) -> Optional[Answer]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    failed = question.trigger == Trigger.BOOTSTRAP_FAILED
    if failed and question.machine.bootstrap_failures >= settings["failures"]:
        return Answer(Verdict_Keep(), "its set-up fails again and again; somebody should look")
    return None
