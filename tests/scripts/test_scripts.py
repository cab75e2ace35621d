"""Policies in JavaScript, TypeScript and Python, from `windlass policy new` to their decisions, by the program itself.

What is compiled stays in WINDLASS_SCRIPTS between runs: compiling an interpreter takes many seconds, and is not tested
here.
"""

import json
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

WINDLASS = os.environ["WINDLASS_COMMAND_LINE"]
KEPT = Path(os.environ["WINDLASS_SCRIPTS"])
TUTORIALS = Path(__file__).parents[2] / "docs"
# Rust's and the rules' answers to these fixtures are tested with the templates, in host/authoring/tests.
SLOTS = ["retry", "state-mapping", "rollback", "release", "provisioning", "placement"]
TYPED = ["state-mapping", "release", "provisioning"]
# Each is a component of its own, and compiling one takes half a minute: the whole table is for whoever has the time.
# The other tests have policies of the slot `retry` in JavaScript and Python.
EVERY_SLOT = bool(os.environ.get("WINDLASS_SCRIPTS_EVERY_SLOT"))
EVERY = [(slot, language) for slot in SLOTS for language in ("javascript", "python")]
CASES = EVERY if EVERY_SLOT else [("state-mapping", "javascript")]
HAS = {"javascript": ["node", "npm"], "python": ["python3"]}
LARGEST = 2**64 - 1


def environment():
    return {**os.environ, "XDG_STATE_HOME": str(KEPT / "state"), "XDG_CACHE_HOME": str(KEPT / "cache"), "NO_COLOR": "1"}


