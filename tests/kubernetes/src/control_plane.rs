use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::process::{Process, remove_at_the_end, wait};
use crate::{Programs, eventually};

/// As whom the API server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// The service account of our manifests: may do what they grant, so whatever the controller manages to do proves
    /// that they are enough, and what it is refused that they are least.
    Controller,
    /// The service account of Cluster API's own manifests. May touch our kinds only by the role that ours aggregate to
    /// it.
    ClusterApi,
    /// That of its kubeadm bootstrap provider.
    KubeadmBootstrap,
    /// And of its kubeadm control plane provider.
    KubeadmControlPlane,
}

impl User {
    const ALL: [User; 5] =
        [User::Admin, User::Controller, User::ClusterApi, User::KubeadmBootstrap, User::KubeadmControlPlane];

    /// Token, user name and groups, as in the API server's file of tokens.
    fn identity(self) -> (&'static str, &'static str, &'static str) {
        match self {
            User::Admin => ("admin-token", "admin", "system:masters"),
            User::Controller => (
                "controller-token",
                "system:serviceaccount:windlass-system:windlass-controller",
                "system:serviceaccounts,system:serviceaccounts:windlass-system",
            ),
            User::ClusterApi => (
                "cluster-api-token",
                "system:serviceaccount:capi-system:capi-manager",
                "system:serviceaccounts,system:serviceaccounts:capi-system",
            ),
            User::KubeadmBootstrap => (
                "kubeadm-bootstrap-token",
                "system:serviceaccount:capi-kubeadm-bootstrap-system:capi-kubeadm-bootstrap-manager",
                "system:serviceaccounts,system:serviceaccounts:capi-kubeadm-bootstrap-system",
            ),
            User::KubeadmControlPlane => (
                "kubeadm-control-plane-token",
                "system:serviceaccount:capi-kubeadm-control-plane-system:capi-kubeadm-control-plane-manager",
                "system:serviceaccounts,system:serviceaccounts:capi-kubeadm-control-plane-system",
            ),
        }
    }
}

/// A Kubernetes of this machine: what a `kubectl` can ask for, and Cluster API's controllers; no kubelets, no
/// containers.
#[derive(Debug)]
pub struct ControlPlane {
    programs: Programs,
    folder: PathBuf,
    certificates: Certificates,
    api_port: u16,
    etcd_port: u16,
    processes: Mutex<Vec<Process>>,
    api_server: Mutex<Option<Process>>,
    remover: Mutex<Child>,
}

impl ControlPlane {
    /// A new one with nothing in it but Kubernetes: for those who install.
    ///
    /// # Errors
    /// When a program does not start or does not answer; the end of its log is in the error.
    pub async fn bare(programs: Programs) -> Result<Self> {
        // Both TLS users of this process, the client and whatever else, take the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = TempDir::with_prefix("windlass-kubernetes-")?.keep();
        let remover = remove_at_the_end(&folder)?;
        let plane = Self {
            programs,
            certificates: Certificates::new()?,
            api_port: free_port()?,
            etcd_port: free_port()?,
            processes: Mutex::new(Vec::new()),
            api_server: Mutex::new(None),
            remover: Mutex::new(remover),
            folder,
        };
        plane.write_files()?;
        plane.start_etcd()?;
        plane.start_api_server()?;
        plane.wait_until_ready().await?;
        plane.start_kube_controllers()?;
        Ok(plane)
    }

