"""A policy for the slot `@SLOT@`. @SUMMARY@"""

from typing import Optional

from windlass import Action, Answer, Mapping, Operation, Question, Report, Server, ServerState, Verdict_Mapped

# The settings that an operator can give, as JSON Schema; `grace_ms` here is `grace-ms` in a configuration.
SETTINGS = {
    "grace_ms": {
        "type": "integer",
        "minimum": 0,
        "default": 600000,
        "description": "The time in which somebody may look into a server that stopped after it ran, in milliseconds.",
    },
}


def decide(question: Question, settings: dict) -> list[Optional[Answer]]:
    """Returns None where the next policy is to decide, at last the built-in default."""
    return [decide_server(server, settings) for server in question.servers]


def decide_server(server: Server, settings: dict) -> Optional[Answer]:
    stopped = server.state == ServerState.STOPPED and server.has_run and server.in_flight == Operation.NONE
    if stopped and server.state_age < settings["grace_ms"]:
        # An autoscaler gives no work to what is being created, and keeps its place.
        mapping = Mapping(Report.CREATING, Action.NONE)
        return Answer(Verdict_Mapped(mapping), "stopped; somebody may look into it")
    return None
