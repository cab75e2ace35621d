"""Makes the messages of `windlass_client.policyv1` from the definitions of the policy server's protocol, by protoc as
grpcio-tools has it: generate.py PROTO-FOLDER OUT-FOLDER
"""

import pathlib
import re
import sys
import tempfile

from grpc_tools import protoc

PACKAGE = "windlass_client/policyv1"


def generate(protos: pathlib.Path, out: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        # A module imports others by the place of their definition; and where Go's package is concerns nobody else.
        copies, made = pathlib.Path(work, "protos"), pathlib.Path(work, "made")
        made.mkdir()
        (copies / PACKAGE).mkdir(parents=True)
        files = sorted(protos.glob("windlass/policy/v1/*.proto"))
        for file in files:
            text = re.sub(r"^option go_package = .*\n", "", file.read_text(), flags=re.MULTILINE)
            (copies / PACKAGE / file.name).write_text(text.replace("windlass/policy/v1/", f"{PACKAGE}/"))
        well_known = pathlib.Path(protoc.__file__).parent / "_proto"
        arguments = ["protoc", f"--proto_path={copies}", f"--proto_path={well_known}", f"--python_out={made}",
                     f"--pyi_out={made}", *(f"{PACKAGE}/{file.name}" for file in files)]
        if protoc.main(arguments) != 0:
            raise SystemExit("protoc failed")
        for file in (made / PACKAGE).iterdir():
            (out / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: generate.py PROTO-FOLDER OUT-FOLDER")
    generate(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
