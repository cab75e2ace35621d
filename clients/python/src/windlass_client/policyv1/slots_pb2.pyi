from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FailureClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_CLASS_UNSPECIFIED: _ClassVar[FailureClass]
    FAILURE_CLASS_INVALID_ARGUMENTS: _ClassVar[FailureClass]
    FAILURE_CLASS_AUTHENTICATION_DENIED: _ClassVar[FailureClass]
    FAILURE_CLASS_PERMISSION_DENIED: _ClassVar[FailureClass]
    FAILURE_CLASS_QUOTA_EXCEEDED: _ClassVar[FailureClass]
    FAILURE_CLASS_NOT_FOUND: _ClassVar[FailureClass]
    FAILURE_CLASS_EXPIRED: _ClassVar[FailureClass]
    FAILURE_CLASS_CONFLICT: _ClassVar[FailureClass]
    FAILURE_CLASS_PRECONDITION_FAILED: _ClassVar[FailureClass]
    FAILURE_CLASS_TRANSIENT_STATE: _ClassVar[FailureClass]
    FAILURE_CLASS_LOCKED: _ClassVar[FailureClass]
    FAILURE_CLASS_RATE_LIMITED: _ClassVar[FailureClass]
    FAILURE_CLASS_OUT_OF_STOCK: _ClassVar[FailureClass]
    FAILURE_CLASS_SERVER_ERROR: _ClassVar[FailureClass]
    FAILURE_CLASS_GATEWAY: _ClassVar[FailureClass]
    FAILURE_CLASS_TIMEOUT: _ClassVar[FailureClass]
    FAILURE_CLASS_CONNECTION: _ClassVar[FailureClass]
    FAILURE_CLASS_MALFORMED_ANSWER: _ClassVar[FailureClass]
    FAILURE_CLASS_DEADLINE_EXCEEDED: _ClassVar[FailureClass]
    FAILURE_CLASS_CANCELLED: _ClassVar[FailureClass]
    FAILURE_CLASS_INTERRUPTED: _ClassVar[FailureClass]
    FAILURE_CLASS_HOOK_FAILED: _ClassVar[FailureClass]
    FAILURE_CLASS_HOOK_TIMED_OUT: _ClassVar[FailureClass]
    FAILURE_CLASS_OTHER: _ClassVar[FailureClass]

class ResourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOURCE_KIND_UNSPECIFIED: _ClassVar[ResourceKind]
    RESOURCE_KIND_SERVER: _ClassVar[ResourceKind]
    RESOURCE_KIND_IP: _ClassVar[ResourceKind]
    RESOURCE_KIND_BLOCK_VOLUME: _ClassVar[ResourceKind]
    RESOURCE_KIND_LOCAL_VOLUME: _ClassVar[ResourceKind]
    RESOURCE_KIND_PRIVATE_NIC: _ClassVar[ResourceKind]
    RESOURCE_KIND_APPLE_SILICON_SERVER: _ClassVar[ResourceKind]
    RESOURCE_KIND_OTHER: _ClassVar[ResourceKind]

