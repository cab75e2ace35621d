#!/usr/bin/env python3
"""Upgrades for real and goes back: `both_ways.py OLDER NEWER [POLICY...]`, two programs, and policies of the older one.

The older one leaves its work in the middle; the newer one has to read all of it, finish it and lose nothing. Going
back, the older one either works on, or refuses with both versions in its message and changes nothing.
"""

import hashlib
import pathlib
import sys
import tempfile

from state import STATE, World, live, told


def files(world):
    """What stands in the state directory, by name: the locks, caches and what SQLite keeps for readers left out."""
    root = world.home / STATE
    left_out = ("-shm", "-wal", ".lock")
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(left_out)
        and path.relative_to(root).parts[0] not in ("cache", "hosts", "runners", "trials")
    }


def version(world, name):
    with world.database(name) as database:
        return database.execute("pragma user_version").fetchone()[0]


def ids(document, kind):
    return {entry["id"] for entry in document[kind]}


def main(older, newer, policies):
    with tempfile.TemporaryDirectory() as home:
        world = World(older, home)
        try:
            upgrade(world, older, newer, policies)
        finally:
            world.simulator.kill()


def upgrade(world, older, newer, policies):
    live(world)
    before = told(world)
    versions = {name: version(world, name) for name in ("journal.sqlite", "clusters.sqlite")}
    print(f"left by the older one: {len(ids(before, 'operations'))} operations, "
          f"{len(ids(before, 'decisions'))} decisions, versions {versions}")

    world.windlass = str(pathlib.Path(newer).resolve())
    for policy in policies:
        world.run("policy", "check", str(pathlib.Path(policy).resolve()))
    # 3 says that the second look at calls without an answer is due later.
    world.run("operation", "resume", codes=(0, 3))
    world.run("cluster", "resume", codes=(0, 3))
    after = told(world)
    for kind in ("operations", "decisions"):
        lost = ids(before, kind) - ids(after, kind)
        assert not lost, f"{kind} that are lost: {lost}"
    states = {entry["state"] for entry in after["operations"]}
    assert "open" not in states, f"open after the upgrade: {after['operations']}"
    groups = {server["group"] for server in after["servers"]}
    assert "web" in groups and not {"failing", "lost"} & groups, groups
    print(f"finished by the newer one, nothing lost; {len(policies)} policies load")

    migrated = {name: version(world, name) for name in versions}
    world.windlass = str(pathlib.Path(older).resolve())
    for name, command in (("journal.sqlite", ["operation", "list"]), ("clusters.sqlite", ["cluster", "list"])):
        if migrated[name] == versions[name]:
            world.run(*command)
            print(f"back: {name} has the version {versions[name]} for both, and the older one reads it")
            continue
        untouched = files(world)
        process = world.start(*command)
        said, _ = process.communicate()
        assert process.returncode != 0, f"{command} of the older one goes on with version {migrated[name]}"
        for number in (migrated[name], versions[name]):
            assert str(number) in said, f"{command} does not name version {number}: {said}"
        assert files(world) == untouched, f"{command} was refused and has changed something"
        print(f"back: the older one refuses {name}: {' '.join(said.split())}")

    world.windlass = str(pathlib.Path(newer).resolve())
    world.control("POST", "clock", {"advance_ms": 3_600_000})
    world.run("cluster", "terminate", "farm", "--yes")
    for group in groups - {"farm"}:
        world.run("server", "delete", "--group", group, "--yes")
    left = {kind: len(all_) for kind, all_ in world.control("GET", "resources").items() if all_}
    assert not left, f"left at Scaleway: {left}"
    print("removed by the newer one: nothing is left")
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
