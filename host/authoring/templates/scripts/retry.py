"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Answer, FailureClass, Question, Verdict_Wait

# The settings that an operator can give, as JSON Schema; `wait_ms` here is `wait-ms` in a configuration.
SETTINGS = {
    "wait_ms": {"type": "integer", "minimum": 0, "default": 60000, "description": "Milliseconds between two attempts."},
}


def decide(question: Question, settings: dict) -> Optional[Answer]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    if question.failure.class_ == FailureClass.OUT_OF_STOCK:
        return Answer(Verdict_Wait(settings["wait_ms"]), "stock may come back")
    return None
