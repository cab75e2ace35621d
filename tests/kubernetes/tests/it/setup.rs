//! Macs that the controller sets up over ssh, with a real sshd in their place.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, Sshd, User, eventually};

/// What must be seen nowhere.
const TOKEN: &str = "gl0-registration-token-of-the-fleet";

/// A scene whose hosts are reached.
struct Macs<'plane> {
    scene: Scene<'plane>,
    sshds: Vec<Sshd>,
    port: u16,
}

impl<'plane> Macs<'plane> {
    /// As many hosts, each with an sshd that lets the fleet's key in, whose private half stands in the Secret
    /// `fleet-key`. The Secret `token` has [`TOKEN`].
    async fn new(plane: &'plane ControlPlane, name: &str, count: u8) -> Result<Option<Self>> {
        let Some(program) = Sshd::found() else { return Ok(None) };
        let scene = Scene::new(plane, name).await?;
        let port = Sshd::port()?;
        let mut sshds: Vec<Sshd> = Vec::new();
        for (number, id) in (1..).zip(scene.scaleway().add_hosts(count.into(), [])?) {
            let address = Ipv4Addr::new(127, 77, 0, number);
            let sshd = Sshd::start(&program, &scene.folder().join(format!("mac-{number}")), address, port)?;
            if let Some(first) = sshds.first() {
                sshd.accept(first)?;
            }
            sshds.push(sshd);
            scene.scaleway().simulator().set_apple_silicon_address(&id, address)?;
        }
        let mut key = secret("fleet-key", json!({"ssh-privatekey": sshds[0].user_key()?}));
        key["type"] = json!("kubernetes.io/ssh-auth");
        scene.apply(&key).await?;
        scene.apply(&secret("token", json!({"token": TOKEN}))).await?;
        Ok(Some(Self { scene, sshds, port }))
    }

    /// Makes the ConfigMap `mac-setup` of these files.
    async fn files(&self, files: Value) -> Result<()> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mac-setup"}, "data": files});
        self.scene.apply(&map).await.map(drop)
    }

    /// A machine that is set up by the ConfigMap, with these fields beside.
    fn machine(&self, name: &str, fields: Value) -> Result<Value> {
        let mut setup = json!({
            "configMapRef": {"name": "mac-setup"}, "secretRef": {"name": "token"},
            "sshKeySecretRef": {"name": "fleet-key"},
            "user": Sshd::user()?, "port": self.port,
        });
        for (field, value) in fields.as_object().context("fields")? {
            setup[field] = value.clone();
        }
        Ok(MachineOptions::default().with("setup", setup).machine(name))
    }

    /// The sshd of the host that a machine has.
    fn sshd_of(&self, machine: &DynamicObject) -> Result<&Sshd> {
        let addresses = machine.data["status"]["addresses"].as_array().context("no addresses")?;
        let ip = addresses.iter().find(|one| one["type"] == "ExternalIP").context("no address")?;
        let sshd = self.sshds.iter().find(|sshd| ip["address"] == sshd.address().to_string());
        sshd.context("no sshd has this address")
    }

    /// Waits until the condition `Bootstrapped` has this status and reason.
    async fn bootstrapped(&self, name: &str, status: &str, reason: &str) -> Result<DynamicObject> {
        eventually(&format!("{name} is Bootstrapped={status} because of {reason}"), || async {
            let machine = self.scene.api(Kind::AppleSiliconMachine).get(name).await?;
            let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|one| one["type"] == "Bootstrapped");
            let found = found.with_context(|| format!("{:#}", machine.data["status"]))?;
            ensure!(found["status"] == status && found["reason"] == reason, "{:#}", machine.data["status"]);
            Ok(machine)
        })
        .await
    }

    /// Whether the secrets are nowhere but where they belong: not in the object, its events, the log or the state
    /// folder.
    async fn nothing_leaked(&self, name: &str, log: &str) -> Result<()> {
        let machine = self.scene.api(Kind::AppleSiliconMachine).get_opt(name).await?;
        let seen = format!("{}\n{:?}\n{log}", serde_json::to_string(&machine)?, self.scene.events(name).await?);
        let private = self.sshds[0].user_key()?;
        let private = private.lines().nth(1).context("a key")?;
        for (what, secret) in [("the token", TOKEN), ("the private key", private)] {
            ensure!(!seen.contains(secret), "{what} in:\n{seen}");
            let found = Command::new("grep").args(["-rlF", secret]).arg(self.scene.folder().join("state")).output()?;
            ensure!(found.status.code() == Some(1), "{what} in {}", String::from_utf8_lossy(&found.stdout));
        }
        Ok(())
    }

    async fn end(self) -> Result<()> {
        self.scene.end().await
    }
}

fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mac_is_set_up_over_ssh_with_its_files_and_secrets_and_says_so() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup", 1).await? else { return Ok(()) };
    macs.files(json!({
        "setup.sh": "#!/bin/sh\nset -eu\ncat other.txt \"$WINDLASS_SECRETS/token\" > ~/done\nenv | grep ^WINDLASS_ >> \
         ~/done\n\
                     cat \"$WINDLASS_SECRETS/token\"; echo; echo all is well\n",
        "other.txt": "another file\n",
    }))
    .await?;
    let controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;
    macs.scene.ready_machines(1).await?;

    let sshd = macs.sshd_of(&machine)?;
    let done = std::fs::read_to_string(sshd.home().join("done"))?;
    ensure!(done.starts_with(&format!("another file\n{TOKEN}")), "{done}");
    let provider = machine.data["spec"]["providerID"].as_str().context("no provider id")?;
    ensure!(
        done.contains(&format!("WINDLASS_PROVIDER_ID={provider}\n")) && done.contains("WINDLASS_ATTEMPT=1\n"),
        "{done}"
    );
    // Nothing of it stays on the host, the secrets least of all.
    let left: Vec<_> = std::fs::read_dir(sshd.home().join(".windlass-setup"))?.collect();
    ensure!(left.is_empty(), "{left:?}");

    let setup = &machine.data["status"]["setup"];
    ensure!(setup["state"] == "Succeeded" && setup["exitCode"] == 0 && setup["failures"] == 0, "{setup:#}");
    ensure!(setup["output"] == "[redacted]\nall is well", "{setup:#}");
    ensure!(setup["hostKey"] == sshd.host_key()?, "{setup:#}");
    ensure!(machine.annotations().get("windlass.dev/set-up").is_some_and(|host| provider.ends_with(host.as_str())));
    macs.nothing_leaked("mac", &controller.log()).await?;
    // Once is enough.
    macs.scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(sshd.log().matches("Accepted publickey").count() == 1, "{}", sshd.log());
    macs.end().await
}