    /// The programs it runs.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Where its files and logs are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The API server's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    /// A kubeconfig for `user`, as text.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> String {
        let (token, name, _) = user.identity();
        self.kubeconfig_of(name, token)
    }

    /// A kubeconfig for whoever has `token`, as text.
    #[must_use]
    pub fn kubeconfig_of(&self, name: &str, token: &str) -> String {
        // JSON is YAML.
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority-data": base64(self.certificates.authority.as_bytes()),
            }}],
            "users": [{"name": name, "user": {"token": token}}],
        })
        .to_string()
    }

    /// The file that holds [`ControlPlane::kubeconfig`].
    #[must_use]
    pub fn kubeconfig_file(&self, user: User) -> PathBuf {
        self.folder.join(format!("{user:?}.kubeconfig"))
    }

    /// A client that asks as `user`.
    ///
    /// # Errors
    /// When kube does not like its own configuration.
    pub async fn client(&self, user: User) -> Result<Client> {
        let config = Kubeconfig::from_yaml(&self.kubeconfig(user))?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// A client that asks as somebody who has no rights but those that are bound to this name.
    ///
    /// # Errors
    /// When kube does not like its own configuration.
    pub async fn client_of(&self, name: &str) -> Result<Client> {
        let config = Kubeconfig::from_yaml(&self.kubeconfig(User::Admin))?;
        let mut config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        config.auth_info.impersonate = Some(name.to_owned());
        Ok(Client::try_from(config)?)
    }

    /// Runs kubectl as `user` with `input` on its standard input, and gives what it printed.
    ///
    /// # Errors
    /// When it fails: what it said.
    pub fn kubectl(&self, user: User, arguments: &[&str], input: &str) -> Result<String> {
        const TRIES: u32 = 5;
        let mut tries = 1;
        loop {
            let mut command = Command::new(self.programs.path("kubectl"));
            command.arg("--kubeconfig").arg(self.kubeconfig_file(user)).args(arguments);
            match run(command, input) {
                Err(error) if tries < TRIES && schema_was_slow(&error.to_string()) => tries += 1,
                ended => return ended,
            }
        }
    }

    /// Runs Helm as the administrator, with its own files in this control plane's folder.
    ///
    /// # Errors
    /// When it fails: what it said.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        let home = self.folder.join("helm");
        let mut command = Command::new(self.programs.path("helm"));
        command
            .env("KUBECONFIG", self.kubeconfig_file(User::Admin))
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .args(arguments);
        run(command, "")
    }

    /// What `windlass-controller convert` makes of another controller's objects.
    ///
    /// # Errors
    /// When it fails: what it said.
    pub fn convert(&self, objects: &str) -> Result<String> {
        let mut command = Command::new(self.programs.controller());
        command.arg("convert");
        run(command, objects)
    }

    /// Kills the API server with everything it had in memory, and starts it again on the same address when `meanwhile`
    /// has come to its end.
    ///
    /// # Errors
    /// That of `meanwhile`; or when it does not come back.
    pub async fn restart_api_server(&self, meanwhile: impl Future<Output = Result<()>>) -> Result<()> {
        *self.api_server.lock() = None;
        meanwhile.await?;
        self.start_api_server()?;
        self.wait_until_ready().await
    }

    /// The certificate of the authority that signed the API server's, and its public key, both PEM.
    #[must_use]
    pub fn authority(&self) -> (&str, &str) {
        (&self.certificates.authority, &self.certificates.authority_public_key)
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Starts a program that lives as long as the control plane. Its log is `<name>.log` in the folder.
    pub(crate) fn run(&self, name: &str, command: &mut Command) -> Result<()> {
        let process = self.start_process(name, command)?;
        self.processes.lock().push(process);
        Ok(())
    }

    fn start_process(&self, name: &str, command: &mut Command) -> Result<Process> {
        // Go's collector takes a third of what the API server computes; it may keep more garbage.
        let command = command.current_dir(&self.folder).env("GOGC", "400");
        Process::start(name, command, &self.folder.join(format!("{name}.log")))
    }

    fn write_files(&self) -> Result<()> {
        let Certificates { authority, certificate, key, token_key, token_public_key, .. } = &self.certificates;
        let tokens: String = User::ALL
            .map(User::identity)
            .iter()
            .map(|(token, name, groups)| format!("{token},{name},{name},\"{groups}\"\n"))
            .collect();
        let certificates = self.folder.join("certificates");
        std::fs::create_dir_all(&certificates)?;
        for (path, text) in [
            ("certificates/authority.crt", authority),
            ("certificates/tls.crt", certificate),
            ("certificates/tls.key", key),
            ("certificates/token.key", token_key),
            ("certificates/token.pub", token_public_key),
            ("tokens.csv", &tokens),
        ] {
            std::fs::write(self.folder.join(path), text).with_context(|| format!("write {path}"))?;
        }
        for user in User::ALL {
            std::fs::write(self.kubeconfig_file(user), self.kubeconfig(user))?;
        }
        Ok(())
    }

    fn start_etcd(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}", self.etcd_port);
        let peers = format!("http://127.0.0.1:{}", free_port()?);
        let mut command = Command::new(self.programs.path("etcd"));
        command
            .arg("--data-dir")
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            // What is lost with the machine may be lost: these are tests.
            .args(["--unsafe-no-fsync", "--log-level", "warn"]);
        self.run("etcd", &mut command)
    }

    fn start_api_server(&self) -> Result<()> {
        let certificates = self.folder.join("certificates");
        let mut command = Command::new(self.programs.path("kube-apiserver"));
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port))
            .arg(format!("--secure-port={}", self.api_port))
            .args(["--bind-address=127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24"])
            .arg(format!("--cert-dir={}", certificates.display()))
            .arg(format!("--tls-cert-file={}", certificates.join("tls.crt").display()))
            .arg(format!("--tls-private-key-file={}", certificates.join("tls.key").display()))
            .arg(format!("--service-account-key-file={}", certificates.join("token.pub").display()))
            .arg(format!("--service-account-signing-key-file={}", certificates.join("token.key").display()))
            .arg("--service-account-issuer=https://kubernetes.default")
            .arg(format!("--token-auth-file={}", self.folder.join("tokens.csv").display()))
            // By which kubeadm's administrators and its joining nodes come in.
            .arg(format!("--client-ca-file={}", certificates.join("authority.crt").display()))
            .arg("--enable-bootstrap-token-auth")
            .arg("--authorization-mode=RBAC")
            // As OpenShift and careful clusters have it: owner references need the right to the owner's finalizers.
            .arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
            .arg("--disable-admission-plugins=ServiceAccount");
        *self.api_server.lock() = Some(self.start_process("kube-apiserver", &mut command)?);
        Ok(())
    }

    /// The controllers without which a namespace is never gone, a dependent never collected and a Job never run.
    fn start_kube_controllers(&self) -> Result<()> {
        let mut command = Command::new(self.programs.path("kube-controller-manager"));
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig_file(User::Admin).display()))
            .arg(
                "--controllers=garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller,\
                 job-controller",
            )
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            .arg(format!("--secure-port={}", free_port()?))
            .arg(format!("--cert-dir={}", self.folder.join("certificates").display()));
        self.run("kube-controller-manager", &mut command)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let client = self.client(User::Admin).await?;
        let ready = eventually("the API server is ready", || async {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await?)
        });
        let words = || self.api_server.lock().as_ref().map(Process::last_words).unwrap_or_default();
        tokio::select! {
            ready = ready => ready.map(drop).with_context(words),
            () = self.api_server_ended() => bail!("the API server ended; its last words:\n{}", words()),
        }
    }

    async fn api_server_ended(&self) {
        let running = || self.api_server.lock().as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)));
        while running() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Our kustomization, applied as the documentation says.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn install_ours(&self) -> Result<()> {
        let base = self.programs.deploy("base");
        let (how, what) = if base.exists() { ("-k", base) } else { ("-f", self.programs.deploy("crds")) };
        let what = what.to_str().context("a path that is not UTF-8")?;
        eventually("our manifests are applied", || async {
            self.kubectl(User::Admin, &["apply", "--server-side", "--force-conflicts", how, what], "")
        })
        .await?;
        self.kubectl(
            User::Admin,
            &["wait", "--for=condition=Established", "--timeout=300s", "customresourcedefinitions", "--all"],
            "",
        )?;
        Ok(())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        *self.api_server.lock() = None;
        self.processes.lock().clear();
        // Closing its input lets the remover do its work; it is waited for, so that nothing is left when this returns.
        let mut remover = self.remover.lock();
        drop(remover.stdin.take());
        let _ = remover.wait();
    }
}

