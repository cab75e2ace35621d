//! A state directory that real operations have written, and the console on it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request, StatusCode};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use windlass_console::{Access, Console};
use windlass_lifecycle::{
    Control, Error, ImageChoice, Lifecycle, Options, RequestedBy, Requester, ServerSpecification, StateDirectory,
};
use windlass_policy::slots::SlotName;
use windlass_policy::{Host, HostOptions, Link, Policies};
use windlass_scaleway::{Client, Limits, Settings};
use windlass_simulator::{FaultKind, FaultRule, Simulator};

pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

pub(crate) struct World {
    folder: tempfile::TempDir,
    simulator: Simulator,
    policies: Host,
    lifecycle: Lifecycle,
    console: Router,
}

/// An answer of the console.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// The events of a page that follows.
pub(crate) struct Changes(BodyDataStream);

impl Changes {
    pub(crate) async fn next(&mut self) -> String {
        loop {
            let chunk = self.0.next().await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&chunk).into_owned();
            // What keeps the connection is no event, nor is the mark of where it begins.
            if !text.starts_with(':') && !text.starts_with("id:") {
                return text;
            }
        }
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let simulator = Simulator::new(windlass_simulator::Options {
            time_scale: 1_000.0,
            ..windlass_simulator::Options::default()
        });
        let many = NonZeroU32::new(1_000_000).unwrap();
        let mut limits = Limits::default();
        (limits.calls_per_second, limits.burst) = (many, many);
        let client =
            Client::with_transport(Settings::new(KEY.parse().unwrap()).with_limits(limits), simulator.transport())
                .unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let policies = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
        let retry = Link::default().with_settings(serde_json::json!({ "attempts": 2 }));
        policies.configure(&Policies::built_in().with(SlotName::Retry, retry)).unwrap();
        let mut options = Options::new(client, Arc::new(policies.clone()), state.clone());
        options.limits.poll_interval = Duration::from_millis(2);
        let lifecycle = Lifecycle::open(options).unwrap();
        let access = Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
        let console = Console::new(state, access).router();
        Self { folder, simulator, policies, lifecycle, console }
    }

    fn specification(&self) -> ServerSpecification {
        let image = ImageChoice::parse("ubuntu_noble");
        ServerSpecification::new("ci".parse().unwrap(), "fr-par-1".parse().unwrap(), "DEV1-S", image)
    }

    pub(crate) async fn create(&self, count: usize) {
        for created in self.lifecycle.create_servers(&self.specification(), count, &Control::new()).await {
            created.unwrap();
        }
        self.policies.flush_decisions();
    }

    /// One that a Kubernetes object of this namespace asks for.
    pub(crate) async fn create_for(&self, namespace: &str) {
        let (kind, name, uid) = ("ScalewayMachine".to_owned(), "web".to_owned(), "1".to_owned());
        let mut specification = self.specification();
        let requester = Requester::Object { kind, namespace: namespace.to_owned(), name, uid };
        specification.requested_by = RequestedBy::new(requester, "");
        self.lifecycle.create_server(specification, &Control::new()).await.unwrap();
    }

    /// One whose server cannot be started: what was made for it is removed. Its id.
    pub(crate) async fn create_and_fail(&self) -> String {
        let fault = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError);
        self.simulator.add_fault(fault).unwrap();
        let failed = self.lifecycle.create_server(self.specification(), &Control::new()).await;
        self.simulator.clear_faults();
        self.policies.flush_decisions();
        match failed {
            Err(Error::Failed(failed)) => failed.operation.to_string(),
            other => panic!("it was to fail: {other:?}"),
        }
    }

    /// The same, and what was made cannot be removed. Its id.
    pub(crate) async fn create_and_leave(&self) -> String {
        let fault = FaultRule::new("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::PermissionDenied);
        self.simulator.add_fault(fault).unwrap();
        self.create_and_fail().await
    }

    pub(crate) fn state(&self) -> StateDirectory {
        StateDirectory::open(self.folder.path()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        get_of(&self.console, path).await
    }

    pub(crate) async fn follow(&self) -> Changes {
        Changes(ask(&self.console, "/changes").await.into_body().into_data_stream())
    }

    /// What stands in each file, but for SQLite's index of its log, in which readers note that they read.
    /// Waits until the host's last change is in its file: it writes that by itself, a moment later.
    pub(crate) async fn status_is_written(&self) {
        let state = self.state();
        for _ in 0..6_000 {
            let hosts = windlass_policy::running_hosts(state.handle()).unwrap();
            if hosts.iter().any(|host| host.status == self.policies.status()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not within a minute: the status is written");
    }

    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.display().to_string();
                match path.is_dir() {
                    true => walk(&path, found),
                    false if name.ends_with("-shm") => {}
                    false => drop(found.insert(name, std::fs::read(&path).unwrap())),
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.path(), &mut found);
        found
    }
}

async fn ask(console: &Router, path: &str) -> axum::response::Response {
    let request = Request::get(path).header("host", "localhost:7474").body(Body::empty()).unwrap();
    console.clone().oneshot(request).await.unwrap()
}

/// A page of a console.
pub(crate) async fn get_of(console: &Router, path: &str) -> Page {
    let answer = ask(console, path).await;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    Page { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}