/// A script that ends with `exit 3` on the first host that it ever ran on.
fn failing_on_the_first(folder: &Path) -> String {
    format!(
        "#!/bin/sh\nbad={}/bad\n[ -e $bad ] || echo $WINDLASS_SERVER_ID > $bad\n\
         [ $(cat $bad) != $WINDLASS_SERVER_ID ] || {{ echo no disk for $(cat $WINDLASS_SECRETS/token) >&2; exit 3; \
         }}\n",
        folder.display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mac_whose_set_up_keeps_failing_is_rebooted_and_then_replaced_by_the_release_policy() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup-fails", 2).await? else { return Ok(()) };
    macs.files(json!({"setup.sh": failing_on_the_first(macs.scene.folder())})).await?;
    let settings = json!({"reboot-after-failures": 1, "give-up-after-failures": 2});
    let options = ControllerOptions::configured(json!({"policies": {"release": {"settings": settings}}}));
    let controller = macs.scene.start(&options).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;

    let bad = std::fs::read_to_string(macs.scene.folder().join("bad"))?;
    let host = macs.scene.scaleway().host(bad.trim())?;
    ensure!(host.reboots == 1 && host.wiped_as.len() == 1, "{host:#?}");
    let provider = machine.data["spec"]["providerID"].as_str().context("no provider id")?;
    ensure!(!provider.ends_with(bad.trim()), "{provider}");
    let setup = &machine.data["status"]["setup"];
    ensure!(setup["failures"] == 2 && setup["attempt"] == 1, "{setup:#}");
    ensure!(setup["hostKey"] == macs.sshd_of(&machine)?.host_key()?, "{setup:#}");
    let events = macs.scene.events("mac").await?.join("\n");
    let failed = "Warning SetupFailed: setup.sh ended with exit code 3; it said: no disk for [redacted]";
    for told in [failed, "Warning HostRebooted", "Warning HostReplaced", "Normal SetUp: run 1"] {
        ensure!(events.contains(told), "{told} is not among\n{events}");
    }
    macs.nothing_leaked("mac", &controller.log()).await?;
    macs.scene.check_hosts(&[]).await?;
    macs.end().await
}

/// The number in a file, once it is there.
async fn number(file: &Path) -> Result<u32> {
    eventually("a number is written", || async { Ok(std::fs::read_to_string(file)?.trim().parse()?) }).await
}

async fn is_gone(process: u32) -> Result<()> {
    eventually(&format!("the process {process} is gone"), || async {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // A zombie whose parent has other things to do runs no more.
        ensure!(stat.is_empty() || stat.contains(") Z "), "{stat}");
        Ok(())
    })
    .await
}

const HANGS: &str = "#!/bin/sh\necho $$ > ~/running\nsleep 3600 &\nwait\n";
const ENDS: &str = "#!/bin/sh\necho at last\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_hangs_is_ended_at_its_time_limit_and_a_corrected_one_is_run_then() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup-hangs", 1).await? else { return Ok(()) };
    macs.files(json!({"setup.sh": HANGS})).await?;
    let _controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({"timeLimitSeconds": 10}))?).await?;
    // What needs the machine alone does not wait for its set-up.
    macs.bootstrapped("mac", "False", "SettingUp").await?;
    macs.scene.ready_machines(1).await?;
    let running = number(&macs.sshds[0].home().join("running")).await?;
    macs.bootstrapped("mac", "False", "SetupFailed").await?;
    is_gone(running).await?;
    macs.files(json!({"setup.sh": ENDS})).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;
    ensure!(machine.data["status"]["setup"]["output"] == "at last", "{:#}", machine.data["status"]["setup"]);
    let events = macs.scene.events("mac").await?.join("\n");
    ensure!(events.contains("SetupFailed: setup.sh did not end within its time limit of 10 s"), "{events}");
    macs.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_up_whose_controller_is_killed_ends_on_the_mac_and_is_begun_anew() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup-killed", 1).await? else { return Ok(()) };
    macs.files(json!({"setup.sh": HANGS})).await?;
    let mut controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let running = number(&macs.sshds[0].home().join("running")).await?;
    controller.kill();
    is_gone(running).await?;
    macs.files(json!({"setup.sh": ENDS})).await?;
    let _controller = macs.scene.start(&ControllerOptions::default()).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;
    let setup = &machine.data["status"]["setup"];
    ensure!(setup["attempt"] == 2 && setup["failures"] == 0, "{setup:#}");
    macs.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_run_has_left_on_the_mac_is_ended_before_the_next_one_begins() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup-left", 1).await? else { return Ok(()) };
    macs.files(json!({"setup.sh": HANGS})).await?;
    let mut controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let running = number(&macs.sshds[0].home().join("running")).await?;
    // All that would end it dies first: the guard on the Mac, and the controller.
    let stat = std::fs::read_to_string(format!("/proc/{running}/stat"))?;
    let guard = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).context("no parent")?.to_owned();
    let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children"))?;
    let others = children.split_whitespace().filter(|child| *child != running.to_string()).map(str::to_owned);
    let killed = Command::new("kill").arg("-9").args(others).arg(guard).status()?;
    ensure!(killed.success());
    controller.kill();
    ensure!(Path::new(&format!("/proc/{running}")).exists(), "it was to be left");

    // A zombie whose parent has other things to do runs no more.
    let still = format!("#!/bin/sh\ncase \"$(ps -o stat= -p {running})\" in ''|Z*) echo alone;; *) echo two;; esac\n");
    macs.files(json!({"setup.sh": still})).await?;
    let _controller = macs.scene.start(&ControllerOptions::default()).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;
    ensure!(machine.data["status"]["setup"]["output"] == "alone", "{:#}", machine.data["status"]["setup"]);
    is_gone(running).await?;
    macs.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mac_that_does_not_answer_yet_is_tried_again_and_another_host_key_gets_nothing() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(mut macs) = Macs::new(plane, "setup-key", 1).await? else { return Ok(()) };
    macs.files(json!({"setup.sh": "#!/bin/sh\necho not yet\nexit 75\n"})).await?;
    macs.sshds[0].stop();
    let controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let machine = macs.bootstrapped("mac", "False", "SetupRetried").await?;
    ensure!(machine.data["status"]["setup"]["failures"] == 0, "{:#}", machine.data["status"]["setup"]);
    macs.sshds[0].start_again()?;
    eventually("the script runs, and asks for another run", || async {
        let machine = macs.scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        ensure!(machine.data["status"]["setup"]["exitCode"] == 75, "{:#}", machine.data["status"]["setup"]);
        Ok(())
    })
    .await?;

    macs.sshds[0].replace()?;
    let logins = macs.sshds[0].log().matches("Accepted publickey").count();
    let machine = macs.bootstrapped("mac", "False", "SetupFailed").await?;
    let status = serde_json::to_string(&machine.data["status"]["conditions"])?;
    ensure!(status.contains("stopped before logging in"), "{status}");
    // Somebody says that it is the right one.
    macs.files(json!({"setup.sh": ENDS})).await?;
    let setup = json!({"spec": {"setup": {"hostKeys": [macs.sshds[0].host_key()?]}}});
    ensure!(macs.sshds[0].log().matches("Accepted publickey").count() == logins, "{}", macs.sshds[0].log());
    macs.scene.patch(Kind::AppleSiliconMachine, "mac", setup).await?;
    macs.bootstrapped("mac", "True", "SetUp").await?;
    macs.nothing_leaked("mac", &controller.log()).await?;
    macs.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mac_is_torn_down_before_its_release_and_released_also_when_that_fails() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "teardown", 2).await? else { return Ok(()) };
    macs.files(json!({
        "setup.sh": ENDS,
        "leave.sh": "#!/bin/sh\n[ $WINDLASS_MACHINE = good ] || { echo no way; exit 1; }\n\
                     cat \"$WINDLASS_SECRETS/token\" > ~/left; echo $WINDLASS_ACTION >> ~/left\n",
    }))
    .await?;
    let controller = macs.scene.start(&ControllerOptions::default()).await?;
    for name in ["good", "bad"] {
        macs.scene.apply(&macs.machine(name, json!({"teardown": {"script": "leave.sh"}}))?).await?;
    }
    let good = macs.bootstrapped("good", "True", "SetUp").await?;
    macs.bootstrapped("bad", "True", "SetUp").await?;
    for (name, told) in [
        ("good", "Normal TornDown"),
        (
            "bad",
            "Warning TeardownFailed: the host is released without a successful tear-down: leave.sh ended with exit code 1; it said: no way",
        ),
    ] {
        macs.scene.delete(Kind::AppleSiliconMachine, name).await?;
        macs.scene.gone(Kind::AppleSiliconMachine, name).await?;
        let events = macs.scene.events(name).await?;
        let place = |told: &str| events.iter().position(|event| event.contains(told));
        ensure!(place(told).is_some() && place("ReturnedToPool").is_some(), "{told} is not among\n{events:#?}");
    }
    let left = std::fs::read_to_string(macs.sshd_of(&good)?.home().join("left"))?;
    ensure!(left == format!("{TOKEN}tear-down\n"), "{left}");
    macs.nothing_leaked("good", &controller.log()).await?;
    macs.scene.all_in_pool(2).await?;
    macs.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_config_map_is_no_failure_of_the_mac_and_a_retry_sets_it_up_again() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "setup-missing", 1).await? else { return Ok(()) };
    let controller = macs.scene.start(&ControllerOptions::default()).await?;
    macs.scene.apply(&macs.machine("mac", json!({}))?).await?;
    let machine = macs.bootstrapped("mac", "False", "SetupNotReady").await?;
    ensure!(machine.data["status"]["setup"]["failures"] == 0, "{:#}", machine.data["status"]["setup"]);
    macs.files(json!({"setup.sh": "#!/bin/sh\necho once more >> ~/runs\n"})).await?;
    let machine = macs.bootstrapped("mac", "True", "SetUp").await?;
    ensure!(machine.data["status"]["setup"]["attempt"] == 1, "{:#}", machine.data["status"]["setup"]);

    let runs = macs.sshds[0].home().join("runs");
    ensure!(std::fs::read_to_string(&runs)? == "once more\n");
    let again = json!({"metadata": {"annotations": {"windlass.dev/retry": "1"}}});
    macs.scene.patch(Kind::AppleSiliconMachine, "mac", again).await?;
    eventually("it runs again", || async {
        ensure!(std::fs::read_to_string(&runs)? == "once more\nonce more\n");
        Ok(())
    })
    .await?;
    macs.bootstrapped("mac", "True", "SetUp").await?;

    // A status that was lost has nothing run again on a Mac that is set up.
    let lost = json!({"status": {"setup": null, "conditions": []}});
    let api = macs.scene.api(Kind::AppleSiliconMachine);
    api.patch_status("mac", &PatchParams::default(), &Patch::Merge(lost)).await?;
    macs.bootstrapped("mac", "True", "SetUp").await?;
    macs.scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(std::fs::read_to_string(&runs)? == "once more\nonce more\n");

    // Nor are conditions that were lost without the rest: they are told again.
    api.patch_status("mac", &PatchParams::default(), &Patch::Merge(json!({"status": {"conditions": []}}))).await?;
    macs.bootstrapped("mac", "True", "SetUp").await?;
    ensure!(std::fs::read_to_string(&runs)? == "once more\nonce more\n");

    // Without the set-up the condition is somebody else's to set.
    macs.scene.patch(Kind::AppleSiliconMachine, "mac", json!({"spec": {"setup": null}})).await?;
    eventually("nothing is said of the set-up any more", || async {
        let status = api.get("mac").await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(status["setup"].is_null() && conditions.iter().all(|one| one["type"] != "Bootstrapped"), "{status:#}");
        Ok(())
    })
    .await?;

    // Names that would lead out of the namespace are refused by the API server.
    for name in ["../../other/secrets/theirs", "other/theirs", "Theirs"] {
        let machine = macs.machine("thief", json!({"secretRef": {"name": name}}))?;
        ensure!(macs.scene.apply(&machine).await.is_err(), "{name} was taken");
    }
    macs.end().await
}

