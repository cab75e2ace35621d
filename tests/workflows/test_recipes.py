"""The workflows of GitHub and GitLab call recipes, which run everywhere, and nothing else of their own."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = [*sorted((ROOT / ".github/workflows").glob("*.yml")), ROOT / ".gitlab-ci.yml"]
# What makes recipes possible: `just` itself, and packages.
PREPARES = re.compile(r"(sudo )?(apt-get (update|install)|dpkg --add-architecture) ?.*|cargo install --locked just")
# A recipe that installs packages for real.
AS_ROOT = r"(?:sudo (?:--\S+ )*(?:env )?(?:\w+=\S+ )*)?"
CHOSEN = 'eval "just $RECIPE"'


def commands(text):
    """The shell's lines in a workflow: behind `run:` and `script:`, and in the lists and blocks below them."""
    lines = iter(text.splitlines())
    below = None
    for line in lines:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if below is not None and stripped and (indent > below or (indent == below and stripped.startswith("- "))):
            yield stripped.removeprefix("- ").strip()
            continue
        below = None
        match = re.match(r"\s*(?:- )?(run|script|before_script):\s*(.*)$", line)
        if not match:
            continue
        value = match[2].strip()
        if value in ("", "|", ">", "|-"):
            below = indent
        elif value.startswith("["):
            yield from (part.strip() for part in value.strip("[]").split(", "))
        else:
            yield value


def single(command):
    return [part.strip() for part in command.split("&&")]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_only_calls_recipes_that_exist(workflow):
    recipes = subprocess.run(["just", "--summary"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    text = workflow.read_text()
    called = []
    for command in commands(text):
        for part in single(command):
            if PREPARES.fullmatch(part) or part == CHOSEN:
                continue
            match = re.fullmatch(AS_ROOT + r"just ([a-z-]+)( .*)?", part)
            assert match, f"{workflow.name} runs {part!r}, which is no recipe"
            called.append(match[1])
    if CHOSEN in text:
        matrix = re.search(r"(recipe|RECIPE):\n((?:\s*(?:#.*|- .*)\n)+)", text)
        called += re.findall(r"^\s*- ([a-z-]+)", matrix[2], re.MULTILINE)
    assert called, f"{workflow.name} calls nothing"
    unknown = [name for name in called if name not in recipes]
    assert not unknown, f"{workflow.name} calls {unknown}"


def test_what_is_no_recipe_is_seen():
    text = "jobs:\n  a:\n    steps:\n    - run: just check\n    - run: |\n        just test\n        make all\n"
    assert list(commands(text)) == ["just check", "just test", "make all"]
    assert list(commands("check:\n  script: [just check]\n")) == ["just check"]
