"""What a policy imports: the types of its slot, and a log. What could differ from one run to the next is taken away."""

import builtins
import datetime
import os
import random
import secrets
import time
import uuid

from wit_world.exports.@SLOT@ import *  # noqa: F403
from wit_world.imports import log as _log
from wit_world.imports.types import *  # noqa: F403

_deciding = False


def log(level, message):
    """A line for the host's log, while a question is being decided."""
    if _deciding:
        _log.write(_log.Level[level.upper()], str(message))


def _print(*values, sep=" ", end="", file=None, flush=False):
    log("info", (sep or " ").join(str(value) for value in values))


def _refuse(what, remedy):
    def refused(*_, **__):
        raise RuntimeError(f"{what} is not available in a policy: {remedy}")

    return refused


_TIME = "the time is question.now, in milliseconds since 1970"
_RANDOM = "the question brings a random number, question.random"
_SEED = "seed one with it: random.Random(question.random)"

builtins.print = _print
for _name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
              "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime",
              "gmtime", "ctime", "asctime", "sleep"):
    if hasattr(time, _name):
        setattr(time, _name, _refuse(f"time.{_name}()", _TIME))


class _DateTime(datetime.datetime):
    now = classmethod(_refuse("datetime.now()", _TIME))
    utcnow = classmethod(_refuse("datetime.utcnow()", _TIME))
    today = classmethod(_refuse("datetime.today()", _TIME))


class _Date(datetime.date):
    today = classmethod(_refuse("date.today()", _TIME))


class _Random(random.Random):
    def __init__(self, seed=None):
        if seed is None:
            _refuse("random.Random() without a seed", f"{_RANDOM}; {_SEED}")()
        super().__init__(seed)


for _name in dir(random):
    if callable(getattr(random, _name)) and _name[0].islower():
        setattr(random, _name, _refuse(f"random.{_name}()", f"{_RANDOM}; {_SEED}"))
datetime.datetime, datetime.date = _DateTime, _Date
random.Random, random.SystemRandom = _Random, _refuse("random.SystemRandom", _RANDOM)
os.urandom = _refuse("os.urandom()", _RANDOM)
for _name in ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits", "SystemRandom"):
    setattr(secrets, _name, _refuse(f"secrets.{_name}()", _RANDOM))
for _name in ("uuid1", "uuid4"):
    setattr(uuid, _name, _refuse(f"uuid.{_name}()", _RANDOM))
