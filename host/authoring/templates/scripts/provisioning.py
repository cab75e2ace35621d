"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Answer, ClusterState, FailureClass, Question, Recovery, Verdict_Recover

# The settings that an operator can give, as JSON Schema; `also_timed_out` here is `also-timed-out` in a configuration.
SETTINGS = {
    "also_timed_out": {
        "type": "boolean",
        "default": True,
        "description": "Whether nodes stay after a hook that did not end in time, too.",
    },
}


def decide(question: Question, settings: dict) -> Optional[Answer]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    cause = question.cause.class_
    timed_out = cause == FailureClass.HOOK_TIMED_OUT and settings["also_timed_out"]
    if cause == FailureClass.HOOK_FAILED or timed_out:
        return Answer(Verdict_Recover(Recovery(ClusterState.ERROR, [])), "a hook failed: its nodes stay")
    return None
