"""What `just release` and the recipes around it refuse or skip, and how they say so."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path):
    """The files that git knows, as they are now, committed in a repository of their own."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["cp", "--parents", "-a", "-t", tree, *filter(None, listed.split(b"\0"))], cwd=ROOT, check=True)
    identity = ["-c", "user.name=Anybody", "-c", "user.email=anybody@example.com"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "All"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


def called(tree, program, *arguments):
    return subprocess.run([f"deploy/release/{program}", *arguments], cwd=tree, text=True, capture_output=True)


def test_a_tree_with_changes_is_refused_with_what_to_do(copy):
    version = called(copy, "version").stdout.strip()
    (copy / "README.md").open("a").write("x")
    refused = called(copy, "release", version)
    assert refused.returncode == 1
    assert "commit or stash them" in refused.stderr and "--rehearse" in refused.stderr
    assert not (copy / "dist").exists()


def test_another_version_is_refused_with_the_command_that_sets_it(copy):
    refused = called(copy, "release", "9.8.7")
    assert refused.returncode == 1 and "deploy/release/version 9.8.7" in refused.stderr


def test_a_folder_with_something_in_it_is_not_overwritten(copy, tmp_path):
    version = called(copy, "version").stdout.strip()
    (tmp_path / "kept").write_text("")
    refused = called(copy, "release", version, "--output", str(tmp_path))
    assert refused.returncode == 1 and "is not empty" in refused.stderr


def test_one_command_sets_the_version_and_another_mention_is_told(copy):
    before = called(copy, "version").stdout.strip()
    moved = called(copy, "version", "9.8.7")
    assert moved.returncode == 0, moved.stderr
    assert called(copy, "version").stdout.strip() == "9.8.7" and called(copy, "version", "check").returncode == 0
    chart = copy / "host/controller/deploy/helm/windlass-controller/Chart.yaml"
    assert "appVersion: v9.8.7" in chart.read_text()
    assert 'version = "9.8.7"' in (copy / "clients/python/pyproject.toml").read_text()
    for file, times in (("package.json", 1), ("package-lock.json", 2)):
        assert (copy / "clients/node" / file).read_text().count('"version": "9.8.7"') == times
    assert f'name = "windlass-cli"\nversion = "9.8.7"' in (copy / "Cargo.lock").read_text()
    chart.write_text(chart.read_text().replace("9.8.7", before))
    told = called(copy, "version", "check")
    assert told.returncode == 1 and f"Chart.yaml {before}" in told.stderr
    called(copy, "version", before)
    assert subprocess.run(["git", "diff", "--exit-code", "--stat"], cwd=copy).returncode == 0


def test_a_version_whose_suffix_not_all_packages_know_is_refused(copy):
    for version in ("0.2", "0.2.0-1", "0.2.0-rc1", "0.2.0-rc.01", "0.2.0-dev.1", "0.2.0-rc.1.2", "v0.2.0"):
        refused = called(copy, "version", version)
        assert refused.returncode == 2 and f"{version} is not like 0.2.0 or 0.2.0-rc.1" in refused.stderr, refused


@pytest.mark.parametrize("version", ["0.2.0-alpha.1", "0.2.0-beta.12", "0.2.0-rc.0"])
def test_a_version_before_a_release_is_set_everywhere(copy, version):
    moved = called(copy, "version", version)
    assert moved.returncode == 0, moved.stderr
    assert called(copy, "version").stdout.strip() == version and called(copy, "version", "check").returncode == 0


def test_a_machine_without_pip_is_told_what_to_install(tmp_path):
    for program in ("python3", "npm"):
        (tmp_path / program).write_text('#!/bin/sh\necho "nothing of this works here" >&2\nexit 1\n')
        (tmp_path / program).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    refused = subprocess.run(
        [ROOT / "deploy/release/clients", tmp_path], env=environment, text=True, capture_output=True)
    assert refused.returncode == 1
    assert refused.stderr == (
        "release: python3 has no pip here: apt-get install python3-pip, or python3 -m ensurepip\n")


def test_messages_of_a_language_that_is_missing_are_skipped(tmp_path):
    for program in ("bash", "cat", "cmp", "cp", "git", "just"):
        (tmp_path / program).symlink_to(shutil.which(program))
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    skipped = subprocess.run(
        ["just", "_go_messages", "_python_messages", "_node_messages"], cwd=ROOT, env=environment, text=True,
        capture_output=True)
    assert skipped.returncode == 0, skipped.stderr
    assert [line.split(" need")[0] for line in skipped.stdout.splitlines()] == [
        "SKIPPED: the messages in Go", "SKIPPED: the client in Python", "SKIPPED: the client in Node.js"]


def test_packages_of_node_are_installed_once_for_each_lock_file(copy, tmp_path):
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\nmkdir -p node_modules\necho "$PWD" >> {tmp_path}/installed\n')
    npm.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def installed():
        subprocess.run(["just", "_clients_node"], cwd=copy, env=environment, check=True, capture_output=True)
        return [pathlib.Path(folder).name for folder in (tmp_path / "installed").read_text().splitlines()]

    assert installed() == ["node", "generate"]
    assert installed() == ["node", "generate"]
    (copy / "clients/node/package-lock.json").open("a").write("\n")
    assert installed() == ["node", "generate", "node"]


def test_a_comparison_names_the_file_within_an_archive_that_differs(tmp_path):
    for build, text in (("one", "a"), ("other", "b")):
        folder = tmp_path / build
        (folder / "inside").mkdir(parents=True)
        (folder / "inside/program").write_text(text)
        (folder / "same").write_text("same")
        subprocess.run(["tar", "--create", "--gzip", "--file", "x.tar.gz", "inside"], cwd=folder, check=True)
    told = called(ROOT, "compare", str(tmp_path / "one"), str(tmp_path / "one"))
    assert told.returncode == 0 and "3 files are equal byte for byte, 0 differ" in told.stdout
    told = called(ROOT, "compare", str(tmp_path / "one"), str(tmp_path / "other"))
    assert told.returncode == 1 and "different: x.tar.gz" in told.stdout and "inside/program" in told.stdout
