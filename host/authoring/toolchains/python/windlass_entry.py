"""Joins a policy to the contract: settings in, questions in, answers out.

A policy that raises, or whose answer has another shape, has failed: the host hears why and asks the next one.
"""

import json
from enum import Enum

import windlass
from componentize_py_types import Err
from wit_world.exports import policy as contract
from wit_world.exports import @SLOT@ as slot
from wit_world.imports import log

import policy as script

_DESCRIPTION = json.loads(@DESCRIPTION@)
_ANSWER = json.loads(@ANSWER@)
_LENGTH_OF = json.loads(@BATCH@)
_PROPERTIES = getattr(script, "SETTINGS", {})
_INTEGERS = {"u8": 2**8 - 1, "u16": 2**16 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1}

if not callable(getattr(script, "decide", None)):
    raise TypeError("policy.py has no function `decide`")

_settings = {}


def _kebab(name):
    return name.replace("_", "-")


def _wrong(place, expected, value):
    return TypeError(f"{place}: expected {expected}, found {value!r:.200}")


def _check(shape, value, place):
    """Says what is wrong where with an answer that is not of the contract."""
    if isinstance(shape, str):
        if shape in ("string", "boolean"):
            if not isinstance(value, str if shape == "string" else bool):
                raise _wrong(place, f"a {shape}", value)
        elif type(value) is not int or not 0 <= value <= _INTEGERS[shape]:
            raise _wrong(place, f"a whole number from 0 to {_INTEGERS[shape]}", value)
        return
    (kind, inner), = shape.items()
    if kind == "option":
        if value is not None:
            _check(inner, value, place)
    elif kind == "list":
        if not isinstance(value, list):
            raise _wrong(place, "a list", value)
        for index, item in enumerate(value):
            _check(inner, item, f"{place}[{index}]")
    elif kind == "enum":
        words = [word.replace("-", "_").upper() for word in inner]
        if not isinstance(value, Enum) or value.name not in words:
            raise _wrong(place, f"one of {', '.join(words)}", value)
    elif kind == "variant":
        name = type(value).__name__
        if name not in inner:
            raise _wrong(place, f"one of {', '.join(inner)}", value)
        if inner[name] is not None:
            _check(inner[name], value.value, f"{place}.value")
    else:
        for name, of in inner.items():
            if not hasattr(value, name):
                raise _wrong(place, f"something with {', '.join(inner)}", value)
            _check(of, getattr(value, name), f"{place}.{name}")


def _defer():
    return slot.Answer(slot.Verdict_Defer(), None)


def _checked(answer, place):
    if answer is None:
        return _defer()
    _check(_ANSWER, answer, place)
    return answer


def _answered(question):
    answer = script.decide(question, dict(_settings))
    if _LENGTH_OF is None:
        return _checked(answer, "answer")
    if answer is None:
        return [_defer() for _ in getattr(question, _LENGTH_OF)]
    if not isinstance(answer, list):
        raise _wrong("answer", f"a list with one answer for each of question.{_LENGTH_OF}", answer)
    return [_checked(item, f"answer[{index}]") for index, item in enumerate(answer)]


def _raised(error):
    """What was raised, in words, with the place of it in the policy's source."""
    try:
        words = f"{type(error).__name__}: {error}"
    except BaseException:
        words = type(error).__name__
    # Not by the module traceback, which looks for the source's file, and there is no disk.
    place = ""
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
        if name not in ("windlass_entry.py", "windlass.py"):
            place = f"{name}:{step.tb_lineno}: "
        step = step.tb_next
    return place + words


class Policy:
    def describe(self):
        named = {_kebab(name): schema for name, schema in _PROPERTIES.items()}
        schema = {"type": "object", "properties": named, "additionalProperties": False}
        return contract.Description(
            _DESCRIPTION["name"], _DESCRIPTION["version"], _DESCRIPTION["summary"], json.dumps(schema)
        )

    def configure(self, settings):
        given = json.loads(settings)
        _settings.clear()
        for name, schema in _PROPERTIES.items():
            _settings[name] = given.get(_kebab(name), schema.get("default"))
        configure = getattr(script, "configure", None)
        if configure is not None:
            try:
                configure(_settings)
            except Exception as error:
                raise Err(_raised(error))


class @CLASS@:
    def decide(self, question):
        windlass._deciding = True
        try:
            return _answered(question)
        except BaseException as error:
            # The last error that is logged is the host's reason for the failure.
            log.write(log.Level.ERROR, _raised(error))
            raise
