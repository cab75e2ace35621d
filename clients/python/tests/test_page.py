"""The examples of the page about the policy server, run as they stand."""

import os
import pathlib
import re
import subprocess
import sys

from support import Server

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/policy-server.md").read_text()
SOCKET = "/run/windlass/policy.sock"


def examples():
    section = re.search(r"^## Use it from Python\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def page_rules():
    return re.search(r"<!-- file: patience.rules.toml -->\n```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]


def said(example, socket):
    # Nothing of it may need the time that a busy machine takes.
    program = example.replace(f'"{SOCKET}"', f'"{socket}", timeout=60')
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


def test_the_examples_of_the_page_do_what_it_says():
    blocking, tasks = examples()
    server = Server("1")
    try:
        (server.folder / "retry.rules.toml").write_text(page_rules())
        server.start()
        # The second goes on where the first ends.
        done = said(blocking + tasks, server.socket)
        assert done.stdout == "wait 60000 ms: stock may come back\n" * 2, done.stderr
        server.kill()
        assert "using the local default: ConnectionRefusedError" in said(blocking, server.socket).stdout
    finally:
        server.end()
