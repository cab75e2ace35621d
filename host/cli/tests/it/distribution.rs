//! Policies that travel: through real registries (go-containerregistry's, with and without a list of referrers, and
//! CNCF's distribution), signed by minisign's own program and by ours, and by cosign (`cosign.rs`).

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use windlass_test_guests::{KEEP_VOLUMES_FOR_INSPECTION, RETRY};

use crate::support::{Ran, World, skipped};

/// The registry's program, built once from `tests/registry-go`; nothing where there is no Go.
static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registry");
    let usual = std::env::var("PATH").unwrap_or_default() + ":/usr/local/go/bin";
    let built = Command::new("go")
        .args(["build", "-trimpath", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root.join("tests/registry-go"))
        .env("PATH", usual)
        .env("GOFLAGS", "")
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "tests/registry-go does not build");
            Some(program)
        }
        Err(_) => {
            skipped("a real registry needs Go: https://go.dev/dl");
            None
        }
    }
});

/// The folder with cosign and CNCF's distribution: `just test-supply` builds them.
pub static OTHERS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let folder = std::env::var_os("WINDLASS_SUPPLY").map(PathBuf::from);
    if folder.is_none() {
        skipped("cosign and CNCF's distribution take minutes to build: just test-supply");
    }
    folder
});

/// The registries that there are.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// go-containerregistry's, which lists referrers.
    Referrers,
    /// The same without that list.
    Plain,
    /// CNCF's distribution, which has no such list.
    Distribution,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Referrers, Kind::Plain, Kind::Distribution];

    pub fn start(self) -> Option<Registry> {
        match self {
            Kind::Referrers => Registry::start(&["-referrers"]),
            Kind::Plain => Registry::start(&[]),
            Kind::Distribution => Some(Registry::run(Command::new(OTHERS.as_ref()?.join("distribution")))),
        }
    }
}

/// A registry that is killed at the end.
pub struct Registry {
    child: Child,
    pub address: String,
    lines: BufReader<ChildStdout>,
}

impl Registry {
    pub fn start(arguments: &[&str]) -> Option<Registry> {
        let mut command = Command::new(PROGRAM.as_ref()?);
        command.args(arguments);
        Some(Registry::run(command))
    }

