//! The host's side of a policy's imports, in a test.

use std::cell::RefCell;

use crate::bindings::imports::windlass::policy::log::Level;
use crate::scaleway::look_ups::{LookUpError, Server, ServerList, ServerTypeList};
use crate::scaleway::request::{HttpRequest, HttpResponse, RequestError};

type ServerTypes = Box<dyn FnMut(&str, &[String]) -> Result<ServerTypeList, LookUpError>>;
type GetServer = Box<dyn FnMut(&str, &str) -> Result<Server, LookUpError>>;
type ListServers = Box<dyn FnMut(&str, &[String]) -> Result<ServerList, LookUpError>>;
type Send = Box<dyn FnMut(&HttpRequest) -> Result<HttpResponse, RequestError>>;

/// The host of one test. What it was given no answer for is refused as if it were not granted.
#[derive(Default)]
#[must_use]
pub struct FakeHost {
    server_types: Option<ServerTypes>,
    get_server: Option<GetServer>,
    list_servers: Option<ListServers>,
    send: Option<Send>,
    calls: Vec<String>,
    log: Vec<LogLine>,
}

/// What a decision under test gave and did.
#[derive(Debug, Clone, PartialEq)]
pub struct Run<Answer> {
    /// What the closure returned.
    pub answer: Answer,
    /// The lines that it logged.
    pub log: Vec<LogLine>,
    /// The imports that it called, in order, with their arguments: `server-types fr-par-1 DEV1-S`.
    pub calls: Vec<String>,
}

/// One line of a policy's log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// The line.
    pub message: String,
}

thread_local! {
    static HOST: RefCell<Option<FakeHost>> = const { RefCell::new(None) };
}

impl FakeHost {
    /// A host that grants nothing but the log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers `look_ups::server_types`.
    pub fn server_types(
        mut self,
        answer: impl FnMut(&str, &[String]) -> Result<ServerTypeList, LookUpError> + 'static,
    ) -> Self {
        self.server_types = Some(Box::new(answer));
        self
    }

    /// Answers `look_ups::get_server`.
    pub fn get_server(mut self, answer: impl FnMut(&str, &str) -> Result<Server, LookUpError> + 'static) -> Self {
        self.get_server = Some(Box::new(answer));
        self
    }

    /// Answers `look_ups::list_servers`.
    pub fn list_servers(
        mut self,
        answer: impl FnMut(&str, &[String]) -> Result<ServerList, LookUpError> + 'static,
    ) -> Self {
        self.list_servers = Some(Box::new(answer));
        self
    }

    /// Answers `request::send`.
    pub fn send(mut self, answer: impl FnMut(&HttpRequest) -> Result<HttpResponse, RequestError> + 'static) -> Self {
        self.send = Some(Box::new(answer));
        self
    }

    /// Runs a decision with this host behind its imports.
    ///
    /// # Panics
    /// When called inside another run.
    pub fn run<Answer>(self, decide: impl FnOnce() -> Answer) -> Run<Answer> {
        let outer = HOST.with(|host| host.borrow_mut().replace(self));
        assert!(outer.is_none(), "FakeHost::run inside FakeHost::run");
        let answer = decide();
        let host = HOST.with(|host| host.borrow_mut().take()).expect("nobody else takes it");
        Run { answer, log: host.log, calls: host.calls }
    }
}

impl std::fmt::Debug for FakeHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FakeHost").field("calls", &self.calls).field("log", &self.log).finish_non_exhaustive()
    }
}

/// Calls one import: notes it, then asks the host's answer, which is taken out meanwhile so that it may log.
fn call<Answer>(note: String, ask: impl FnOnce(&mut FakeHost) -> Answer) -> Answer {
    HOST.with(|host| {
        let mut host = host.borrow_mut();
        let host = host.as_mut().unwrap_or_else(|| {
            panic!("the policy called `{note}` outside FakeHost::run: wrap the decision in FakeHost::new().run(|| ...)")
        });
        host.calls.push(note);
        ask(host)
    })
}

fn not_granted() -> LookUpError {
    LookUpError::Failed("this test's FakeHost has no answer for it".into())
}

/// Stands for the import of the same name.
pub fn server_types(zone: &str, names: &[String]) -> Result<ServerTypeList, LookUpError> {
    call(format!("server-types {zone} {}", names.join(",")), |host| match &mut host.server_types {
        Some(answer) => answer(zone, names),
        None => Err(not_granted()),
    })
}

/// Stands for the import of the same name.
pub fn get_server(zone: &str, id: &str) -> Result<Server, LookUpError> {
    call(format!("get-server {zone} {id}"), |host| match &mut host.get_server {
        Some(answer) => answer(zone, id),
        None => Err(not_granted()),
    })
}

/// Stands for the import of the same name.
pub fn list_servers(zone: &str, tags: &[String]) -> Result<ServerList, LookUpError> {
    call(format!("list-servers {zone} {}", tags.join(",")), |host| match &mut host.list_servers {
        Some(answer) => answer(zone, tags),
        None => Err(not_granted()),
    })
}

/// Stands for the import of the same name.
pub fn send(request: &HttpRequest) -> Result<HttpResponse, RequestError> {
    call(format!("send {} {}", request.method, request.path), |host| match &mut host.send {
        Some(answer) => answer(request),
        None => Err(RequestError::NotGranted(format!("windlass:scaleway/request {} {}", request.method, request.path))),
    })
}

pub(crate) fn log(level: Level, message: &str) {
    HOST.with(|host| {
        if let Some(host) = host.borrow_mut().as_mut() {
            host.log.push(LogLine { level, message: message.to_owned() });
        }
    });
}
