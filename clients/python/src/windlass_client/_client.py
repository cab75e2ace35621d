"""Questions and decisions. What both clients do is written once, in `Asking`; each has its own way to wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar, Union

from google.protobuf.empty_pb2 import Empty

from windlass_client import policyv1 as p
from windlass_client._errors import BuiltInError, DeferredError, MalformedError, ServerError, WindlassError
from windlass_client._pool import Pool, Tasks, Threads, now

A = TypeVar("A")
#: Gives the caller's own default.
Own = Callable[[], A]
SlotAnswer = TypeVar(
    "SlotAnswer",
    p.StateMappingAnswer,
    p.RetryAnswer,
    p.RollbackAnswer,
    p.ReleaseAnswer,
    p.ProvisioningAnswer,
    p.PlacementAnswer,
)


@dataclass(frozen=True)
class Decision(Generic[A]):
    """An answer, and where it comes from."""

    answer: A
    #: For people; never to be parsed.
    reason: str = ""
    #: Under which it is in the server's decision log. Empty where the caller's own default applies.
    id: str = ""
    #: The policy that decided. None where the caller's own default applies, or the server's last resort.
    decided_by: Optional[p.Policy] = None
    #: Policies that failed before.
    fallbacks: Sequence[p.Fallback] = ()
    #: Why the caller's own default applies: a WindlassError, or an OSError (TimeoutError is one). None where the server
    #: decided.
    error: Optional[Union[WindlassError, OSError]] = None


def decided(answer: SlotAnswer) -> Optional[SlotAnswer]:
    """None for an answer that decides nothing, or is of another slot."""
    return None if answer.verdict.WhichOneof("verdict") in (None, "defer") else answer


def mapped(question: p.StateMappingQuestion) -> Callable[[p.Answer], Optional[Sequence[p.StateMappingAnswer]]]:
    def take(answer: p.Answer) -> Optional[Sequence[p.StateMappingAnswer]]:
        answers = answer.state_mapping.answers
        is_whole = len(answers) == len(question.servers) and all(decided(answer) for answer in answers)
        return answers if is_whole else None

    return take


class Asking:
    """What is asked, and what counts as an answer."""

    def __init__(self, pool: Pool, own_defaults: bool, pin: bytes) -> None:
        self._pool = pool
        self._own_defaults = own_defaults
        self._pin = pin

    async def _decide(self, questions: Sequence[p.Question], timeout: Optional[float]) -> list[p.Outcome]:
        call = p.Decide(pin=self._pin, questions=questions)
        response = await self._pool.call(p.Request(decide=call), timeout)
        outcomes = list(response.outcomes.outcomes)
        if len(outcomes) != len(questions):
            raise MalformedError(f"{len(outcomes)} outcomes of {len(questions)} questions")
        return outcomes

    async def _pin_of(self, timeout: Optional[float]) -> p.Pin:
        response = await self._pool.call(p.Request(pin=Empty()), timeout)
        if not response.pin.token:
            raise MalformedError("no pin")
        return response.pin

    async def _status_of(self, timeout: Optional[float]) -> p.Status:
        response = await self._pool.call(p.Request(status=Empty()), timeout)
        if not response.HasField("status"):
            raise MalformedError("no status")
        return response.status

    async def _one(self, question: p.Question, timeout: Optional[float]) -> p.Decision:
        (outcome,) = await self._decide([question], timeout)
        if outcome.HasField("error"):
            raise ServerError(outcome.error.code, outcome.error.message)
        if not outcome.HasField("decision"):
            raise MalformedError("neither a decision nor an error")
        decision = outcome.decision
        if self._own_defaults and (decision.HasField("keep") or decision.policy.built_in):
            raise BuiltInError
        return decision

    async def _ask(
        self,
        question: p.Question,
        own: Own[A],
        take: Callable[[p.Answer], Optional[A]],
        timeout: Optional[float],
    ) -> Decision[A]:
        try:
            decision = await self._one(question, timeout)
            answer = take(decision.answer)
            if answer is None:
                raise DeferredError
        except (WindlassError, OSError) as error:
            return Decision(own(), error=error)
        policy = decision.policy if decision.HasField("policy") else None
        return Decision(answer, decision.reason, decision.id, policy, list(decision.fallbacks))


class Policies(Asking):
    """Policies are asked for decisions: those in force at the time, or those of a pin.

    `own` gives the caller's own default. `timeout` shortens that of the client for one call, in seconds. One that is
    not greater than 0 and at most 2,000,000 raises ValueError.
    """

    def decide(self, questions: Sequence[p.Question], *, timeout: Optional[float] = None) -> list[p.Outcome]:
        """Asks many questions in one call, of any slots, all under the same policies.

        There is one outcome for each, in their order; a caller has to look into each whether it is a decision. Raises
        a WindlassError or an OSError where there is no response.
        """
        return now(self._decide(questions, timeout))

    def state_mapping(
        self,
        question: p.StateMappingQuestion,
        own: Own[Sequence[p.StateMappingAnswer]],
        *,
        timeout: Optional[float] = None,
    ) -> Decision[Sequence[p.StateMappingAnswer]]:
        """Asks what to report about each server, and what to do. There is one answer for each server."""
        return now(self._ask(p.Question(state_mapping=question), own, mapped(question), timeout))

    def retry(
        self, question: p.RetryQuestion, own: Own[p.RetryAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.RetryAnswer]:
        """Asks whether a failed step is tried again, and when."""
        return now(self._ask(p.Question(retry=question), own, lambda a: decided(a.retry), timeout))

    def rollback(
        self, question: p.RollbackQuestion, own: Own[p.RollbackAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.RollbackAnswer]:
        """Asks what is undone after a failure, in which order, and what is kept."""
        return now(self._ask(p.Question(rollback=question), own, lambda a: decided(a.rollback), timeout))

    def release(
        self, question: p.ReleaseQuestion, own: Own[p.ReleaseAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.ReleaseAnswer]:
        """Asks what becomes of a machine that its owner no longer wants."""
        return now(self._ask(p.Question(release=question), own, lambda a: decided(a.release), timeout))

    def provisioning(
        self, question: p.ProvisioningQuestion, own: Own[p.ProvisioningAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.ProvisioningAnswer]:
        """Asks how a cluster recovers when one of its operations failed."""
        return now(self._ask(p.Question(provisioning=question), own, lambda a: decided(a.provisioning), timeout))

    def placement(
        self, question: p.PlacementQuestion, own: Own[p.PlacementAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.PlacementAnswer]:
        """Asks in which zone, and of which type, servers are created next."""
        return now(self._ask(p.Question(placement=question), own, lambda a: decided(a.placement), timeout))


class Client(Policies):
    """Asks one server. It connects when it is first asked, and again whenever that is needed. It may be used by many
    threads at the same time.

    timeout: the longest that a call takes, in seconds: more than 0, at most 2,000,000.
    connections: the most connections, and so the most calls at the same time; further ones wait for their turn.
    max_response_bytes: the largest response that is read. No honest server exceeds the default.
    own_defaults: whether the server's built-in default counts as no decision, so that the caller's own default applies
        where no policy that somebody configured decides.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        timeout: float = 2.0,
        connections: int = 8,
        max_response_bytes: int = 8 << 20,
        own_defaults: bool = False,
    ) -> None:
        super().__init__(Pool(path, timeout, connections, max_response_bytes, Threads()), own_defaults, b"")

    def close(self) -> None:
        """Ends the connections, that of a call under way when the call ends.

        Every later call ends with ClosedError, and so with the caller's own default.
        """
        self._pool.close()

    def pin(self, *, timeout: Optional[float] = None) -> p.Pin:
        """The policies that are in force now, to be asked by all questions of one operation.

        The token is to be stored with the operation, if that may outlive this process; it holds across restarts of the
        server as well. Raises a WindlassError or an OSError where there is no response.
        """
        return now(self._pin_of(timeout))

    def pinned(self, token: bytes) -> Policies:
        """The policies of a pin. Those in force are asked where the token is empty."""
        return Policies(self._pool, self._own_defaults, token)

    def status(self, *, timeout: Optional[float] = None) -> p.Status:
        """Which policies are in force and how they are doing.

        Raises a WindlassError or an OSError where there is no response.
        """
        return now(self._status_of(timeout))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncPolicies(Asking):
    """Policies are asked for decisions: those in force at the time, or those of a pin.

    `own` gives the caller's own default. `timeout` shortens that of the client for one call, in seconds. One that is
    not greater than 0 and at most 2,000,000 raises ValueError.
    """

    async def decide(self, questions: Sequence[p.Question], *, timeout: Optional[float] = None) -> list[p.Outcome]:
        """Asks many questions in one call, of any slots, all under the same policies.

        There is one outcome for each, in their order; a caller has to look into each whether it is a decision. Raises
        a WindlassError or an OSError where there is no response.
        """
        return await self._decide(questions, timeout)

    async def state_mapping(
        self,
        question: p.StateMappingQuestion,
        own: Own[Sequence[p.StateMappingAnswer]],
        *,
        timeout: Optional[float] = None,
    ) -> Decision[Sequence[p.StateMappingAnswer]]:
        """Asks what to report about each server, and what to do. There is one answer for each server."""
        return await self._ask(p.Question(state_mapping=question), own, mapped(question), timeout)

    async def retry(
        self, question: p.RetryQuestion, own: Own[p.RetryAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.RetryAnswer]:
        """Asks whether a failed step is tried again, and when."""
        return await self._ask(p.Question(retry=question), own, lambda a: decided(a.retry), timeout)

    async def rollback(
        self, question: p.RollbackQuestion, own: Own[p.RollbackAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.RollbackAnswer]:
        """Asks what is undone after a failure, in which order, and what is kept."""
        return await self._ask(p.Question(rollback=question), own, lambda a: decided(a.rollback), timeout)

    async def release(
        self, question: p.ReleaseQuestion, own: Own[p.ReleaseAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.ReleaseAnswer]:
        """Asks what becomes of a machine that its owner no longer wants."""
        return await self._ask(p.Question(release=question), own, lambda a: decided(a.release), timeout)

    async def provisioning(
        self, question: p.ProvisioningQuestion, own: Own[p.ProvisioningAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.ProvisioningAnswer]:
        """Asks how a cluster recovers when one of its operations failed."""
        return await self._ask(p.Question(provisioning=question), own, lambda a: decided(a.provisioning), timeout)

    async def placement(
        self, question: p.PlacementQuestion, own: Own[p.PlacementAnswer], *, timeout: Optional[float] = None
    ) -> Decision[p.PlacementAnswer]:
        """Asks in which zone, and of which type, servers are created next."""
        return await self._ask(p.Question(placement=question), own, lambda a: decided(a.placement), timeout)


class AsyncClient(AsyncPolicies):
    """Asks one server, with asyncio. It connects when it is first asked, and again whenever that is needed. It may be
    used by many tasks at the same time, of one event loop at a time.

    A task that is cancelled while it waits gets no decision: it is cancelled.

    timeout: the longest that a call takes, in seconds: more than 0, at most 2,000,000.
    connections: the most connections, and so the most calls at the same time; further ones wait for their turn.
    max_response_bytes: the largest response that is read. No honest server exceeds the default.
    own_defaults: whether the server's built-in default counts as no decision, so that the caller's own default applies
        where no policy that somebody configured decides.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        timeout: float = 2.0,
        connections: int = 8,
        max_response_bytes: int = 8 << 20,
        own_defaults: bool = False,
    ) -> None:
        super().__init__(Pool(path, timeout, connections, max_response_bytes, Tasks()), own_defaults, b"")

    def close(self) -> None:
        """Ends the connections, that of a call under way when the call ends.

        Every later call ends with ClosedError, and so with the caller's own default.
        """
        self._pool.close()

    async def pin(self, *, timeout: Optional[float] = None) -> p.Pin:
        """The policies that are in force now, to be asked by all questions of one operation.

        The token is to be stored with the operation, if that may outlive this process; it holds across restarts of the
        server as well. Raises a WindlassError or an OSError where there is no response.
        """
        return await self._pin_of(timeout)

    def pinned(self, token: bytes) -> AsyncPolicies:
        """The policies of a pin. Those in force are asked where the token is empty."""
        return AsyncPolicies(self._pool, self._own_defaults, token)

    async def status(self, *, timeout: Optional[float] = None) -> p.Status:
        """Which policies are in force and how they are doing.

        Raises a WindlassError or an OSError where there is no response.
        """
        return await self._status_of(timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()