/// Whether kubectl gave up before it sent anything: it waits 32 s for the schema of all kinds, whatever
/// `--request-timeout` says, and the API server of a busy machine takes longer to merge the schemas of new kinds.
fn schema_was_slow(error: &str) -> bool {
    error.contains("/openapi/") && error.contains("Client.Timeout exceeded")
}

/// A free port below those that the system gives to outgoing connections, so that none of these takes it meanwhile. No
/// port is given twice in one process until all were, since whoever got one listens there only later; they begin at a
/// drawn one, so that another run beside this one hardly asks for the same.
pub(crate) fn free_port() -> Result<u16> {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 22_000;
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let [first, second, third, ..] = *uuid::Uuid::new_v4().as_bytes();
        AtomicU32::new(u32::from_le_bytes([first, second, third, 0]))
    });
    for _ in 0..1_000 {
        let port = u16::try_from(FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS)?;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port among a thousand from {FIRST} on")
}

/// Kubernetes' own way to write bytes into JSON.
pub(crate) fn base64(bytes: &[u8]) -> serde_json::Value {
    json!(k8s_openapi::ByteString(bytes.to_vec()))
}

pub(crate) fn run(mut command: Command, input: &str) -> Result<String> {
    // Go's programs that end at once need not collect garbage.
    command.env("GOGC", "off");
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {shown}"))?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    let input = input.to_owned();
    // Aside, because a program may print much before it has read all.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let printed = listen(child.stdout.take().context("its output is piped")?);
    let errors = listen(child.stderr.take().context("its errors are piped")?);
    let Some(status) = wait(&mut child)? else {
        let _ = child.kill();
        let _ = child.wait();
        bail!("{shown} does not end");
    };
    let _ = writer.join();
    let [printed, errors] = [printed, errors].map(|listener| listener.join().unwrap_or_default());
    ensure!(status.success(), "{shown} failed: {}", errors.trim());
    Ok(printed)
}

/// Reads a pipe to its end.
fn listen(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
