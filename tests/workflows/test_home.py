"""One place names the project's home, and one command moves it."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = "git.acme.example/platform/windlass"
REGISTRY = "registry.acme.example/platform"


@pytest.fixture
def copy(tmp_path):
    """The files that git knows, as they are now, in a repository of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["cp", "--parents", "-a", "-t", tree, *filter(None, listed.split(b"\0"))], cwd=ROOT, check=True)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


def home(tree, *arguments):
    # Without Go the messages of its client are not made again, which would need the network.
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    return subprocess.run(["deploy/home", *arguments], cwd=tree, env=environment, text=True, capture_output=True)


def mentions(tree, text):
    found = subprocess.run(["git", "grep", "-lIF", text, "--", ":!*.pb.go"], cwd=tree, text=True, capture_output=True)
    return found.stdout.split()


def test_a_fork_moves_home_with_one_command(copy):
    before = dict(line.split() for line in home(copy).stdout.splitlines())
    assert mentions(copy, before["repository"]) and mentions(copy, before["registry"])
    moved = home(copy, REPOSITORY, REGISTRY)
    assert moved.returncode == 0, moved.stderr
    assert not mentions(copy, before["repository"]) and not mentions(copy, before["registry"])
    assert dict(line.split() for line in home(copy).stdout.splitlines()) == {
        "repository": REPOSITORY, "registry": REGISTRY}
    assert home(copy, "check").returncode == 0
    values = (copy / "host/controller/deploy/helm/windlass-controller/values.yaml").read_text()
    assert f"{REGISTRY}/windlass-controller" in values
    # And back again, which leaves the tree as it was.
    home(copy, before["repository"], before["registry"])
    assert subprocess.run(["git", "diff", "--exit-code", "--stat"], cwd=copy).returncode == 0


@pytest.mark.parametrize("line", [
    "See https://github.com/elsewhere/windlass for more.",
    "image: registry.elsewhere.example/windlass-controller:v1",
])
def test_a_mention_of_another_home_is_told(copy, line):
    (copy / "docs/glossary.md").open("a").write(line + "\n")
    told = home(copy, "check")
    assert told.returncode == 1 and "elsewhere" in told.stderr, told.stderr


@pytest.mark.parametrize(
    "wrong", ["https://github.com/acme/windlass", "acme", "github.com/acme/w|ndlass", "github.com/"]
)
def test_what_is_no_home_changes_nothing(copy, wrong):
    told = home(copy, wrong, REGISTRY)
    assert told.returncode == 2 and "without a scheme" in told.stderr, told.stderr
    assert subprocess.run(["git", "diff", "--exit-code", "--stat"], cwd=copy).returncode == 0
