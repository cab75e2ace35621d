"""A release, as `just release` leaves it in the folder that WINDLASS_RELEASE names: what it is, and what a user gets.

A test that needs something which is not here says so; with WINDLASS_RELEASE_REQUIRED that is a failure.
"""

import functools
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile

import packaging.version
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = pathlib.Path(os.environ.get("WINDLASS_RELEASE", "nowhere"))
TOOLS = pathlib.Path(os.environ.get("WINDLASS_RELEASE_TOOLS", ROOT / "target/release-tools"))
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
PROGRAMS = ("windlass", "fleeting-plugin-scaleway", "windlass-controller")
ARCHITECTURES = sorted(path.name for path in RELEASE.glob("programs/*"))
HERE = {machine: architecture for architecture, machine in MACHINES.items()}[platform.machine()]
VERSION = subprocess.run([ROOT / "deploy/release/version"], check=True, capture_output=True, text=True).stdout.strip()
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
DROP_IN = "etc/systemd/system/gitlab-runner.service.d/windlass.conf"


def run(*command, **options):
    command = [str(word) for word in command]
    # Tools that show what stands in a program show bytes, too.
    done = subprocess.run(command, text=True, errors="replace", capture_output=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def needs(condition, what):
    if not condition:
        assert "WINDLASS_RELEASE_REQUIRED" not in os.environ, what
        pytest.skip(what)


def only(pattern):
    (found,) = RELEASE.glob(pattern)
    return found


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def commit_time():
    """When the commit was made that the release says it is of."""
    definition = json.loads((RELEASE / "provenance.intoto.json").read_text())["predicate"]["buildDefinition"]
    commit = definition["resolvedDependencies"][0]["digest"]["gitCommit"]
    return int(run("git", "show", "--no-patch", "--format=%ct", commit, cwd=ROOT))


def published():
    """Every file of the release by its place, but the checksums and signatures."""
    apart = {"SHA256SUMS", "rehearsal.pub"}
    files = (p for p in RELEASE.rglob("*") if p.is_file() and p.name not in apart and p.suffix != ".minisig")
    return {p.relative_to(RELEASE).as_posix(): p for p in files}


# What a stranger checks.


def test_the_checksums_name_every_file_and_hold():
    lines = dict(reversed(line.split("  ", 1)) for line in (RELEASE / "SHA256SUMS").read_text().splitlines())
    assert lines == {place: sha256(path) for place, path in published().items()}


def test_the_signature_holds_and_a_changed_checksum_breaks_it(tmp_path):
    needs(shutil.which("minisign"), "minisign is missing: apt-get install minisign")
    key = os.environ.get("WINDLASS_RELEASE_PUBLIC_KEY", RELEASE / "rehearsal.pub")
    said = run("minisign", "-V", "-p", key, "-m", RELEASE / "SHA256SUMS")
    assert f"windlass {VERSION} " in said
    changed = tmp_path / "SHA256SUMS"
    changed.write_text((RELEASE / "SHA256SUMS").read_text().replace("0", "1", 1))
    shutil.copy(RELEASE / "SHA256SUMS.minisig", tmp_path)
    broken = subprocess.run(["minisign", "-V", "-p", key, "-m", changed], capture_output=True, text=True)
    assert broken.returncode != 0 and "verification failed" in broken.stderr


def test_every_ready_made_policy_is_signed():
    needs(shutil.which("minisign"), "minisign is missing: apt-get install minisign")
    key = os.environ.get("WINDLASS_RELEASE_PUBLIC_KEY", RELEASE / "rehearsal.pub")
    policies = [p for p in (RELEASE / "policies").iterdir() if p.suffix != ".minisig"]
    names = {p.name for p in policies}
    assert {"keep-until.wasm", "maximum-age.wasm", "namespace-budget.wasm", "approve-hosts.rules.toml"} <= names
    for policy in policies:
        assert f"windlass {VERSION} " in run("minisign", "-V", "-p", key, "-m", policy)


def test_the_provenance_names_each_file_the_commit_and_what_pins_the_rest():
    statement = json.loads((RELEASE / "provenance.intoto.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert subjects == {
        place: sha256(path) for place, path in published().items() if place != "provenance.intoto.json"}
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["recipe"] == f"just release {VERSION}"
    source, *pins = definition["resolvedDependencies"]
    assert len(source["digest"]["gitCommit"]) == 40
    assert any(pin["uri"].endswith("#Cargo.lock") for pin in pins)
    assert any(pin["uri"].endswith("tools/nfpm/go.sum") for pin in pins)
    assert any(pin["uri"].endswith("clients/node/package-lock.json") for pin in pins)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bill_of_materials_fits_its_schema_and_names_what_is_linked(program):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    file = RELEASE / f"{program}-{VERSION}.cdx.json"
    needs(file.exists() or "WINDLASS_RELEASE_REQUIRED" in os.environ, "made without bills of materials")
    text = file.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    names = {component["name"] for component in json.loads(text)["components"]}
    assert {"wasmtime", "rustls", "windlass-policy"} <= names
    assert "criterion" not in names and "openssl-sys" not in names
    assert str(ROOT) not in text and "/tmp/" not in text


# The programs themselves.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_and_says_its_version(program, architecture):
    command = [RELEASE / "programs" / architecture / program]
    if architecture != HERE:
        emulator = f"qemu-{MACHINES[architecture]}-static"
        needs(shutil.which(emulator), "programs of another architecture need qemu-user-static")
        command.insert(0, emulator)
    asked = "version" if program.startswith("fleeting") else "--version"
    said = run(*command, asked, env={})
    assert VERSION in said, said
    if program.startswith("fleeting"):
        assert f"linux/{architecture}" in said


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_static_and_its_symbols_stand_in_the_file_that_it_names(program, architecture):
    symbols = RELEASE / "symbols" / architecture / f"{program}.debug"
    needs(symbols.exists(), "made of programs of a development build")
    stripped = RELEASE / "programs" / architecture / program
    assert "INTERP" not in run("readelf", "--program-headers", stripped)
    assert ".symtab" not in run("readelf", "--section-headers", "--wide", stripped)
    assert f"{program}.debug" in run("readelf", "--string-dump=.gnu_debuglink", stripped)
    identities = {run("readelf", "--notes", file).split("Build ID: ")[1].split()[0] for file in (stripped, symbols)}
    assert len(identities) == 1
    assert ".debug_line" in run("readelf", "--section-headers", "--wide", symbols)


@pytest.mark.parametrize("archive", sorted(path.name for path in RELEASE.glob("*.tar.gz")))
def test_an_archive_holds_nothing_of_the_machine_that_made_it(archive):
    with tarfile.open(RELEASE / archive) as tar:
        members = tar.getmembers()
    folder = archive.removesuffix(".tar.gz")
    assert all(member.name == folder or member.name.startswith(folder + "/") for member in members)
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", commit_time())}
    names = [member.name for member in members]
    assert names == sorted(names)
    if not folder.endswith(".debug"):
        assert {f"{folder}/LICENSE-MIT", f"{folder}/LICENSE-APACHE"} <= set(names)


def test_the_archive_of_the_command_line_has_its_manual_and_completions(tmp_path):
    name = f"windlass-{VERSION}-linux-{HERE}"
    run("tar", "--extract", "--gzip", "--file", RELEASE / f"{name}.tar.gz", "--directory", tmp_path)
    folder = tmp_path / name
    assert {"windlass.1", "windlass-sweep.1"} <= {page.name for page in (folder / "man").iterdir()}
    assert {file.name for file in (folder / "completions").iterdir()} == {"windlass.bash", "windlass.fish", "_windlass"}
    assert "sweep" in run("bash", "-c", f"source {folder}/completions/windlass.bash; COMP_WORDS=(windlass sw); "
                          "COMP_CWORD=1; _windlass windlass sw windlass; echo ${COMPREPLY[@]}")


# A system of its own: Debian's packages, as a user installs and removes them.


@pytest.fixture(scope="module")
def clean_root(tmp_path_factory):
    needs(os.geteuid() == 0, "a root of its own needs root")
    needs(shutil.which("mmdebstrap"), "mmdebstrap is missing: apt-get install mmdebstrap")
    codename = run("bash", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    folder = pathlib.Path("/etc/apt/sources.list.d")
    sources = [path for path in folder.glob("*.sources") if codename in path.read_text()]
    sources = sources or ["/etc/apt/sources.list"]
    root = tmp_path_factory.mktemp("clean") / "root"
    run("mmdebstrap", "--quiet", "--mode=root", "--variant=apt", codename, root, *sources)
    run("mount", "--bind", "/proc", root / "proc")
    yield root
    run("umount", root / "proc")


def within(root, *command, user="0:0"):
    environment = {"PATH": PATH, "HOME": "/tmp/user", "DEBIAN_FRONTEND": "noninteractive"}
    return run("chroot", f"--userspec={user}", root, *command, env=environment)


def deb(package, root):
    file = only(f"{package}_{VERSION}*_{HERE}.deb")
    shutil.copy(file, root / "tmp")
    return f"/tmp/{file.name}"


def install(root, *packages):
    files = [f"./{deb(package, root).lstrip('/')}" for package in packages]
    within(root, "apt-get", "install", "--yes", "--no-install-recommends", *files)


def test_apt_installs_the_command_line_the_demo_runs_and_removal_leaves_what_is_the_users(clean_root):
    install(clean_root, "windlass")
    said = within(clean_root, "windlass", "demo", user="65534:65534")
    assert "nothing" in said.lower(), said[-2000:]
    for installed in ("usr/share/man/man1/windlass.1.gz", "usr/share/bash-completion/completions/windlass",
                      "usr/share/fish/vendor_completions.d/windlass.fish",
                      "usr/share/zsh/vendor-completions/_windlass"):
        # A minimal system leaves manual pages out, by its own rule.
        assert (clean_root / installed).exists() or installed.startswith("usr/share/man"), installed
    configuration = clean_root / "tmp/user/.config/windlass/config.toml"
    journal = clean_root / "tmp/user/.local/state/windlass/journal"
    for file in (configuration, journal):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    within(clean_root, "apt-get", "purge", "--yes", "windlass")
    assert not (clean_root / "usr/bin/windlass").exists() and not (clean_root / "usr/share/doc/windlass").exists()
    assert configuration.exists() and journal.exists(), "what a person keeps is no package's to take"


def test_apt_keeps_the_plugins_configuration_on_removal_and_its_journal_on_purge_too(clean_root):
    install(clean_root, "fleeting-plugin-scaleway")
    assert VERSION in within(clean_root, "fleeting-plugin-scaleway", "version")
    drop_in, journal = clean_root / DROP_IN, clean_root / "var/lib/windlass/journal.sqlite"
    drop_in.write_text(drop_in.read_text().replace("7200", "3600"))
    # systemd makes this folder when the runner starts.
    journal.parent.mkdir()
    journal.write_text("")

    within(clean_root, "apt-get", "remove", "--yes", "fleeting-plugin-scaleway")
    assert not (clean_root / "usr/bin/fleeting-plugin-scaleway").exists()
    assert "3600" in drop_in.read_text() and journal.exists()
    install(clean_root, "fleeting-plugin-scaleway")
    assert "3600" in drop_in.read_text() and journal.exists(), "an installation takes up what was there"
    said = within(clean_root, "apt-get", "purge", "--yes", "fleeting-plugin-scaleway")
    assert not drop_in.exists() and journal.exists() and "journal in /var/lib/windlass stays" in said, said[-2000:]
    journal.unlink()
    install(clean_root, "fleeting-plugin-scaleway")
    within(clean_root, "apt-get", "purge", "--yes", "fleeting-plugin-scaleway")
    assert not journal.parent.exists(), "an empty folder is nobody's"


def test_debs_own_check_finds_no_error(tmp_path):
    needs(shutil.which("lintian"), "lintian is missing: apt-get install lintian")
    for package in RELEASE.glob("*.deb"):
        # Programs in Rust have their libraries in them, libyaml's translation among these.
        static = "statically-linked-binary,embedded-library"
        run("lintian", "--fail-on", "error", "--suppress-tags", f"{static},no-changelog", package)


def test_rpm_installs_runs_and_keeps_a_changed_configuration(tmp_path):
    needs(shutil.which("rpm") and os.geteuid() == 0, "rpm's own tool is missing: apt-get install rpm")
    rpm = ["rpm", "--root", tmp_path, "--dbpath", "/var/lib/rpm"]
    files = [only(f"{package}-{VERSION}*.{platform.machine()}.rpm") for package in PROGRAMS[:2]]
    run(*rpm, "--install", "--nodeps", *files)
    assert VERSION in run(tmp_path / "usr/bin/windlass", "--version")
    assert (tmp_path / "usr/share/man/man1/windlass.1.gz").exists()
    assert (tmp_path / "usr/share/licenses/windlass/LICENSE-MIT").exists()
    drop_in = tmp_path / DROP_IN
    drop_in.write_text("changed")
    journal = tmp_path / "var/lib/windlass/journal.sqlite"
    journal.parent.mkdir(parents=True)
    journal.write_text("")
    run(*rpm, "--erase", *PROGRAMS[:2])
    assert not (tmp_path / "usr/bin/windlass").exists() and not (tmp_path / "usr/bin/fleeting-plugin-scaleway").exists()
    assert drop_in.with_name("windlass.conf.rpmsave").read_text() == "changed" and journal.exists()


# Container images, from their layouts through a registry.


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Where every layout of the release was pushed to, as it will be to a public one."""
    address = os.environ.get("WINDLASS_REGISTRY")
    needs(address, "tests/release/run starts the registry")
    return address


@pytest.mark.parametrize("program", ["windlass", "windlass-controller"])
def test_an_image_is_whole_and_has_each_architecture(registry, program):
    name = f"{registry}/{program}:v{VERSION}"
    index = json.loads(run(TOOLS / "crane", "manifest", name))
    platforms = [manifest["platform"] for manifest in index["manifests"]]
    assert sorted(p["architecture"] for p in platforms) == ARCHITECTURES and {p["os"] for p in platforms} == {"linux"}
    run(TOOLS / "crane", "validate", "--remote", name)
    for architecture in ARCHITECTURES:
        config = json.loads(run(TOOLS / "crane", "config", "--platform", f"linux/{architecture}", name))["config"]
        assert config["User"] == "65532:65532" and config["Entrypoint"] == [f"/usr/local/bin/{program}"]
        assert config["Labels"]["org.opencontainers.image.version"] == VERSION


@pytest.mark.parametrize("program, arguments, says", [
    ("windlass", ["demo"], "nothing"),
    ("windlass-controller", ["crds"], "CustomResourceDefinition"),
])
def test_an_image_runs_from_its_own_files_alone_as_nobody(registry, tmp_path, program, arguments, says):
    needs(os.geteuid() == 0, "a root of its own needs root")
    needs((RELEASE / "symbols").exists(), "programs of a development build need a C library, which the image has not")
    image, root = tmp_path / "image.tar", tmp_path / "root"
    run(TOOLS / "crane", "export", "--platform", f"linux/{HERE}", f"{registry}/{program}:v{VERSION}", image)
    with tarfile.open(image) as tar:
        tar.extractall(root, filter="tar")
        assert tar.getmember("tmp").mode == 0o1777, "the demo needs a place for what is temporary"
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 100
    # What runs containers brings devices; and the filter leaves nothing that all may write.
    (root / "dev").mkdir()
    for writable in ("tmp", "dev"):
        (root / writable).chmod(0o1777)
    os.chown(root / "home/nonroot", 65532, 65532)
    said = run("chroot", "--userspec=65532:65532", root, f"/usr/local/bin/{program}", *arguments,
               env={"HOME": "/home/nonroot", "PATH": PATH})
    assert says.lower() in said.lower(), said[-2000:]


def test_the_chart_is_pulled_as_it_was_packed(registry, tmp_path):
    run(TOOLS / "helm", "pull", "--plain-http", f"oci://{registry}/charts/windlass-controller", "--version", VERSION,
        "--destination", tmp_path)
    file = f"windlass-controller-{VERSION}.tgz"
    assert (tmp_path / file).read_bytes() == (RELEASE / file).read_bytes()


# The clients of the policy server: each is installed where nothing else is, and asks the released program.


@pytest.fixture
def policy_server(tmp_path):
    """The socket of a `windlass policy serve` whose retry policy waits for 42 ms."""
    rules = tmp_path / "retry.rules.toml"
    rules.write_text('slot = "retry"\n[[rules]]\nname = "wait"\nwhen = "true"\nanswer = { wait = 42 }\n')
    configuration = tmp_path / "config.toml"
    configuration.write_text(f'[policies.retry]\npath = "{rules}"\n')
    # The address of a socket is short, and the folders of tests are not.
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/policy.sock"
        command = [RELEASE / "programs" / HERE / "windlass", "--config", configuration, "--state-dir",
                   tmp_path / "state", "policy", "serve", "--listen", f"unix:{socket}"]
        environment = {"HOME": str(tmp_path), "PATH": PATH}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout.readline() == f"unix:{socket}\n"
            yield socket
            server.terminate()


@pytest.mark.parametrize("package", ["windlass_client-*-py3-none-any.whl", "windlass_client-*.tar.gz"])
def test_pip_installs_the_client_and_a_decision_is_made(policy_server, tmp_path, package):
    package = only(f"clients/{package}")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/pip", "install", "--quiet", package)
    said = run(tmp_path / "venv/bin/python", "-c", """
import importlib.metadata, pathlib, sys, windlass_client
from windlass_client import policyv1 as p
question = p.RetryQuestion(operation="o", step="s", attempt=1, zone="fr-par-1", now=1,
    subject=p.Subject(program=p.PROGRAM_OTHER, owner="tests"),
    failure=p.Failure(message="m", **{"class": p.FAILURE_CLASS_GATEWAY}))
with windlass_client.Client(sys.argv[1], timeout=60) as client:
    decision = client.retry(question, p.RetryAnswer)
print(decision.answer.verdict.wait, decision.error, importlib.metadata.version("windlass-client"))
folder = pathlib.Path(windlass_client.__file__).parent
assert (folder / "py.typed").exists() and (folder / "policyv1/slots_pb2.pyi").exists()
licences = [f.name for f in importlib.metadata.files("windlass-client") if "LICENSE" in f.name]
assert sorted(licences) == ["LICENSE-APACHE", "LICENSE-MIT"], licences
""", policy_server, cwd=tmp_path)
    # Python normalises: 0.2.0-rc.1 is 0.2.0rc1.
    assert said == f"42 None {packaging.version.Version(VERSION)}\n"


def test_npm_installs_the_client_and_a_decision_is_made(policy_server, tmp_path):
    package = only(f"clients/windlass-client-{VERSION}.tgz")
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run("npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", package, cwd=tmp_path)
    (tmp_path / "ask.js").write_text("""
import { Client, policyv1 as p } from "windlass-client";
const question = { operation: "o", step: "s", attempt: 1, zone: "fr-par-1", now: 1n,
  subject: { program: p.Program.OTHER, owner: "tests" }, failure: { message: "m", class: p.FailureClass.GATEWAY } };
const { answer, error } = await new Client(process.argv[2], { timeout: 60_000 }).retry(question, () => ({}));
console.log(String(answer.verdict?.verdict.value), error);
""")
    assert run("node", "ask.js", policy_server, cwd=tmp_path) == "42 undefined\n"
    installed = tmp_path / "node_modules/windlass-client"
    assert {"LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"} == {
        file.name for file in installed.iterdir() if file.name != "node_modules"}
    (tmp_path / "ask.ts").write_text("""
import { Client, policyv1 as p } from "windlass-client";
const { answer, error } = await new Client("policy.sock").retry({}, () => ({}), { signal: AbortSignal.timeout(1) });
answer satisfies p.RetryAnswer;
error satisfies Error | undefined;
""")
    # No types but its own: in particular none of Node.js.
    compiler_options = {"strict": True, "noEmit": True, "module": "NodeNext", "target": "ES2022",
                        "lib": ["ES2022", "DOM"], "types": []}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": compiler_options, "files": ["ask.ts"]}))
    typescript = json.loads((ROOT / "clients/node/package.json").read_text())["devDependencies"]["typescript"]
    run("npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", f"typescript@{typescript}",
        cwd=tmp_path)
    run("node_modules/.bin/tsc", cwd=tmp_path)


# Crates: a policy's author installs the build tool, and builds on the SDK, from their packages.


def test_cargo_installs_from_a_package_and_builds_a_policy_that_the_released_program_accepts(tmp_path):
    needs(list(RELEASE.glob("crates/*")), "made without crates")
    for crate in ("windlass-guest-build", "windlass-guest-sdk"):
        run("tar", "--extract", "--gzip", "--file", only(f"crates/{crate}-{VERSION}.crate"), "--directory", tmp_path)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")}
    environment.pop("RUSTFLAGS", None)
    # Outside the tree: nothing of the workspace helps.
    run("cargo", "install", "--debug", "--locked", "--quiet", "--root", tmp_path, "--path",
        tmp_path / f"windlass-guest-build-{VERSION}", cwd=tmp_path, env=environment)
    policy = tmp_path / "policy"
    (policy / "src").mkdir(parents=True)
    shutil.copy(ROOT / "guest/examples/grace-for-stopped/src/lib.rs", policy / "src")
    shutil.copy(ROOT / "rust-toolchain.toml", policy)
    (policy / "Cargo.toml").write_text(
        '[workspace]\n[package]\nname = "grace-for-stopped"\nversion = "0.1.0"\nedition = "2024"\n'
        '[lib]\ncrate-type = ["cdylib", "rlib"]\n'
        f'[dependencies]\nwindlass-guest-sdk = {{ path = "../windlass-guest-sdk-{VERSION}" }}\n'
        '[profile.guest]\ninherits = "release"\nopt-level = "s"\npanic = "abort"\nstrip = true\n')
    run(tmp_path / "bin/windlass-guest-build", "--out", tmp_path / "policies", "grace-for-stopped", cwd=policy,
        env=environment)
    built = tmp_path / "policies/grace-for-stopped.wasm"
    said = run(RELEASE / "programs" / HERE / "windlass", "policy", "inspect", built,
               env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert "state-mapping" in said, said


def test_every_public_crate_is_a_package_and_the_contract_is_two_components_of_wit():
    needs(list(RELEASE.glob("crates/*")), "made without crates")
    crates = {file.name.removesuffix(f"-{VERSION}.crate") for file in RELEASE.glob("crates/*")}
    public = set(run("bash", "-c", "just --evaluate public", cwd=ROOT).split())
    assert crates == public
    packages = sorted(RELEASE.glob("wit/*.wasm"))
    assert [package.name.rsplit("-", 1)[0] for package in packages] == ["windlass-policy", "windlass-scaleway"]
    # The binary form of a component, not of a module.
    assert all(package.read_bytes()[:8] == b"\0asm\x0d\0\x01\0" for package in packages)