def run(*arguments, cwd=None, fails=False, **more):
    command = [WINDLASS, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env={**environment(), **more}, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    # The document of `--output json` stands alone.
    return done.stdout if "json" in arguments and not fails else done.stdout + done.stderr


def need(language):
    for tool in HAS["python" if language == "python" else "javascript"]:
        if shutil.which(tool) is None:
            pytest.skip(f"policies in {language} are built with {tool}")


def new(folder, slot, language):
    need(language)
    path = folder / f"{slot}-{language}"
    run("policy", "new", path.name, "--slot", slot, "--language", language, "--folder", path)
    return path


def written(folder, slot, language, source):
    """A policy with this source, built."""
    path = new(folder, slot, language)
    (path / ("policy.py" if language == "python" else "policy.js")).write_text(source)
    run("policy", "build", path, "--out", path / "policy.wasm")
    return path / "policy.wasm"


def asked(policy, slot, changes=None, fails=False):
    """What a policy answered to the slot's example question with these changes, and what it logged."""
    question = example(slot)
    merge(question, changes or {})
    given = json.dumps(question)
    text = run("--output", "json", "policy", "run", policy, "--slot", slot, "--input", given, fails=fails)
    return text if fails else json.loads(text)


def merge(into, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


EXAMPLES = {}


def example(slot):
    if slot not in EXAMPLES:
        page = (TUTORIALS / "slots.md").read_text()
        section = page[page.index(f"\n## {slot}\n"):]
        EXAMPLES[slot] = re.search(r"```json\n(.*?)```", section, re.S).group(1)
    return json.loads(EXAMPLES[slot])


def logged(document):
    return [line["message"] for line in document["asked"][0].get("log", [])]


@pytest.mark.parametrize("slot, language", CASES)
def test_the_policy_of_every_slot_answers_its_fixtures_as_rust_and_rules_do(slot, language, tmp_path):
    path = new(tmp_path, slot, "typescript" if language == "javascript" and slot in TYPED else language)
    rules = new_rules(tmp_path, slot)
    assert sorted(file.name for file in (path / "fixtures").iterdir()) == sorted(
        file.name for file in (rules / "fixtures").iterdir()
    )
    assert "2 passed, 0 failed" in run("policy", "test", rules)
    assert "2 passed, 0 failed" in run("policy", "test", path)


def new_rules(folder, slot):
    path = folder / f"{slot}-rules"
    run("policy", "new", path.name, "--slot", slot, "--language", "rules", "--folder", path)
    return path


HOSTILE = {
    "javascript": """
import { broken } from "./broken.js";

export const settings = { large: { type: "integer", default: 1 } };
let kept = 0;

export function decide(question, settings) {
  kept += 1;
  const recursion = () => recursion() + 1;
  switch (question.operation) {
    case "endless": for (;;) {}
    case "memory": { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); }
    case "recursion": return recursion();
    case "thrown": return broken();
    case "thrown-value": throw { toString() { throw new Error("no words"); }, get stack() { throw 1; } };
    case "date": return Date.now();
    case "new-date": return new Date();
    case "random": return Math.random();
    case "timer": return setTimeout(() => {}, 1);
    case "prototype":
      Object.prototype.reason = "polluted";
      Array.prototype.map = () => { throw new Error("taken"); };
      String.prototype.replace = JSON.stringify = Array.isArray = undefined;
      return { verdict: { tag: "give-up" } };
    case "echo": return { verdict: { tag: "wait", val: question.random }, reason: String(question.random + 1n) };
    case "setting": return { verdict: { tag: "wait", val: settings.large } };
    case "negative": return { verdict: { tag: "wait", val: -1 } };
    case "too-large": return { verdict: { tag: "wait", val: 2n ** 64n } };
    case "inexact": return { verdict: { tag: "wait", val: 2 ** 60 } };
    case "word": return { verdict: { tag: "constructor" } };
    case "key": return { verdict: { tag: "defer" }, reson: "misspelt" };
    case "kept": return { verdict: { tag: "wait", val: kept } };
    case "log": console.warn("seen", question.attempt, { now: question.now }); return;
    case "dated": return { verdict: { tag: "wait", val: new Date(Number(question.now)).getTime() } };
  }
  if (question.failure.class === "out-of-stock") {
    return { verdict: { tag: "wait", val: 500 }, reason: "as the rules say" };
  }
}
""",
    "python": """
import datetime
import os
import random
import time
import uuid

from windlass import Answer, FailureClass, Question, Verdict_GiveUp, Verdict_Wait, log
from broken import broken

SETTINGS = {"large": {"type": "integer", "default": 1}}
kept = 0


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def decide(question, settings):
    global kept
    kept += 1
    what = question.operation
    if what == "endless":
        while True:
            pass
    if what == "memory":
        everything = []
        while True:
            everything.append(bytes([1]) * (1 << 20))
    if what == "recursion":
        def recursion():
            return recursion() + 1
        return recursion()
    if what == "thrown":
        return broken()
    if what == "thrown-value":
        raise Unspeakable()
    if what == "date":
        return time.time()
    if what == "new-date":
        return datetime.datetime.now()
    if what == "random":
        return random.random()
    if what == "timer":
        return time.sleep(1)
    if what == "entropy":
        return os.urandom(8) + uuid.uuid4().bytes
    if what == "prototype":
        Answer.__init__ = lambda *_: None
        __builtins__["len"] = None
        return Answer(Verdict_GiveUp(), None)
    if what == "echo":
        return Answer(Verdict_Wait(question.random), str(question.random + 1))
    if what == "setting":
        return Answer(Verdict_Wait(settings["large"]), None)
    if what == "negative":
        return Answer(Verdict_Wait(-1), None)
    if what == "too-large":
        return Answer(Verdict_Wait(2**64), None)
    if what == "inexact":
        return Answer(Verdict_Wait(2.0**60), None)
    if what == "word":
        return Answer("constructor", None)
    if what == "kept":
        return Answer(Verdict_Wait(kept), None)
    if what == "log":
        log("warn", f"seen {question.attempt}")
        return None
    if what == "dated":
        seeded = random.Random(question.random).random()
        assert seeded == random.Random(question.random).random()
        at = datetime.datetime.fromtimestamp(question.now / 1000, datetime.timezone.utc)
        return Answer(Verdict_Wait(int(at.timestamp() * 1000)), None)
    if question.failure.class_ == FailureClass.OUT_OF_STOCK:
        return Answer(Verdict_Wait(500), "as the rules say")
    return None
""",
}
BROKEN = {
    "javascript": ("broken.js", "// The place of this is told.\nexport function broken() {\n  return null.x;\n}\n"),
    "python": ("broken.py", "# The place of this is told.\ndef broken():\n    return None.x\n"),
}


@pytest.fixture(scope="session", params=["javascript", "python"])
def hostile(request, tmp_path_factory):
    language = request.param
    path = new(tmp_path_factory.mktemp("hostile"), "retry", language)
    (path / ("policy.py" if language == "python" else "policy.js")).write_text(HOSTILE[language])
    name, source = BROKEN[language]
    (path / name).write_text(source)
    run("policy", "build", path, "--out", path / "policy.wasm")
    return language, path / "policy.wasm"


@pytest.mark.parametrize("operation, kind", [("endless", "time-limit"), ("memory", "memory-limit")])
def test_a_script_that_takes_too_much_is_stopped_at_its_limit(hostile, operation, kind):
    _, policy = hostile
    assert f"the policy failed ({kind})" in asked(policy, "retry", {"operation": operation}, fails=True)


def test_endless_recursion_ends_within_the_sandbox(hostile):
    _, policy = hostile
    question = {**example("retry"), "operation": "recursion"}
    done = subprocess.run(
        [WINDLASS, "--output", "json", "policy", "run", policy, "--slot", "retry", "--input", json.dumps(question)],
        env=environment(), capture_output=True, text=True,
    )
    # The interpreter's own limit or the sandbox's comes first.
    words = done.stdout + done.stderr
    assert re.search("recursion|RecursionError|stack-limit|trap", words), words
    assert done.returncode in (0, 1), words


@pytest.mark.parametrize(
    "operation, words",
    [
        ("thrown", {"javascript": r"broken\.js:3.*TypeError", "python": r"broken\.py:3.*AttributeError"}),
        ("thrown-value", {"javascript": "can't be described", "python": "Unspeakable"}),
        ("date", "the time is .?question.now"),
        ("new-date", "the time is .?question.now"),
        ("random", "question.random"),
        ("timer", {"javascript": "a decision can't wait", "python": "the time is"}),
        ("negative", r"answer.verdict.val(ue)?: expected a whole number from 0 to 18446744073709551615"),
        ("too-large", r"answer.verdict.val(ue)?: expected a whole number"),
        ("inexact", r"answer.verdict.val(ue)?: expected a whole number"),
        ("word", "answer.verdict.*expected one of"),
    ],
)
def test_what_is_thrown_is_a_failure_that_names_its_place(hostile, operation, words):
    language, policy = hostile
    told = asked(policy, "retry", {"operation": operation}, fails=True)
    assert "the policy failed" in told, told
    expected = words if isinstance(words, str) else words[language]
    assert re.search(expected, told), told


def test_what_a_script_does_to_its_own_language_stays_in_that_decision(hostile):
    _, policy = hostile
    # It may answer, or fail: what it breaks is its own.
    question = json.dumps({**example("retry"), "operation": "prototype"})
    subprocess.run([WINDLASS, "policy", "run", policy, "--slot", "retry", "--input", question], env=environment(),
                   capture_output=True)
    for _ in range(2):
        # Every decision begins with the memory that `configure` left.
        assert asked(policy, "retry", {"operation": "kept"})["answer"]["verdict"] == {"wait": 1}


@pytest.mark.parametrize("number", [0, 2**53 - 1, 2**53 + 1, 2**63 + 5, LARGEST - 1])
def test_numbers_of_64_bits_are_exact(hostile, number):
    _, policy = hostile
    answer = asked(policy, "retry", {"operation": "echo", "random": number})
    assert answer["answer"] == {"verdict": {"wait": number}, "reason": str(number + 1)}


def test_settings_of_64_bits_are_exact(hostile):
    _, policy = hostile
    question = {**example("retry"), "operation": "setting"}
    text = run("--output", "json", "policy", "run", policy, "--slot", "retry", "--input", json.dumps(question),
               "--settings", json.dumps({"large": 2**63 + 5}))
    assert json.loads(text)["answer"]["verdict"] == {"wait": 2**63 + 5}


def test_the_time_and_the_random_number_of_the_question_can_be_worked_with(hostile):
    _, policy = hostile
    now = example("retry")["now"]
    assert asked(policy, "retry", {"operation": "dated"})["answer"]["verdict"] == {"wait": now}


def test_a_line_of_the_script_is_in_the_record(hostile):
    _, policy = hostile
    assert any("seen" in line for line in logged(asked(policy, "retry", {"operation": "log"})))


def test_inspect_says_the_class_and_that_nothing_needs_a_grant(hostile):
    _, policy = hostile
    inspected = json.loads(run("--output", "json", "policy", "inspect", policy))
    assert (inspected["class"], inspected["grants_needed"], inspected["problem"]) == ("script", [], None)
    assert inspected["settings_schema"]["properties"]["large"]["default"] == 1


def test_a_script_is_proved_compared_and_measured_like_every_policy(hostile):
    language, policy = hostile
    # Without random questions there are no pairs, which are thousands.
    few = ["--questions", "60", "--random", "0"]
    if language == "javascript" and EVERY_SLOT:
        # Bounds of its own, so that nobody waits for an hour; this is a minute all the same.
        proof = json.loads(run("--output", "json", "policy", "prove", policy, "--slot", "retry"))
        assert (proof["holds"], proof["enumerated"], proof["random"]) == (True, 50_000, 10_000), proof
        assert proof["pairwise"] > 1_000 and not proof["exhaustive"], proof
    assert "holds" in run("policy", "prove", policy, "--slot", "retry", "--never", "verdict == 'give-up'", *few)
    run("policy", "diff", policy, policy, "--slot", "retry", *few)
    run("policy", "bench", policy, "--decisions", "100")


def test_a_script_decides_beside_a_shadow_and_its_decisions_are_replayed(hostile, tmp_path):
    _, policy = hostile
    rules = new_rules(tmp_path, "retry")
    # A log of its own, and what was compiled before.
    state = tmp_path / "state"
    kept = KEPT / "state/windlass"
    shutil.copytree(kept / "cache", state / "windlass/cache")
    shutil.copy(kept / "cache.key", state / "windlass")
    shadow = next(rules.glob("*.rules.toml"))
    # The template waits a minute, which is waited for here.
    shadow.write_text(shadow.read_text().replace("60000", "500"))
    configuration = tmp_path / "windlass.toml"
    # A shadow is asked what would reach it in its place, so it stands before what decides.
    configuration.write_text(
        f"[[policies.retry]]\npath = '{shadow}'\nmode = 'shadow'\n[[policies.retry]]\npath = '{policy}'\n"
    )
    command = [WINDLASS, "simulator", "--listen", "127.0.0.1:0", "--time-scale", "100"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as simulator:
        try:
            url = simulator.stdout.readline().strip()
            fault = {"method": "POST", "path": "/instance/v1/zones/*/servers", "nth": 1, "kind": "out-of-stock"}
            request = urllib.request.Request(f"{url}/_simulator/faults", json.dumps(fault).encode())
            request.add_header("Content-Type", "application/json")
            urllib.request.urlopen(request).close()
            more = {
                "XDG_STATE_HOME": str(state), "SCW_API_URL": url, "SCW_DEFAULT_ZONE": "fr-par-1",
                "SCW_SECRET_KEY": "11111111-1111-4111-8111-111111111111",
                "SCW_DEFAULT_PROJECT_ID": "22222222-2222-4222-8222-222222222222",
            }
            ours = lambda *arguments: run("--config", configuration, *arguments, **more)
            ours("server", "create", "--group", "web", "--type", "DEV1-S", "--image", "ubuntu_noble")
            assert "agreed in 1 decisions, differed in 0, failed in 0" in ours("policy", "shadow")
            replayed = json.loads(ours("--output", "json", "decision", "replay", "--since", "24h"))
            assert (replayed["replayed"], replayed["same"]) == (1, 1), replayed
        finally:
            simulator.terminate()


@pytest.mark.parametrize(
    "language, source, words",
    [
        ("javascript", "const at = Date.now();\nexport function decide() {}\n", "question.now"),
        ("javascript", "export function decide() {\n  return {;\n}\n", "policy.js|SyntaxError"),
        ("javascript", "export const nothing = 1;\n", "exports no function `decide`"),
        ("python", "import random\n\nSEED = random.random()\n", "question.random"),
        ("python", "def decide(question settings):\n    pass\n", "SyntaxError"),
        ("python", "NOTHING = 1\n", "has no function `decide`"),
    ],
)
def test_a_source_that_can_be_no_policy_is_refused_by_the_build_with_the_reason(language, source, words, tmp_path):
    path = new(tmp_path, "retry", language)
    (path / ("policy.py" if language == "python" else "policy.js")).write_text(source)
    assert re.search(words, run("policy", "build", path, fails=True))


@pytest.mark.parametrize("language, tool", [("javascript", "Node.js"), ("python", "Python")])
def test_a_missing_tool_is_named_with_where_to_get_it(language, tool, tmp_path):
    path = new(tmp_path, "retry", language)
    empty = tmp_path / "empty"
    empty.mkdir()
    said = run("policy", "build", path, fails=True, PATH=str(empty), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert f"install {tool}" in said and "https://" in said, said


def test_a_build_needs_no_network_once_its_tools_are_there(hostile):
    _, policy = hostile
    nowhere = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
    said = run("policy", "build", policy.parent, "--out", policy.with_name("again.wasm"), **nowhere)
    assert "installing" not in said


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_the_commands_of_the_tutorial_do_what_it_says(language, tmp_path):
    need(language)
    page = (TUTORIALS / f"tutorial-{language}.md").read_text()
    blocks = re.findall(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```", page, re.S)
    commands = 0
    for place, kind, text in blocks:
        if place:
            (tmp_path / place).write_text(text)
        for line in text.splitlines() if kind == "console" else []:
            if line.startswith("$ "):
                shell = {**environment(), "PATH": f"{Path(WINDLASS).parent}:{os.environ['PATH']}"}
                done = subprocess.run(["sh", "-c", line[2:].split("  #")[0]], cwd=tmp_path, env=shell,
                                      capture_output=True, text=True)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                commands += 1
            elif line not in ("", "…"):
                shown = ".*".join(re.escape(part) for part in line.split("…"))
                assert re.search(f"^{shown}$", done.stdout, re.M), f"{line}\n{done.stdout}"
    assert commands >= 4
