from google.protobuf import empty_pb2 as _empty_pb2
from windlass_client.policyv1 import slots_pb2 as _slots_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Request(_message.Message):
    __slots__ = ("id", "decide", "pin", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    DECIDE_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: int
    decide: Decide
    pin: _empty_pb2.Empty
    status: _empty_pb2.Empty
    def __init__(self, id: _Optional[int] = ..., decide: _Optional[_Union[Decide, _Mapping]] = ..., pin: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., status: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("id", "error", "outcomes", "pin", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: Error
    outcomes: Outcomes
    pin: Pin
    status: Status
    def __init__(self, id: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., outcomes: _Optional[_Union[Outcomes, _Mapping]] = ..., pin: _Optional[_Union[Pin, _Mapping]] = ..., status: _Optional[_Union[Status, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CODE_UNSPECIFIED: _ClassVar[Error.Code]
        CODE_INVALID: _ClassVar[Error.Code]
        CODE_TOO_LARGE: _ClassVar[Error.Code]
        CODE_BUSY: _ClassVar[Error.Code]
        CODE_DENIED: _ClassVar[Error.Code]
        CODE_TIMEOUT: _ClassVar[Error.Code]
        CODE_INTERNAL: _ClassVar[Error.Code]
    CODE_UNSPECIFIED: Error.Code
    CODE_INVALID: Error.Code
    CODE_TOO_LARGE: Error.Code
    CODE_BUSY: Error.Code
    CODE_DENIED: Error.Code
    CODE_TIMEOUT: Error.Code
    CODE_INTERNAL: Error.Code
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: Error.Code
    message: str
    def __init__(self, code: _Optional[_Union[Error.Code, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Decide(_message.Message):
    __slots__ = ("pin", "questions")
    PIN_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    pin: bytes
    questions: _containers.RepeatedCompositeFieldContainer[Question]
    def __init__(self, pin: _Optional[bytes] = ..., questions: _Optional[_Iterable[_Union[Question, _Mapping]]] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("state_mapping", "retry", "rollback", "release", "provisioning", "placement")
    STATE_MAPPING_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROVISIONING_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    state_mapping: _slots_pb2.StateMappingQuestion
    retry: _slots_pb2.RetryQuestion
    rollback: _slots_pb2.RollbackQuestion
    release: _slots_pb2.ReleaseQuestion
    provisioning: _slots_pb2.ProvisioningQuestion
    placement: _slots_pb2.PlacementQuestion
    def __init__(self, state_mapping: _Optional[_Union[_slots_pb2.StateMappingQuestion, _Mapping]] = ..., retry: _Optional[_Union[_slots_pb2.RetryQuestion, _Mapping]] = ..., rollback: _Optional[_Union[_slots_pb2.RollbackQuestion, _Mapping]] = ..., release: _Optional[_Union[_slots_pb2.ReleaseQuestion, _Mapping]] = ..., provisioning: _Optional[_Union[_slots_pb2.ProvisioningQuestion, _Mapping]] = ..., placement: _Optional[_Union[_slots_pb2.PlacementQuestion, _Mapping]] = ...) -> None: ...

class Outcomes(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("error", "decision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    error: Error
    decision: Decision
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("id", "answer", "reason", "policy", "keep", "fallbacks")
    ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    id: str
    answer: Answer
    reason: str
    policy: Policy
    keep: _empty_pb2.Empty
    fallbacks: _containers.RepeatedCompositeFieldContainer[Fallback]
    def __init__(self, id: _Optional[str] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., reason: _Optional[str] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., keep: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., fallbacks: _Optional[_Iterable[_Union[Fallback, _Mapping]]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("state_mapping", "retry", "rollback", "release", "provisioning", "placement")
    STATE_MAPPING_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROVISIONING_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    state_mapping: StateMappingAnswers
    retry: _slots_pb2.RetryAnswer
    rollback: _slots_pb2.RollbackAnswer
    release: _slots_pb2.ReleaseAnswer
    provisioning: _slots_pb2.ProvisioningAnswer
    placement: _slots_pb2.PlacementAnswer
    def __init__(self, state_mapping: _Optional[_Union[StateMappingAnswers, _Mapping]] = ..., retry: _Optional[_Union[_slots_pb2.RetryAnswer, _Mapping]] = ..., rollback: _Optional[_Union[_slots_pb2.RollbackAnswer, _Mapping]] = ..., release: _Optional[_Union[_slots_pb2.ReleaseAnswer, _Mapping]] = ..., provisioning: _Optional[_Union[_slots_pb2.ProvisioningAnswer, _Mapping]] = ..., placement: _Optional[_Union[_slots_pb2.PlacementAnswer, _Mapping]] = ...) -> None: ...

class StateMappingAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[_slots_pb2.StateMappingAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[_slots_pb2.StateMappingAnswer, _Mapping]]] = ...) -> None: ...

class Fallback(_message.Message):
    __slots__ = ("policy", "kind", "reason")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    kind: str
    reason: str
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., kind: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("slot", "name", "version", "component", "settings", "built_in", "configuration")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    slot: str
    name: str
    version: str
    component: str
    settings: str
    built_in: bool
    configuration: str
    def __init__(self, slot: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., component: _Optional[str] = ..., settings: _Optional[str] = ..., built_in: bool = ..., configuration: _Optional[str] = ...) -> None: ...

class Pin(_message.Message):
    __slots__ = ("token", "policies")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    def __init__(self, token: _Optional[bytes] = ..., policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ...) -> None: ...

class PinToken(_message.Message):
    __slots__ = ("policies",)
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("version", "contract", "started_at", "links", "counters")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    version: str
    contract: str
    started_at: int
    links: _containers.RepeatedCompositeFieldContainer[Link]
    counters: Counters
    def __init__(self, version: _Optional[str] = ..., contract: _Optional[str] = ..., started_at: _Optional[int] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("policy", "position", "shadow", "source", "loaded_at", "suspended", "failures_in_a_row", "last_failure", "error")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SHADOW_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LOADED_AT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_IN_A_ROW_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    position: int
    shadow: bool
    source: str
    loaded_at: int
    suspended: bool
    failures_in_a_row: int
    last_failure: str
    error: str
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., position: _Optional[int] = ..., shadow: bool = ..., source: _Optional[str] = ..., loaded_at: _Optional[int] = ..., suspended: bool = ..., failures_in_a_row: _Optional[int] = ..., last_failure: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("connections", "open_connections", "denied_connections", "busy_connections", "requests", "errors", "decisions", "fallbacks", "lost_records")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    DENIED_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    BUSY_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    LOST_RECORDS_FIELD_NUMBER: _ClassVar[int]
    connections: int
    open_connections: int
    denied_connections: int
    busy_connections: int
    requests: int
    errors: int
    decisions: int
    fallbacks: int
    lost_records: int
    def __init__(self, connections: _Optional[int] = ..., open_connections: _Optional[int] = ..., denied_connections: _Optional[int] = ..., busy_connections: _Optional[int] = ..., requests: _Optional[int] = ..., errors: _Optional[int] = ..., decisions: _Optional[int] = ..., fallbacks: _Optional[int] = ..., lost_records: _Optional[int] = ...) -> None: ...
