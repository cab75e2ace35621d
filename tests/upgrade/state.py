#!/usr/bin/env python3
"""Makes a state directory as a version of Windlass leaves it, in the middle of its work.

`state.py make WINDLASS HOME`: runs that program against its own simulator, which goes on; its address is the last line.
`state.py freeze WINDLASS FOLDER`: the same, and writes what a test needs to open it later into FOLDER.

What is there afterwards: servers of ended creations, a creation that was undone, a deletion that is done, a creation
and a cluster's scaling that were killed in the middle, an operation whose last answer was lost, a cluster, the decision
log, compiled policies, and locks.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

# Gives up soon, so that failures take no minutes; a chain, since policies are a part of what is upgraded.
CONFIGURATION = """
owner = "upgrade"
[policies.retry]
settings = { attempts = 2, undo-attempts = 2, base-ms = 1, cap-ms = 1, transient-ms = 1 }
"""
FARM = """
name = "farm"
zone = "fr-par-1"
[groups.workers]
count = 2
types = ["DEV1-S"]
image = "ubuntu_noble"
"""
KEY = "11111111-1111-1111-1111-111111111111"
PROJECT = "22222222-2222-2222-2222-222222222222"
STATE = ".local/state/windlass"


class World:
    """A home, a simulator, and the program."""

    def __init__(self, windlass, home):
        self.windlass, self.home = str(pathlib.Path(windlass).resolve()), pathlib.Path(home)
        self.environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        (self.home / ".config/windlass").mkdir(parents=True)
        (self.home / ".config/windlass/config.toml").write_text(CONFIGURATION)
        (self.home / "farm.toml").write_text(FARM)
        self.simulator = subprocess.Popen(
            [self.windlass, "simulator", "--listen", "127.0.0.1:0", "--seed", "7", "--quiet", "--time-scale", "100"],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.environment, text=True, start_new_session=True,
        )
        self.url = self.simulator.stdout.readline().strip()
        self.environment |= {
            "SCW_API_URL": self.url, "SCW_SECRET_KEY": KEY, "SCW_DEFAULT_PROJECT_ID": PROJECT,
            "SCW_DEFAULT_ZONE": "fr-par-1",
        }

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_simulator/{path}", data, method=method)
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def fault(self, method, path, kind, effect="before"):
        self.control("POST", "faults", {"method": method, "path": path, "kind": kind, "effect": effect})

    def start(self, *arguments):
        return subprocess.Popen(
            [self.windlass, *arguments], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def run(self, *arguments, codes=(0,)):
        process = self.start(*arguments)
        said, _ = process.communicate()
        assert process.returncode in codes, f"{arguments} ended with {process.returncode}\n{said}"
        return said

    def create(self, group, *more, codes=(0,)):
        options = ["--group", group, "--type", "DEV1-S", "--image", "ubuntu_noble"]
        return self.run("server", "create", *options, *more, codes=codes)

    def start_until(self, method, end, *arguments):
        """Starts a command, and waits until it has sent a request whose path ends so."""
        before = len(self.control("GET", "requests"))
        process = self.start(*arguments)
        for _ in range(6000):
            requests = self.control("GET", "requests")[before:]
            if any(request["method"] == method and request["path"].endswith(end) for request in requests):
                return process
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        raise AssertionError(f"{arguments} never sent {method} ...{end}")

    def database(self, name):
        return contextlib.closing(sqlite3.connect(self.home / STATE / name))


def live(world):
    """The life that is left behind."""
    action = "/instance/v1/zones/*/servers/*/action"
    world.create("web", "--count", "2")
    world.fault("POST", action, "internal-server-error")
    world.create("failing", codes=(1,))
    world.control("DELETE", "faults")
    servers = json.loads(world.run("server", "list", "--group", "web", "--output", "json"))
    servers = servers["servers"] if isinstance(servers, dict) else servers
    world.run("server", "delete", servers[0]["id"], "--yes")
    world.run("cluster", "create", "farm.toml")
    # No answer comes, and nothing is found: the call may still take effect, so a second look is due later.
    world.fault("POST", "/instance/v1/zones/*/servers", "dropped-connection")
    world.create("lost", codes=(1, 3))
    world.control("DELETE", "faults")
    # Killed while the power is being switched on, and while a server is being made: nobody has the answers. Both at
    # once, or the second would end what the first has left.
    world.fault("POST", action, "delay:600000")
    options = ["--group", "open", "--type", "DEV1-S", "--image", "ubuntu_noble"]
    creation = world.start_until("POST", "/action", "server", "create", *options)
    world.fault("POST", "/instance/v1/zones/*/servers", "delay:600000")
    scaling = world.start_until("POST", "/servers", "cluster", "scale", "farm", "workers=3", "--yes")
    for process in (creation, scaling):
        process.send_signal(signal.SIGKILL)
        process.communicate()
    world.control("DELETE", "faults")


def told(world):
    """What the program itself says of it."""
    def document(kind, *fields):
        arguments = ["--limit", "1000"] if kind == "decision" else []
        entries = json.loads(world.run(kind, "list", *arguments, "--output", "json"))[f"{kind}s"]
        return [{field: entry[field] for field in fields} for entry in entries]

    return {
        "operations": document("operation", "id", "kind", "state"),
        "servers": document("server", "id", "name", "group"),
        "decisions": document("decision", "id", "slot"),
    }


def at_scaleway(world):
    """What is needed to make the same there again."""
    all_ = world.control("GET", "resources")
    assert not all_["private_nics"] and not all_["ssh_keys"]

    def server(one):
        return {
            **{key: one[key] for key in ("id", "name", "commercial_type", "tags", "state")},
            "image": one["image"]["id"],
            "public_ips": [address["id"] for address in one["public_ips"]],
            "volumes": [volume["id"] for volume in one["volumes"].values()],
        }

    return {
        "servers": [server(one) for one in all_["servers"]],
        "ips": [{key: one[key] for key in ("id", "type", "tags")} for one in all_["ips"]],
        "volumes": [{key: one[key] for key in ("id", "tags")} for one in all_["volumes"]],
    }


def freeze(world, folder):
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "decisions", ignore_errors=True)
    for name in ("journal", "clusters"):
        with world.database(f"{name}.sqlite") as database:
            version = database.execute("pragma user_version").fetchone()[0]
            lines = [*database.iterdump(), f"pragma user_version = {version};"]
        (folder / f"{name}.sql").write_text("\n".join(lines) + "\n")
    shutil.copytree(world.home / STATE / "decisions", folder / "decisions")
    for name, document in {"resources.json": at_scaleway(world), "told.json": told(world)}.items():
        (folder / name).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file():
            text = path.read_text()
            for private in (str(world.home), KEY, os.environ["HOME"]):
                assert private not in text, f"{path} holds {private}"


def main():
    what, windlass, folder = sys.argv[1:]
    if what == "make":
        world = World(windlass, folder)
        live(world)
        print(world.simulator.pid)
        print(world.url)
        return
    with tempfile.TemporaryDirectory() as home:
        world = World(windlass, home)
        try:
            live(world)
            freeze(world, pathlib.Path(folder))
        finally:
            world.simulator.kill()


if __name__ == "__main__":
    main()
