#!/usr/bin/env python3
"""The definitions of a revision, without their descriptions: `definitions.py REVISION > FILE`. Needs PyYAML."""

import json
import subprocess
import sys

import yaml

FOLDER = "host/controller/deploy/crds"


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def bare(value):
    if isinstance(value, dict):
        # A property may be called so, too: then it is a schema.
        return {key: bare(below) for key, below in value.items() if key != "description" or isinstance(below, dict)}
    return [bare(below) for below in value] if isinstance(value, list) else value


def main(revision):
    names = git("ls-tree", "--name-only", revision, f"{FOLDER}/").split()
    documents = [yaml.safe_load(git("show", f"{revision}:{name}")) for name in names]
    definitions = [bare(one) for one in documents if one["kind"] == "CustomResourceDefinition"]
    print("[\n" + ",\n".join(json.dumps(one, sort_keys=True, separators=(",", ":")) for one in definitions) + "\n]")


if __name__ == "__main__":
    main(sys.argv[1])