    fn run(mut command: Command) -> Registry {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut registry = Registry { child, address: String::new(), lines };
        registry.address = registry.line();
        registry
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn push(world: &World, file: &Path, reference: &str) -> Value {
    world.json(&["policy", "push", file.to_str().unwrap(), reference])
}

/// The name of the policy that is asked first in a slot.
pub fn first_of(world: &World, slot: &str) -> String {
    let listed = world.json(&["policy", "list"]);
    let links = listed["policies"].as_array().unwrap();
    links.iter().find(|link| link["slot"] == slot).unwrap()["policy"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_policy_is_pushed_pulled_and_used_by_digest_also_when_the_registry_is_gone() {
    for kind in Kind::ALL {
        let Some(registry) = kind.start() else { continue };
        let world = World::new("50");
        let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
        let reference = format!("oci://{}/team/keep:1.0.0", registry.address);
        let pushed = push(&world, &file, &reference);
        assert_eq!((&pushed["signed"], &pushed["trusted"]), (&false.into(), &false.into()));
        let again = push(&world, &file, &reference);
        assert_eq!(again["digest"], pushed["digest"], "the same file has the same digest");

        let out = world.home.path().join("pulled.wasm");
        let pulled = world.json(&["policy", "pull", &reference, "--out", out.to_str().unwrap()]);
        assert_eq!(pulled["pinned"], pushed["pinned"]);
        assert_eq!(std::fs::read(&out).unwrap(), KEEP_VOLUMES_FOR_INSPECTION.bytes);

        world.configure(&format!("[policies.rollback]\npath = '{}'\n", pushed["pinned"].as_str().unwrap()));
        drop(registry);
        // It was pulled through the cache, so that nobody has to be asked.
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
        assert!(!world.home.path().join(".config/windlass/config.lock").exists(), "a digest needs no lock");
    }
}

/// `wkg` of the Bytecode Alliance, which hundreds of packages go into: `just test-wkg` builds it.
#[test]
fn what_we_push_wkg_pulls_and_what_wkg_pushes_is_a_policy() {
    let Some(program) = std::env::var_os("WINDLASS_WKG") else {
        skipped("wkg takes minutes to build: just test-wkg");
        return;
    };
    for kind in Kind::ALL {
        let Some(registry) = kind.start() else { continue };
        let world = World::new("50");
        let address = &registry.address;
        let wkg = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.arg("oci").args(arguments).args(["--insecure", address]).current_dir(world.home.path());
            command.env("HOME", world.home.path());
            Ran::of(&mut command).expect(0);
        };
        let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
        push(&world, &file, &format!("oci://{address}/team/ours:1.0.0"));
        wkg(&["pull", &format!("{address}/team/ours:1.0.0"), "--output", "pulled.wasm"]);
        assert_eq!(std::fs::read(world.home.path().join("pulled.wasm")).unwrap(), KEEP_VOLUMES_FOR_INSPECTION.bytes);

        // To go-containerregistry's it pushes nothing: a blob that is sent at once gets no `location` there.
        if !matches!(kind, Kind::Distribution) {
            continue;
        }
        wkg(&["push", &format!("{address}/team/theirs:1.0.0"), "keep.wasm"]);
        world.configure(&format!("[policies.rollback]\npath = 'oci://{address}/team/theirs:1.0.0'\n"));
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    }
}

#[test]
fn a_registry_with_an_authority_of_its_own_is_reached_behind_a_proxy_and_only_when_both_are_named() {
    let world = World::new("50");
    let ca = world.home.path().join("ca.pem");
    let Some(mut registry) = Registry::start(&["-ca", ca.to_str().unwrap()]) else { return };
    let secure = registry.line();
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let file = file.to_str().unwrap();
    let trusting = |host: &str| {
        world.configure(&format!("[policies.registries.hosts.'{host}']\nca = '{}'\n", ca.display()));
    };
    let push = |reference: &str, proxy: &[(&str, &str)]| {
        let mut command = world.command(&["policy", "push", file, reference]);
        for variable in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(variable);
        }
        Ran::of(command.envs(proxy.iter().copied()))
    };

    let direct = format!("oci://{secure}/team/keep:1.0.0");
    trusting(&secure);
    push(&direct, &[]).expect(0);

    let proxy = format!("http://{}", registry.address);
    let behind = "oci://registry.invalid/team/keep:1.0.0";
    push(behind, &[("HTTPS_PROXY", &proxy)]).expect(1).says("certificate");
    trusting("registry.invalid");
    push(behind, &[("HTTPS_PROXY", &proxy)]).expect(0);
    push(behind, &[]).expect(1).says("registry.invalid");
    push(behind, &[("HTTPS_PROXY", &proxy), ("NO_PROXY", "registry.invalid")]).expect(1).says("registry.invalid");

    std::fs::write(&ca, "no certificate").unwrap();
    push(behind, &[("HTTPS_PROXY", &proxy)]).expect(1).says("ca.pem: it holds no PEM certificate");
}

#[test]
fn rules_travel_as_components_do() {
    let Some(registry) = Kind::Distribution.start() else { return };
    let world = World::new("50");
    let rules = "slot = \"retry\"\n\n[[rules]]\nname = \"stock\"\nwhen = \"attempt > 90\"\nanswer = \"give-up\"\n";
    let file = world.write("patience.rules.toml", rules.as_bytes());
    let reference = format!("oci://{}/team/patience:1.0.0", registry.address);
    push(&world, &file, &reference);
    world.configure(&format!("[policies.retry]\npath = '{reference}'\n"));
    let listed = world.json(&["policy", "list"]);
    let links = listed["policies"].as_array().unwrap();
    assert!(links.iter().any(|link| link["source"] == reference.as_str() && link["slot"] == "retry"), "{listed}");
}

#[test]
fn a_tag_that_is_moved_changes_nothing_until_it_is_looked_up_again() {
    let Some(registry) = Registry::start(&[]) else { return };
    let world = World::new("50");
    let reference = format!("oci://{}/team/policy:main", registry.address);
    let keep = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let locked = push(&world, &keep, &reference)["digest"].as_str().unwrap().to_owned();
    world.configure(&format!("[policies.rollback]\npath = '{reference}'\n"));
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    let lock = world.home.path().join(".config/windlass/config.lock");
    assert!(std::fs::read_to_string(&lock).unwrap().contains(&locked));

    let retry = world.write("retry.wasm", RETRY.bytes);
    push(&world, &retry, &reference);
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    assert_eq!(world.json(&["policy", "lock"])["tags"][0]["digest"], locked);
    assert_ne!(world.json(&["policy", "lock", "--update"])["tags"][0]["digest"], locked);
    world.run(&["policy", "list"]).expect(2).says("does not export `windlass:policy/rollback");

    std::fs::write(&lock, "version = 2\n").unwrap();
    world.run(&["policy", "list"]).expect(2).says("config.lock: it is of version 2");
}

/// A key, and the line for the configuration.
fn key(world: &World, name: &str) -> (String, String) {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let path = world.write(name, pair.sk.to_box(None).unwrap().to_string().as_bytes());
    (path.to_str().unwrap().to_owned(), pair.pk.to_base64())
}

#[test]
fn a_file_that_is_no_secret_key_is_said_to_be_none_and_a_public_key_is_recognized() {
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let (_, public) = key(&world, "release.key");
    let sign = |name: &str, contents: &str| {
        let key = world.write(name, contents.as_bytes());
        world.run(&["policy", "sign", file.to_str().unwrap(), "--key", key.to_str().unwrap()]).expect(2)
    };
    for (name, contents) in [("rules.toml", "slot = 'retry'\n\n"), ("one-line", "RWQ"), ("short", "comment\nUldR\n")] {
        sign(name, contents).says("this is not a secret key of minisign");
    }
    sign("release.pub", &format!("untrusted comment: minisign public key\n{public}\n")).says("this is a public key");
}

#[test]
fn where_keys_are_named_nothing_else_is_used_from_a_file_or_a_registry() {
    let Some(registry) = Registry::start(&[]) else { return };
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let (release, public) = key(&world, "release.key");
    let (other, _) = key(&world, "other.key");
    let reference = format!("oci://{}/team/keep:main", registry.address);
    let trusting = |path: &str| {
        world
            .configure(&format!("[policies.rollback]\npath = '{path}'\n[policies.trust.keys]\nrelease = '{public}'\n"));
    };
    world.configure("");
    push(&world, &file, &reference);
    let path = file.to_str().unwrap();
    for source in [path, &reference] {
        trusting(source);
        world.run(&["policy", "list"]).expect(2).says("is not signed, and [policies.trust] takes only");
    }
    let signed = world.json(&["policy", "sign", path, "--key", &other]);
    trusting(path);
    world.run(&["policy", "list"]).expect(2).says(&format!("is signed by the key {}", signed["key"].as_str().unwrap()));
    world.run(&["policy", "push", path, &reference]).expect(2).says("is not trusted; nothing was done");

    let signed = world.json(&["policy", "sign", path, "--key", &release]);
    assert_eq!(signed["public_key"], public.as_str());
    let pushed = push(&world, &file, &reference);
    assert_eq!(pushed["signed_by"], signed["key"]);
    for source in [path, &reference] {
        trusting(source);
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    }
    // The signature of this version beside another one.
    world.write("keep.wasm", RETRY.bytes);
    trusting(path);
    world.run(&["policy", "list"]).expect(2).says("(release) is not of sha256:");
}

#[test]
fn a_pushed_policy_is_trusted_where_a_trusted_key_signed_the_very_file() {
    let Some(registry) = Registry::start(&[]) else { return };
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let (release, public) = key(&world, "release.key");
    let reference = format!("oci://{}/team/keep:main", registry.address);
    let signed = world.json(&["policy", "sign", file.to_str().unwrap(), "--key", &release]);
    let says = |pushed: &Value| ["signed", "trusted", "signatures", "signed_by"].map(|field| pushed[field].clone());
    // Nobody says whose signature it should be, so that it could be of any file: here it is of the one before.
    world.write("keep.wasm", RETRY.bytes);
    assert_eq!(says(&push(&world, &file, &reference)), [true.into(), false.into(), 1.into(), Value::Null]);
    let words = world.run(&["policy", "push", file.to_str().unwrap(), &reference]).expect(0).stdout;
    assert!(words.contains("signed     not verified; no [policies.trust]"), "{words}");
    let pulled = world.json(&["policy", "pull", &reference, "--out", file.to_str().unwrap()]);
    assert_eq!(says(&pulled), [true.into(), false.into(), 1.into(), Value::Null]);

    world.configure(&format!("[policies.trust.keys]\nrelease = '{public}'\n"));
    world.run(&["policy", "push", file.to_str().unwrap(), &reference]).expect(2).says("(release) is not of sha256:");
    world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    assert_eq!(says(&push(&world, &file, &reference)), [true.into(), true.into(), 1.into(), signed["key"].clone()]);
}

#[test]
fn minisigns_own_program_and_ours_take_each_others_signatures() {
    if Command::new("minisign").arg("-v").output().is_err() {
        skipped("minisign is not installed");
        return;
    }
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let minisign = |arguments: &[&str]| {
        let ran = Command::new("minisign").args(arguments).current_dir(world.home.path()).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    minisign(&["-G", "-W", "-p", "its.pub", "-s", "its.key"]);
    let public = std::fs::read_to_string(world.home.path().join("its.pub")).unwrap();
    let configuration = format!(
        "[policies.rollback]\npath = '{}'\n[policies.trust.keys]\nits = '{}'\n",
        file.display(),
        public.lines().nth(1).unwrap()
    );
    world.configure(&configuration);
    minisign(&["-S", "-s", "its.key", "-m", "keep.wasm"]);
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");

    std::fs::remove_file(world.home.path().join("keep.wasm.minisig")).unwrap();
    let key = world.home.path().join("its.key");
    world.json(&["policy", "sign", file.to_str().unwrap(), "--key", key.to_str().unwrap()]);
    minisign(&["-V", "-p", "its.pub", "-m", "keep.wasm"]);
}