/// What only a Mac has, and what comes from the internet, in the place of the real ones: they write down how they were
/// called, in `~/calls`. `curl` takes what it is to download from the folder `web`.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "sudo",
        "[ \"$1\" = -A ] && [ -n \"$($SUDO_ASKPASS)\" ] || exit 1\nshift\n\
         if [ $1 = install ]; then cp $4 ~/daemon.plist; else exec \"$@\"; fi",
    ),
    (
        "launchctl",
        "[ $1 = bootstrap ] || { [ -f ~/loaded ] && rm ~/loaded; exit; }\ntouch ~/loaded\n\
         sed -n '/ProgramArguments/,/array>/p' ~/daemon.plist | grep -o '<string>[^<]*' | cut -d'>' -f2 |\n\
         xargs -d '\\n' sh -c '\"$0\" \"$@\"'",
    ),
    (
        "curl",
        "while [ $# -gt 1 ]; do\n  [ $1 != -o ] || file=$2\n  [ $1 != -X ] || file=-\n  shift\ndone\n\
         [ $file != - ] || { cat > ~/header; echo '{\"token\": \"of-an-hour\"}'; exit; }\n\
         cp ~/../web/${1##*/} $file",
    ),
    ("shasum", "shift 2\nexec sha256sum \"$@\""),
];
/// A downloaded program that writes down how it was called.
const RECORDS: &str = "#!/bin/sh\necho ${0##*/} \"$@\" >> ~/calls\n";

