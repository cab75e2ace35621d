"""Asks policies of Windlass for decisions, over the Unix socket of `windlass policy serve`.

A question always gets an answer, within the time that it may take: where the server is dead, slow, overloaded or
answers what makes no sense, that is the caller's own default, and `Decision.error` says why. `Client` blocks its
thread, `AsyncClient` suspends its task; nothing in here waits longer than the timeouts allow.
"""

from windlass_client._client import AsyncClient, AsyncPolicies, Client, Decision, Policies
from windlass_client._errors import (
    BuiltInError,
    ClosedError,
    DeferredError,
    MalformedError,
    ServerError,
    WindlassError,
)

__all__ = [
    "AsyncClient",
    "AsyncPolicies",
    "BuiltInError",
    "Client",
    "ClosedError",
    "Decision",
    "DeferredError",
    "MalformedError",
    "Policies",
    "ServerError",
    "WindlassError",
]
