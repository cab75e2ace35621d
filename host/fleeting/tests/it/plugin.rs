//! A plugin process, called as fleeting calls it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint, Uri};
use windlass_fleeting::protocol::{COOKIE_KEY, COOKIE_VALUE};
use windlass_policy::{Host, HostOptions};
use windlass_simulator::{Options, Simulator};
use windlass_test_pages::Viewer;

#[allow(unreachable_pub, dead_code, clippy::all)]
pub(crate) mod wire {
    include!("../../src/bindings/proto.rs");
}

#[allow(unreachable_pub, dead_code, clippy::all)]
pub(crate) mod go_plugin {
    include!("../../src/bindings/plugin.rs");
}

use wire::instance_group_client::InstanceGroupClient;

pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

/// A state directory in which the default policies are compiled, so that no plugin compiles them again.
static COMPILED: LazyLock<&Path> = LazyLock::new(|| {
    let (folder, compiled) = (tempfile::tempdir().unwrap(), windlass_test_guests::cache_dir().unwrap());
    let open = |path| Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    let mut options = HostOptions::new(open(folder.path()));
    options.cache_dir = Some(open(compiled));
    drop(Host::new(options).unwrap());
    compiled
});

/// Waits for what comes by itself; some minutes at most.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within two minutes: {what}");
}

pub(crate) struct Plugin {
    child: Child,
    pub(crate) simulator: Simulator,
    /// The simulator's.
    url: String,
    folder: TempDir,
    channel: Channel,
    said: Arc<Mutex<String>>,
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Plugin {
    pub(crate) async fn start(options: Options) -> Self {
        Self::start_with(options, &[]).await
    }

    /// With these environment variables as well.
    pub(crate) async fn start_with(options: Options, variables: &[(&str, &str)]) -> Self {
        let simulator = Simulator::new(options);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = simulator.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self::start_at(simulator, url, variables).await
    }

    /// Another one over the same Scaleway, on a host of its own.
    pub(crate) async fn start_beside(&self, variables: &[(&str, &str)]) -> Self {
        Self::start_at(self.simulator.clone(), self.url.clone(), variables).await
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn start_at(simulator: Simulator, url: String, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"))
            .env_clear()
            .envs([(COOKIE_KEY, COOKIE_VALUE), ("SCW_SECRET_KEY", KEY), ("SCW_API_URL", &url)])
            .env("SCW_PROJECT_ID", "7d0e3a4c-0000-4000-8000-000000000001")
            .env("HOME", folder.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let socket = line.split('|').nth(3).unwrap_or_else(|| panic!("{line}")).to_owned();
        let said = Arc::new(Mutex::new(String::new()));
        let (mut errors, heard) = (child.stderr.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = errors.read(&mut part) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        let connect = move |_: Uri| {
            let socket = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
        };
        let channel =
            Endpoint::from_static("http://plugin").connect_with_connector(tower::service_fn(connect)).await.unwrap();
        Self { child, simulator, url, folder, channel, said }
    }

    pub(crate) fn calls(&self) -> InstanceGroupClient<Channel> {
        InstanceGroupClient::new(self.channel.clone())
    }

    /// The file of this name in the operator's folder.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub(crate) fn state(&self, group: &str) -> std::path::PathBuf {
        self.folder.path().join("state/fleeting").join(group)
    }

    /// What Init answers to this configuration, with a state directory beside.
    pub(crate) async fn init(&self, mut configuration: Value) -> Result<(), String> {
        configuration["state_dir"] = json!(self.folder.path().join("state"));
        let state = self.state(configuration["name"].as_str().unwrap_or("ci"));
        if !state.exists() {
            windlass_test_guests::lend_compiled(&COMPILED, &state).unwrap();
        }
        let request = wire::InitRequest { config: configuration.to_string().into_bytes(), settings: None };
        self.calls().init(request).await.map(drop).map_err(|status| status.message().to_owned())
    }

    /// What of its memory is resident, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Its threads: the name and the niceness of each.
    pub(crate) fn threads(&self) -> Vec<(String, i32)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        let thread = |stat: String| {
            let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(')').unwrap();
            // The nineteenth field, counted from one; the name is the second.
            (name.to_owned(), rest.split_whitespace().nth(16).unwrap().parse().unwrap())
        };
        stats.map(thread).collect()
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The console's address, as the log tells it.
    pub(crate) async fn console(&self) -> String {
        eventually("the console is served", async || {
            let said = self.said();
            let line = said.lines().find(|line| line.contains("the console is served"))?;
            let begin = line.find("http")?;
            let url = line[begin..].split(['"', ' ', ',']).next()?;
            Some(url.to_owned())
        })
        .await
    }

    /// Instances by what the runner is told of them.
    pub(crate) async fn instances(&self) -> Vec<(String, String)> {
        let mut updates = self.calls().update(wire::Empty {}).await.unwrap().into_inner();
        let mut instances = Vec::new();
        while let Some(update) = updates.message().await.unwrap() {
            instances.push((update.instance.clone(), update.state().as_str_name().to_owned()));
        }
        instances
    }

    /// Waits until so many instances run, and nothing else is going on.
    pub(crate) async fn running(&self, count: usize) -> Vec<String> {
        eventually("instances run", async || {
            let instances = self.instances().await;
            let running: Vec<String> =
                instances.iter().filter(|(_, state)| state == "running").map(|(id, _)| id.clone()).collect();
            (running.len() == count && instances.len() == count).then_some(running)
        })
        .await
    }

    /// Asks it to leave, as go-plugin does, and waits until it has.
    pub(crate) async fn leave(mut self) {
        let mut controller = go_plugin::grpc_controller_client::GrpcControllerClient::new(self.channel.clone());
        let _ = controller.shutdown(go_plugin::Empty {}).await;
        let code = eventually("the plugin leaves", async || self.child.try_wait().unwrap()).await;
        assert!(code.success(), "{code}: {}", self.said());
    }
}

/// On a thread on which it may wait.
pub(crate) async fn look<T: Send + 'static>(viewer: &Viewer, at: impl FnOnce(Viewer) -> T + Send + 'static) -> T {
    let viewer = viewer.clone();
    tokio::task::spawn_blocking(move || at(viewer)).await.unwrap()
}