/// A child writes it: a child of another thread would inherit a handle of this process, and while it has that, the
/// program cannot be run (`ETXTBSY`).
fn write_program(file: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(file.parent().context("a folder")?)?;
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(file).arg(text);
    ensure!(write.status()?.success(), "{} is not written", file.display());
    Ok(())
}

/// Everything that the sample downloads.
fn write_downloads(web: &Path, kubectl: &Path) -> Result<()> {
    write_program(&web.join("gitlab-runner-darwin-arm64"), RECORDS)?;
    let agent = format!(
        "{RECORDS}exec {} --kubeconfig $2 apply -f - <<END\n\
         {{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {{\"name\": \"$4\"}}, \"spec\": {{\"providerID\": \
         \"$6\"}}}}\nEND\n",
        kubectl.display()
    );
    write_program(&web.join("agent-darwin-arm64"), &agent)?;
    let config = format!("{RECORDS}case $1 in remove) rm .runner;; *) touch .runner;; esac\n");
    write_program(&web.join("runner/config.sh"), &config)?;
    write_program(&web.join("runner/run.sh"), RECORDS)?;
    let archive = web.join("actions-runner-osx-arm64-2.328.0.tar.gz");
    let packed = Command::new("tar").arg("-czf").arg(archive).arg("-C").arg(web.join("runner")).arg(".").status()?;
    ensure!(packed.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_make_macs_runners_and_nodes_as_often_as_they_run_and_undo_it() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let Some(macs) = Macs::new(plane, "samples", 3).await? else { return Ok(()) };
    let (scene, kubectl) = (&macs.scene, plane.programs().path("kubectl"));
    for sshd in &macs.sshds {
        for (name, text) in PROGRAMS {
            let text = format!("#!/bin/bash\necho {name} \"$@\" >> ~/calls\n{text}\n");
            write_program(&sshd.programs().join(name), &text)?;
        }
        write_downloads(&sshd.home().join("../web"), &kubectl)?;
    }
    scene.apply(&secret("mac-runner", json!({"token": TOKEN}))).await?;
    scene.apply(&secret("mac-node", json!({"kubeconfig": plane.kubeconfig(User::Admin)}))).await?;
    let digest = Command::new("sha256sum").arg(macs.sshds[0].home().join("../web/agent-darwin-arm64")).output()?;
    let digest = String::from_utf8(digest.stdout)?.split(' ').next().context("a digest")?.to_owned();

    let node = format!("node-of-{}", scene.namespace());
    let samples = [("mac-gitlab-runner", "gitlab"), ("mac-github-runner", "github"), ("mac-node", node.as_str())];
    let controller = scene.start(&ControllerOptions::default()).await?;
    for (sample, name) in samples {
        let text = std::fs::read_to_string(plane.programs().deploy(&format!("samples/{sample}.yaml")))?;
        // As it answers in earnest to the sample as it stands.
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", scene.namespace(), "-f", "-"];
        plane.kubectl(User::Admin, &arguments, &text)?;
        for document in serde_norway::Deserializer::from_str(&text) {
            let mut object = Value::deserialize(document)?;
            if object["kind"] == "AppleSiliconMachineTemplate" {
                object["kind"] = json!("AppleSiliconMachine");
                object["spec"] = object["spec"]["template"]["spec"].clone();
            }
            if object["kind"] == "AppleSiliconMachine" {
                object["metadata"]["name"] = json!(name);
                let setup = &mut object["spec"]["setup"];
                setup["user"] = json!(Sshd::user()?);
                setup["port"] = json!(macs.port);
                setup["sshKeySecretRef"] = json!({"name": "fleet-key"});
            }
            if sample == "mac-node" && object["kind"] == "ConfigMap" {
                object["data"]["agent-sha256"] = json!(digest);
            }
            scene.apply(&object).await?;
        }
    }
    let mut called = std::collections::BTreeMap::new();
    for (_, name) in samples {
        let machine = macs.bootstrapped(name, "True", "SetUp").await?;
        called.insert(name, macs.sshd_of(&machine)?.home().join("calls"));
        // What is there already is left alone, or replaced.
        let again = json!({"metadata": {"annotations": {"windlass.dev/retry": "1"}}});
        scene.patch(Kind::AppleSiliconMachine, name, again).await?;
        eventually("it is set up again", || async {
            let machine = scene.api(Kind::AppleSiliconMachine).get(name).await?;
            let setup = &machine.data["status"]["setup"];
            ensure!(setup["retry"] == "1" && setup["state"] == "Succeeded", "{setup:#}");
            Ok(())
        })
        .await?;
        macs.nothing_leaked(name, &controller.log()).await?;
    }
    let calls = |name: &str| Ok::<_, anyhow::Error>(std::fs::read_to_string(&called[name])?);
    let config = std::fs::read_to_string(called["gitlab"].with_file_name("runner/config.toml"))?;
    ensure!(config.contains(&format!("token = \"{TOKEN}\"")) && config.contains("name = \"gitlab\""), "{config}");
    ensure!(calls("gitlab")?.matches("gitlab-runner run --config").count() == 2, "{}", calls("gitlab")?);
    ensure!(
        std::fs::read_to_string(called["github"].with_file_name("header"))? == format!("Authorization: Bearer {TOKEN}")
    );
    let registered =
        "config.sh --unattended --replace --url https://github.com/example --token of-an-hour --name github";
    ensure!(calls("github")?.matches(registered).count() == 1, "{}", calls("github")?);
    let machine = scene.api(Kind::AppleSiliconMachine).get(&node).await?;
    let joined = plane.kubectl(User::Admin, &["get", "node", &node, "-o", "jsonpath={.spec.providerID}"], "")?;
    ensure!(machine.data["spec"]["providerID"] == joined, "{joined}");

    for (_, name) in samples {
        scene.delete(Kind::AppleSiliconMachine, name).await?;
        scene.gone(Kind::AppleSiliconMachine, name).await?;
        let events = scene.events(name).await?.join("\n");
        ensure!(events.contains("Normal TornDown"), "{events}");
    }
    ensure!(calls("gitlab")?.contains("gitlab-runner unregister --all-runners"), "{}", calls("gitlab")?);
    ensure!(calls("github")?.contains("config.sh remove --token of-an-hour"), "{}", calls("github")?);
    plane.kubectl(User::Admin, &["delete", "node", &node], "")?;
    macs.end().await
}
