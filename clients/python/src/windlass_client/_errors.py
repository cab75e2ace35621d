"""Why the caller's own default applies, beside what the network says (OSError, and so TimeoutError)."""

from __future__ import annotations

from windlass_client.policyv1 import Error


class WindlassError(Exception):
    """Any of the reasons below."""


class DeferredError(WindlassError):
    """No policy decides."""

    def __init__(self) -> None:
        super().__init__("no policy decides")


class BuiltInError(WindlassError):
    """Only the server's built-in default decides, and the client has `own_defaults`."""

    def __init__(self) -> None:
        super().__init__("no configured policy decides")


class MalformedError(WindlassError):
    """The server answered what makes no sense."""

    def __init__(self, what: str) -> None:
        super().__init__(f"malformed response: {what}")


class ClosedError(WindlassError):
    """The client was closed."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class ServerError(WindlassError):
    """What the server says instead of an answer."""

    def __init__(self, code: Error.Code, message: str) -> None:
        super().__init__(f"policy server: {message}")
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[ServerError], tuple[Error.Code, str]]:
        return type(self), (self.code, self.message)