class Program(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROGRAM_UNSPECIFIED: _ClassVar[Program]
    PROGRAM_COMMAND_LINE: _ClassVar[Program]
    PROGRAM_RUNNER_PLUGIN: _ClassVar[Program]
    PROGRAM_CONTROLLER: _ClassVar[Program]
    PROGRAM_OTHER: _ClassVar[Program]

class Requester(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REQUESTER_UNSPECIFIED: _ClassVar[Requester]
    REQUESTER_USER: _ClassVar[Requester]
    REQUESTER_RUNNER: _ClassVar[Requester]
    REQUESTER_PLUGIN: _ClassVar[Requester]
    REQUESTER_POLICY: _ClassVar[Requester]
    REQUESTER_SHUTDOWN: _ClassVar[Requester]
    REQUESTER_SWEEP: _ClassVar[Requester]
    REQUESTER_RECLAIM: _ClassVar[Requester]
    REQUESTER_OBJECT: _ClassVar[Requester]
    REQUESTER_CLUSTER: _ClassVar[Requester]
    REQUESTER_OTHER: _ClassVar[Requester]

class StateMappingServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MAPPING_SERVER_STATE_UNSPECIFIED: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_STARTING: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_RUNNING: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_STOPPING: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_STOPPED: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_STOPPED_IN_PLACE: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_LOCKED: _ClassVar[StateMappingServerState]
    STATE_MAPPING_SERVER_STATE_OTHER: _ClassVar[StateMappingServerState]

class StateMappingStateDetail(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MAPPING_STATE_DETAIL_UNSPECIFIED: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_NONE: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_ALLOCATING_NODE: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_PROVISIONING_NODE: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_STARTING: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_BOOTING_KERNEL: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_BOOTED: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_READY: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_STOPPING: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_STOPPING_IN_PLACE: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_STOPPED_IN_PLACE: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_TERMINATING: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_REBOOTING: _ClassVar[StateMappingStateDetail]
    STATE_MAPPING_STATE_DETAIL_OTHER: _ClassVar[StateMappingStateDetail]

class StateMappingOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MAPPING_OPERATION_UNSPECIFIED: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_NONE: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_CREATE: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_CLEANUP: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_SUSPEND: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_RESUME: _ClassVar[StateMappingOperation]
    STATE_MAPPING_OPERATION_OTHER: _ClassVar[StateMappingOperation]

class StateMappingReport(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MAPPING_REPORT_UNSPECIFIED: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_NONE: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_CREATING: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_RUNNING: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_DELETING: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_DELETED: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_TIMEOUT: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_SUSPENDING: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_SUSPENDED: _ClassVar[StateMappingReport]
    STATE_MAPPING_REPORT_RESUMING: _ClassVar[StateMappingReport]

class StateMappingAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MAPPING_ACTION_UNSPECIFIED: _ClassVar[StateMappingAction]
    STATE_MAPPING_ACTION_NONE: _ClassVar[StateMappingAction]
    STATE_MAPPING_ACTION_REAP: _ClassVar[StateMappingAction]

class RollbackEvidence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLBACK_EVIDENCE_UNSPECIFIED: _ClassVar[RollbackEvidence]
    ROLLBACK_EVIDENCE_JOURNAL: _ClassVar[RollbackEvidence]
    ROLLBACK_EVIDENCE_TAG_SEARCH: _ClassVar[RollbackEvidence]
    ROLLBACK_EVIDENCE_ATTACHMENT: _ClassVar[RollbackEvidence]
    ROLLBACK_EVIDENCE_OTHER: _ClassVar[RollbackEvidence]

class RollbackAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLBACK_ACTION_UNSPECIFIED: _ClassVar[RollbackAction]
    ROLLBACK_ACTION_DELETE: _ClassVar[RollbackAction]
    ROLLBACK_ACTION_DETACH: _ClassVar[RollbackAction]
    ROLLBACK_ACTION_POWER_OFF: _ClassVar[RollbackAction]
    ROLLBACK_ACTION_KEEP: _ClassVar[RollbackAction]

class ReleaseMachineKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_MACHINE_KIND_UNSPECIFIED: _ClassVar[ReleaseMachineKind]
    RELEASE_MACHINE_KIND_INSTANCE: _ClassVar[ReleaseMachineKind]
    RELEASE_MACHINE_KIND_APPLE_SILICON_SERVER: _ClassVar[ReleaseMachineKind]
    RELEASE_MACHINE_KIND_OTHER: _ClassVar[ReleaseMachineKind]

class ReleaseTrigger(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_TRIGGER_UNSPECIFIED: _ClassVar[ReleaseTrigger]
    RELEASE_TRIGGER_RELEASED: _ClassVar[ReleaseTrigger]
    RELEASE_TRIGGER_BOOTSTRAP_FAILED: _ClassVar[ReleaseTrigger]
    RELEASE_TRIGGER_RECLAIM: _ClassVar[ReleaseTrigger]
    RELEASE_TRIGGER_OTHER: _ClassVar[ReleaseTrigger]

class ReleaseRequested(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_REQUESTED_UNSPECIFIED: _ClassVar[ReleaseRequested]
    RELEASE_REQUESTED_RETURN_TO_POOL: _ClassVar[ReleaseRequested]
    RELEASE_REQUESTED_TERMINATE: _ClassVar[ReleaseRequested]
    RELEASE_REQUESTED_KEEP: _ClassVar[ReleaseRequested]
    RELEASE_REQUESTED_OTHER: _ClassVar[ReleaseRequested]

class ReleaseAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RELEASE_ACTION_UNSPECIFIED: _ClassVar[ReleaseAction]
    RELEASE_ACTION_RETURN_TO_POOL: _ClassVar[ReleaseAction]
    RELEASE_ACTION_TERMINATE: _ClassVar[ReleaseAction]
    RELEASE_ACTION_SCHEDULE_DELETION: _ClassVar[ReleaseAction]
    RELEASE_ACTION_REBOOT: _ClassVar[ReleaseAction]
    RELEASE_ACTION_OTHER: _ClassVar[ReleaseAction]

class ProvisioningOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVISIONING_OPERATION_UNSPECIFIED: _ClassVar[ProvisioningOperation]
    PROVISIONING_OPERATION_CREATE: _ClassVar[ProvisioningOperation]
    PROVISIONING_OPERATION_SCALE: _ClassVar[ProvisioningOperation]
    PROVISIONING_OPERATION_TERMINATE: _ClassVar[ProvisioningOperation]
    PROVISIONING_OPERATION_OTHER: _ClassVar[ProvisioningOperation]

class ProvisioningStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVISIONING_STAGE_UNSPECIFIED: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_VALIDATE: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_SERVERS: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_WAIT: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_PREPARE: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_DECOMMISSION: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_RESIZE: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_CONFIGURE: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_START: _ClassVar[ProvisioningStage]
    PROVISIONING_STAGE_OTHER: _ClassVar[ProvisioningStage]

class ProvisioningNodeRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVISIONING_NODE_ROLE_UNSPECIFIED: _ClassVar[ProvisioningNodeRole]
    PROVISIONING_NODE_ROLE_STAYING: _ClassVar[ProvisioningNodeRole]
    PROVISIONING_NODE_ROLE_LEAVING: _ClassVar[ProvisioningNodeRole]
    PROVISIONING_NODE_ROLE_MADE: _ClassVar[ProvisioningNodeRole]
    PROVISIONING_NODE_ROLE_OTHER: _ClassVar[ProvisioningNodeRole]

class ProvisioningClusterState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVISIONING_CLUSTER_STATE_UNSPECIFIED: _ClassVar[ProvisioningClusterState]
    PROVISIONING_CLUSTER_STATE_ACTIVE: _ClassVar[ProvisioningClusterState]
    PROVISIONING_CLUSTER_STATE_ERROR: _ClassVar[ProvisioningClusterState]
FAILURE_CLASS_UNSPECIFIED: FailureClass
FAILURE_CLASS_INVALID_ARGUMENTS: FailureClass
FAILURE_CLASS_AUTHENTICATION_DENIED: FailureClass
FAILURE_CLASS_PERMISSION_DENIED: FailureClass
FAILURE_CLASS_QUOTA_EXCEEDED: FailureClass
FAILURE_CLASS_NOT_FOUND: FailureClass
FAILURE_CLASS_EXPIRED: FailureClass
FAILURE_CLASS_CONFLICT: FailureClass
FAILURE_CLASS_PRECONDITION_FAILED: FailureClass
FAILURE_CLASS_TRANSIENT_STATE: FailureClass
FAILURE_CLASS_LOCKED: FailureClass
FAILURE_CLASS_RATE_LIMITED: FailureClass
FAILURE_CLASS_OUT_OF_STOCK: FailureClass
FAILURE_CLASS_SERVER_ERROR: FailureClass
FAILURE_CLASS_GATEWAY: FailureClass
FAILURE_CLASS_TIMEOUT: FailureClass
FAILURE_CLASS_CONNECTION: FailureClass
FAILURE_CLASS_MALFORMED_ANSWER: FailureClass
FAILURE_CLASS_DEADLINE_EXCEEDED: FailureClass
FAILURE_CLASS_CANCELLED: FailureClass
FAILURE_CLASS_INTERRUPTED: FailureClass
FAILURE_CLASS_HOOK_FAILED: FailureClass
FAILURE_CLASS_HOOK_TIMED_OUT: FailureClass
FAILURE_CLASS_OTHER: FailureClass
RESOURCE_KIND_UNSPECIFIED: ResourceKind
RESOURCE_KIND_SERVER: ResourceKind
RESOURCE_KIND_IP: ResourceKind
RESOURCE_KIND_BLOCK_VOLUME: ResourceKind
RESOURCE_KIND_LOCAL_VOLUME: ResourceKind
RESOURCE_KIND_PRIVATE_NIC: ResourceKind
RESOURCE_KIND_APPLE_SILICON_SERVER: ResourceKind
RESOURCE_KIND_OTHER: ResourceKind
PROGRAM_UNSPECIFIED: Program
PROGRAM_COMMAND_LINE: Program
PROGRAM_RUNNER_PLUGIN: Program
PROGRAM_CONTROLLER: Program
PROGRAM_OTHER: Program
REQUESTER_UNSPECIFIED: Requester
REQUESTER_USER: Requester
REQUESTER_RUNNER: Requester
REQUESTER_PLUGIN: Requester
REQUESTER_POLICY: Requester
REQUESTER_SHUTDOWN: Requester
REQUESTER_SWEEP: Requester
REQUESTER_RECLAIM: Requester
REQUESTER_OBJECT: Requester
REQUESTER_CLUSTER: Requester
REQUESTER_OTHER: Requester
STATE_MAPPING_SERVER_STATE_UNSPECIFIED: StateMappingServerState
STATE_MAPPING_SERVER_STATE_STARTING: StateMappingServerState
STATE_MAPPING_SERVER_STATE_RUNNING: StateMappingServerState
STATE_MAPPING_SERVER_STATE_STOPPING: StateMappingServerState
STATE_MAPPING_SERVER_STATE_STOPPED: StateMappingServerState
STATE_MAPPING_SERVER_STATE_STOPPED_IN_PLACE: StateMappingServerState
STATE_MAPPING_SERVER_STATE_LOCKED: StateMappingServerState
STATE_MAPPING_SERVER_STATE_OTHER: StateMappingServerState
STATE_MAPPING_STATE_DETAIL_UNSPECIFIED: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_NONE: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_ALLOCATING_NODE: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_PROVISIONING_NODE: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_STARTING: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_BOOTING_KERNEL: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_BOOTED: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_READY: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_STOPPING: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_STOPPING_IN_PLACE: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_STOPPED_IN_PLACE: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_TERMINATING: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_REBOOTING: StateMappingStateDetail
STATE_MAPPING_STATE_DETAIL_OTHER: StateMappingStateDetail
STATE_MAPPING_OPERATION_UNSPECIFIED: StateMappingOperation
STATE_MAPPING_OPERATION_NONE: StateMappingOperation
STATE_MAPPING_OPERATION_CREATE: StateMappingOperation
STATE_MAPPING_OPERATION_CLEANUP: StateMappingOperation
STATE_MAPPING_OPERATION_SUSPEND: StateMappingOperation
STATE_MAPPING_OPERATION_RESUME: StateMappingOperation
STATE_MAPPING_OPERATION_OTHER: StateMappingOperation
STATE_MAPPING_REPORT_UNSPECIFIED: StateMappingReport
STATE_MAPPING_REPORT_NONE: StateMappingReport
STATE_MAPPING_REPORT_CREATING: StateMappingReport
STATE_MAPPING_REPORT_RUNNING: StateMappingReport
STATE_MAPPING_REPORT_DELETING: StateMappingReport
STATE_MAPPING_REPORT_DELETED: StateMappingReport
STATE_MAPPING_REPORT_TIMEOUT: StateMappingReport
STATE_MAPPING_REPORT_SUSPENDING: StateMappingReport
STATE_MAPPING_REPORT_SUSPENDED: StateMappingReport
STATE_MAPPING_REPORT_RESUMING: StateMappingReport
STATE_MAPPING_ACTION_UNSPECIFIED: StateMappingAction
STATE_MAPPING_ACTION_NONE: StateMappingAction
STATE_MAPPING_ACTION_REAP: StateMappingAction
ROLLBACK_EVIDENCE_UNSPECIFIED: RollbackEvidence
ROLLBACK_EVIDENCE_JOURNAL: RollbackEvidence
ROLLBACK_EVIDENCE_TAG_SEARCH: RollbackEvidence
ROLLBACK_EVIDENCE_ATTACHMENT: RollbackEvidence
ROLLBACK_EVIDENCE_OTHER: RollbackEvidence
ROLLBACK_ACTION_UNSPECIFIED: RollbackAction
ROLLBACK_ACTION_DELETE: RollbackAction
ROLLBACK_ACTION_DETACH: RollbackAction
ROLLBACK_ACTION_POWER_OFF: RollbackAction
ROLLBACK_ACTION_KEEP: RollbackAction
RELEASE_MACHINE_KIND_UNSPECIFIED: ReleaseMachineKind
RELEASE_MACHINE_KIND_INSTANCE: ReleaseMachineKind
RELEASE_MACHINE_KIND_APPLE_SILICON_SERVER: ReleaseMachineKind
RELEASE_MACHINE_KIND_OTHER: ReleaseMachineKind
RELEASE_TRIGGER_UNSPECIFIED: ReleaseTrigger
RELEASE_TRIGGER_RELEASED: ReleaseTrigger
RELEASE_TRIGGER_BOOTSTRAP_FAILED: ReleaseTrigger
RELEASE_TRIGGER_RECLAIM: ReleaseTrigger
RELEASE_TRIGGER_OTHER: ReleaseTrigger
RELEASE_REQUESTED_UNSPECIFIED: ReleaseRequested
RELEASE_REQUESTED_RETURN_TO_POOL: ReleaseRequested
RELEASE_REQUESTED_TERMINATE: ReleaseRequested
RELEASE_REQUESTED_KEEP: ReleaseRequested
RELEASE_REQUESTED_OTHER: ReleaseRequested
RELEASE_ACTION_UNSPECIFIED: ReleaseAction
RELEASE_ACTION_RETURN_TO_POOL: ReleaseAction
RELEASE_ACTION_TERMINATE: ReleaseAction
RELEASE_ACTION_SCHEDULE_DELETION: ReleaseAction
RELEASE_ACTION_REBOOT: ReleaseAction
RELEASE_ACTION_OTHER: ReleaseAction
PROVISIONING_OPERATION_UNSPECIFIED: ProvisioningOperation
PROVISIONING_OPERATION_CREATE: ProvisioningOperation
PROVISIONING_OPERATION_SCALE: ProvisioningOperation
PROVISIONING_OPERATION_TERMINATE: ProvisioningOperation
PROVISIONING_OPERATION_OTHER: ProvisioningOperation
PROVISIONING_STAGE_UNSPECIFIED: ProvisioningStage
PROVISIONING_STAGE_VALIDATE: ProvisioningStage
PROVISIONING_STAGE_SERVERS: ProvisioningStage
PROVISIONING_STAGE_WAIT: ProvisioningStage
PROVISIONING_STAGE_PREPARE: ProvisioningStage
PROVISIONING_STAGE_DECOMMISSION: ProvisioningStage
PROVISIONING_STAGE_RESIZE: ProvisioningStage
PROVISIONING_STAGE_CONFIGURE: ProvisioningStage
PROVISIONING_STAGE_START: ProvisioningStage
PROVISIONING_STAGE_OTHER: ProvisioningStage
PROVISIONING_NODE_ROLE_UNSPECIFIED: ProvisioningNodeRole
PROVISIONING_NODE_ROLE_STAYING: ProvisioningNodeRole
PROVISIONING_NODE_ROLE_LEAVING: ProvisioningNodeRole
PROVISIONING_NODE_ROLE_MADE: ProvisioningNodeRole
PROVISIONING_NODE_ROLE_OTHER: ProvisioningNodeRole
PROVISIONING_CLUSTER_STATE_UNSPECIFIED: ProvisioningClusterState
PROVISIONING_CLUSTER_STATE_ACTIVE: ProvisioningClusterState
PROVISIONING_CLUSTER_STATE_ERROR: ProvisioningClusterState

class Failure(_message.Message):
    __slots__ = ("message", "method", "path", "status", "error_type", "resource", "ambiguous")
    CLASS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    AMBIGUOUS_FIELD_NUMBER: _ClassVar[int]
    message: str
    method: str
    path: str
    status: int
    error_type: str
    resource: str
    ambiguous: bool
    def __init__(self, message: _Optional[str] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., status: _Optional[int] = ..., error_type: _Optional[str] = ..., resource: _Optional[str] = ..., ambiguous: bool = ..., **kwargs) -> None: ...

class Money(_message.Message):
    __slots__ = ("currency", "micros")
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    MICROS_FIELD_NUMBER: _ClassVar[int]
    currency: str
    micros: int
    def __init__(self, currency: _Optional[str] = ..., micros: _Optional[int] = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ("kind", "namespace", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Label(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Subject(_message.Message):
    __slots__ = ("program", "owner", "project", "group", "cluster", "object", "labels", "requester", "why")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    program: Program
    owner: str
    project: str
    group: str
    cluster: str
    object: Object
    labels: _containers.RepeatedCompositeFieldContainer[Label]
    requester: Requester
    why: str
    def __init__(self, program: _Optional[_Union[Program, str]] = ..., owner: _Optional[str] = ..., project: _Optional[str] = ..., group: _Optional[str] = ..., cluster: _Optional[str] = ..., object: _Optional[_Union[Object, _Mapping]] = ..., labels: _Optional[_Iterable[_Union[Label, _Mapping]]] = ..., requester: _Optional[_Union[Requester, str]] = ..., why: _Optional[str] = ...) -> None: ...

class StateMappingServer(_message.Message):
    __slots__ = ("state", "detail", "age", "state_age", "has_run", "unused_for", "in_flight", "suspended", "server_type", "watched_tags")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    STATE_AGE_FIELD_NUMBER: _ClassVar[int]
    HAS_RUN_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FOR_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    SERVER_TYPE_FIELD_NUMBER: _ClassVar[int]
    WATCHED_TAGS_FIELD_NUMBER: _ClassVar[int]
    state: StateMappingServerState
    detail: StateMappingStateDetail
    age: int
    state_age: int
    has_run: bool
    unused_for: int
    in_flight: StateMappingOperation
    suspended: bool
    server_type: int
    watched_tags: int
    def __init__(self, state: _Optional[_Union[StateMappingServerState, str]] = ..., detail: _Optional[_Union[StateMappingStateDetail, str]] = ..., age: _Optional[int] = ..., state_age: _Optional[int] = ..., has_run: bool = ..., unused_for: _Optional[int] = ..., in_flight: _Optional[_Union[StateMappingOperation, str]] = ..., suspended: bool = ..., server_type: _Optional[int] = ..., watched_tags: _Optional[int] = ...) -> None: ...

class StateMappingQuestion(_message.Message):
    __slots__ = ("now", "zone", "subject", "server_types", "watched_tags", "servers")
    NOW_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SERVER_TYPES_FIELD_NUMBER: _ClassVar[int]
    WATCHED_TAGS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    now: int
    zone: str
    subject: Subject
    server_types: _containers.RepeatedScalarFieldContainer[str]
    watched_tags: _containers.RepeatedScalarFieldContainer[str]
    servers: _containers.RepeatedCompositeFieldContainer[StateMappingServer]
    def __init__(self, now: _Optional[int] = ..., zone: _Optional[str] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., server_types: _Optional[_Iterable[str]] = ..., watched_tags: _Optional[_Iterable[str]] = ..., servers: _Optional[_Iterable[_Union[StateMappingServer, _Mapping]]] = ...) -> None: ...

class StateMappingMapping(_message.Message):
    __slots__ = ("report", "action")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    report: StateMappingReport
    action: StateMappingAction
    def __init__(self, report: _Optional[_Union[StateMappingReport, str]] = ..., action: _Optional[_Union[StateMappingAction, str]] = ...) -> None: ...

class StateMappingVerdict(_message.Message):
    __slots__ = ("defer", "mapped")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    MAPPED_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    mapped: StateMappingMapping
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., mapped: _Optional[_Union[StateMappingMapping, _Mapping]] = ...) -> None: ...

class StateMappingAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: StateMappingVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[StateMappingVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class RetryQuestion(_message.Message):
    __slots__ = ("now", "random", "operation", "step", "undoing", "attempt", "elapsed", "time_left", "failure", "zone", "subject", "server_type")
    NOW_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    UNDOING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SERVER_TYPE_FIELD_NUMBER: _ClassVar[int]
    now: int
    random: int
    operation: str
    step: str
    undoing: bool
    attempt: int
    elapsed: int
    time_left: int
    failure: Failure
    zone: str
    subject: Subject
    server_type: str
    def __init__(self, now: _Optional[int] = ..., random: _Optional[int] = ..., operation: _Optional[str] = ..., step: _Optional[str] = ..., undoing: bool = ..., attempt: _Optional[int] = ..., elapsed: _Optional[int] = ..., time_left: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., zone: _Optional[str] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., server_type: _Optional[str] = ...) -> None: ...

class RetryVerdict(_message.Message):
    __slots__ = ("defer", "give_up", "wait")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    GIVE_UP_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    give_up: _empty_pb2.Empty
    wait: int
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., give_up: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., wait: _Optional[int] = ...) -> None: ...

class RetryAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: RetryVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[RetryVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class RollbackResource(_message.Message):
    __slots__ = ("kind", "id", "name", "state", "attached_to", "owned", "evidence")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_TO_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    kind: ResourceKind
    id: str
    name: str
    state: str
    attached_to: int
    owned: bool
    evidence: RollbackEvidence
    def __init__(self, kind: _Optional[_Union[ResourceKind, str]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., attached_to: _Optional[int] = ..., owned: bool = ..., evidence: _Optional[_Union[RollbackEvidence, str]] = ...) -> None: ...

class RollbackQuestion(_message.Message):
    __slots__ = ("now", "random", "operation", "subject", "cause", "failed_step", "resources")
    NOW_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FAILED_STEP_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    now: int
    random: int
    operation: str
    subject: Subject
    cause: Failure
    failed_step: str
    resources: _containers.RepeatedCompositeFieldContainer[RollbackResource]
    def __init__(self, now: _Optional[int] = ..., random: _Optional[int] = ..., operation: _Optional[str] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., cause: _Optional[_Union[Failure, _Mapping]] = ..., failed_step: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[RollbackResource, _Mapping]]] = ...) -> None: ...

class RollbackStep(_message.Message):
    __slots__ = ("resource", "action", "after")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    resource: int
    action: RollbackAction
    after: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, resource: _Optional[int] = ..., action: _Optional[_Union[RollbackAction, str]] = ..., after: _Optional[_Iterable[int]] = ...) -> None: ...

class RollbackVerdict(_message.Message):
    __slots__ = ("defer", "plan")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    plan: RollbackVerdictPlan
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., plan: _Optional[_Union[RollbackVerdictPlan, _Mapping]] = ...) -> None: ...

class RollbackVerdictPlan(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RollbackStep]
    def __init__(self, items: _Optional[_Iterable[_Union[RollbackStep, _Mapping]]] = ...) -> None: ...

class RollbackAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: RollbackVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[RollbackVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class ReleaseActivity(_message.Message):
    __slots__ = ("last_used", "connections", "node_ready", "node_ready_since")
    LAST_USED_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    NODE_READY_FIELD_NUMBER: _ClassVar[int]
    NODE_READY_SINCE_FIELD_NUMBER: _ClassVar[int]
    last_used: int
    connections: int
    node_ready: bool
    node_ready_since: int
    def __init__(self, last_used: _Optional[int] = ..., connections: _Optional[int] = ..., node_ready: bool = ..., node_ready_since: _Optional[int] = ...) -> None: ...

class ReleaseMachine(_message.Message):
    __slots__ = ("kind", "id", "name", "zone", "machine_type", "status", "operating_system", "pool_prefix", "adopted", "created_at", "deletable_at", "deletion_scheduled", "bootstrap_failures", "rebooted", "price_per_hour", "activity")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    POOL_PREFIX_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    DELETABLE_AT_FIELD_NUMBER: _ClassVar[int]
    DELETION_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_FAILURES_FIELD_NUMBER: _ClassVar[int]
    REBOOTED_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    kind: ReleaseMachineKind
    id: str
    name: str
    zone: str
    machine_type: str
    status: str
    operating_system: str
    pool_prefix: str
    adopted: bool
    created_at: int
    deletable_at: int
    deletion_scheduled: bool
    bootstrap_failures: int
    rebooted: bool
    price_per_hour: Money
    activity: ReleaseActivity
    def __init__(self, kind: _Optional[_Union[ReleaseMachineKind, str]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., zone: _Optional[str] = ..., machine_type: _Optional[str] = ..., status: _Optional[str] = ..., operating_system: _Optional[str] = ..., pool_prefix: _Optional[str] = ..., adopted: bool = ..., created_at: _Optional[int] = ..., deletable_at: _Optional[int] = ..., deletion_scheduled: bool = ..., bootstrap_failures: _Optional[int] = ..., rebooted: bool = ..., price_per_hour: _Optional[_Union[Money, _Mapping]] = ..., activity: _Optional[_Union[ReleaseActivity, _Mapping]] = ...) -> None: ...

class ReleaseRefusal(_message.Message):
    __slots__ = ("action", "failure", "not_before")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    action: ReleaseAction
    failure: Failure
    not_before: int
    def __init__(self, action: _Optional[_Union[ReleaseAction, str]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., not_before: _Optional[int] = ...) -> None: ...

class ReleaseQuestion(_message.Message):
    __slots__ = ("now", "random", "trigger", "subject", "machine", "requested", "refusal", "attempt")
    NOW_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    now: int
    random: int
    trigger: ReleaseTrigger
    subject: Subject
    machine: ReleaseMachine
    requested: ReleaseRequested
    refusal: ReleaseRefusal
    attempt: int
    def __init__(self, now: _Optional[int] = ..., random: _Optional[int] = ..., trigger: _Optional[_Union[ReleaseTrigger, str]] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., machine: _Optional[_Union[ReleaseMachine, _Mapping]] = ..., requested: _Optional[_Union[ReleaseRequested, str]] = ..., refusal: _Optional[_Union[ReleaseRefusal, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class ReleasePoolReturn(_message.Message):
    __slots__ = ("operating_system",)
    OPERATING_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    operating_system: str
    def __init__(self, operating_system: _Optional[str] = ...) -> None: ...

class ReleaseVerdict(_message.Message):
    __slots__ = ("defer", "return_to_pool", "terminate", "schedule_deletion", "keep", "retry_after", "reboot")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    RETURN_TO_POOL_FIELD_NUMBER: _ClassVar[int]
    TERMINATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_DELETION_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    REBOOT_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    return_to_pool: ReleasePoolReturn
    terminate: _empty_pb2.Empty
    schedule_deletion: _empty_pb2.Empty
    keep: _empty_pb2.Empty
    retry_after: int
    reboot: _empty_pb2.Empty
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., return_to_pool: _Optional[_Union[ReleasePoolReturn, _Mapping]] = ..., terminate: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., schedule_deletion: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., keep: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., retry_after: _Optional[int] = ..., reboot: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ...) -> None: ...

class ReleaseAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: ReleaseVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[ReleaseVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class ProvisioningNode(_message.Message):
    __slots__ = ("name", "group", "role", "exists", "decommissioned", "configured")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONED_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    name: str
    group: str
    role: ProvisioningNodeRole
    exists: bool
    decommissioned: bool
    configured: bool
    def __init__(self, name: _Optional[str] = ..., group: _Optional[str] = ..., role: _Optional[_Union[ProvisioningNodeRole, str]] = ..., exists: bool = ..., decommissioned: bool = ..., configured: bool = ...) -> None: ...

class ProvisioningGroup(_message.Message):
    __slots__ = ("name", "before", "wanted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    before: int
    wanted: int
    def __init__(self, name: _Optional[str] = ..., before: _Optional[int] = ..., wanted: _Optional[int] = ...) -> None: ...

class ProvisioningQuestion(_message.Message):
    __slots__ = ("now", "random", "subject", "operation", "stage", "cause", "groups", "nodes")
    NOW_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    now: int
    random: int
    subject: Subject
    operation: ProvisioningOperation
    stage: ProvisioningStage
    cause: Failure
    groups: _containers.RepeatedCompositeFieldContainer[ProvisioningGroup]
    nodes: _containers.RepeatedCompositeFieldContainer[ProvisioningNode]
    def __init__(self, now: _Optional[int] = ..., random: _Optional[int] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., operation: _Optional[_Union[ProvisioningOperation, str]] = ..., stage: _Optional[_Union[ProvisioningStage, str]] = ..., cause: _Optional[_Union[Failure, _Mapping]] = ..., groups: _Optional[_Iterable[_Union[ProvisioningGroup, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[ProvisioningNode, _Mapping]]] = ...) -> None: ...

class ProvisioningRecovery(_message.Message):
    __slots__ = ("state", "delete")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    state: ProvisioningClusterState
    delete: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, state: _Optional[_Union[ProvisioningClusterState, str]] = ..., delete: _Optional[_Iterable[int]] = ...) -> None: ...

class ProvisioningVerdict(_message.Message):
    __slots__ = ("defer", "recover")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    RECOVER_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    recover: ProvisioningRecovery
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., recover: _Optional[_Union[ProvisioningRecovery, _Mapping]] = ...) -> None: ...

class ProvisioningAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: ProvisioningVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[ProvisioningVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class PlacementPlace(_message.Message):
    __slots__ = ("zone", "server_type", "servers", "creating", "failures", "last_failure", "failed_at", "backoff_until", "price_per_hour")
    ZONE_FIELD_NUMBER: _ClassVar[int]
    SERVER_TYPE_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    CREATING_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_UNTIL_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    zone: str
    server_type: str
    servers: int
    creating: int
    failures: int
    last_failure: Failure
    failed_at: int
    backoff_until: int
    price_per_hour: Money
    def __init__(self, zone: _Optional[str] = ..., server_type: _Optional[str] = ..., servers: _Optional[int] = ..., creating: _Optional[int] = ..., failures: _Optional[int] = ..., last_failure: _Optional[_Union[Failure, _Mapping]] = ..., failed_at: _Optional[int] = ..., backoff_until: _Optional[int] = ..., price_per_hour: _Optional[_Union[Money, _Mapping]] = ...) -> None: ...

class PlacementQuestion(_message.Message):
    __slots__ = ("now", "random", "operation", "subject", "wanted", "places")
    NOW_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    now: int
    random: int
    operation: str
    subject: Subject
    wanted: int
    places: _containers.RepeatedCompositeFieldContainer[PlacementPlace]
    def __init__(self, now: _Optional[int] = ..., random: _Optional[int] = ..., operation: _Optional[str] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., wanted: _Optional[int] = ..., places: _Optional[_Iterable[_Union[PlacementPlace, _Mapping]]] = ...) -> None: ...

class PlacementAssignment(_message.Message):
    __slots__ = ("count", "places")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    count: int
    places: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, count: _Optional[int] = ..., places: _Optional[_Iterable[int]] = ...) -> None: ...

class PlacementVerdict(_message.Message):
    __slots__ = ("defer", "place")
    DEFER_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    defer: _empty_pb2.Empty
    place: PlacementVerdictPlace
    def __init__(self, defer: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., place: _Optional[_Union[PlacementVerdictPlace, _Mapping]] = ...) -> None: ...

class PlacementVerdictPlace(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[PlacementAssignment]
    def __init__(self, items: _Optional[_Iterable[_Union[PlacementAssignment, _Mapping]]] = ...) -> None: ...

class PlacementAnswer(_message.Message):
    __slots__ = ("verdict", "reason")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: PlacementVerdict
    reason: str
    def __init__(self, verdict: _Optional[_Union[PlacementVerdict, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...
