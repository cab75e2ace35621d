//! Servers in this process, and a client that says what it likes.

use std::path::PathBuf;
use std::sync::LazyLock;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_policy::slots::{Retry, Slot, SlotName};
use windlass_policy::{Host, HostOptions, Link, Policies};
use windlass_serve::proto::{self, error::Code, outcome, question, request, response, retry_verdict};
use windlass_serve::{ServeOptions, Socket, serve};

/// The built-in defaults and the rules, compiled once for all tests.
static WARM: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(HostOptions::new(Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap())).unwrap();
    std::fs::write(folder.path().join("warm.rules.toml"), rules(1)).unwrap();
    let link = Link::file(folder.path().join("warm.rules.toml"));
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    drop(host);
    folder
});

/// Rules that wait for so long after the failure of a gateway.
pub(crate) fn rules(milliseconds: u64) -> String {
    format!(
        "slot = \"retry\"\n[[rules]]\nname = \"wait\"\nwhen = \"failure.class == 'gateway'\"\n\
         answer = {{ wait = {milliseconds} }}\n"
    )
}

/// A server whose retry policy is a file of rules.
pub(crate) struct Server {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) host: Host,
    pub(crate) end: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn new() -> Server {
        Server::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServeOptions)) -> Server {
        let folder = tempfile::Builder::new().prefix("serve").tempdir_in("/tmp").unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        windlass_test_guests::lend_compiled(WARM.path(), &folder.path().join("state")).unwrap();
        Server::on(folder, change).await
    }

    /// A server on the folder of a former one.
    pub(crate) async fn on(folder: tempfile::TempDir, change: impl FnOnce(&mut ServeOptions)) -> Server {
        let state = Dir::open_ambient_dir(folder.path().join("state"), ambient_authority()).unwrap();
        let mut options = HostOptions::new(state);
        options.policy_folder = folder.path().into();
        let host = Host::new(options).unwrap();
        if !folder.path().join("retry.rules.toml").exists() {
            std::fs::write(folder.path().join("retry.rules.toml"), rules(1)).unwrap();
        }
        host.configure(&Policies::built_in().with(SlotName::Retry, Link::file("retry.rules.toml"))).unwrap();
        let socket = Socket::listen(&folder.path().join("policy.sock"), 0o600).await.unwrap();
        let mut options = ServeOptions::default();
        change(&mut options);
        let end = CancellationToken::new();
        let serving = tokio::spawn(serve(socket, host.clone(), options, end.clone()));
        Server { folder, host, end, serving }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("policy.sock")
    }

    /// Puts other rules in place.
    pub(crate) fn swap(&self, milliseconds: u64) {
        std::fs::write(self.folder.path().join("retry.rules.toml"), rules(milliseconds)).unwrap();
        let reload = self.host.reload();
        assert!(reload.errors.is_empty() && reload.swapped.len() == 1, "{reload:?}");
    }

    pub(crate) async fn client(&self) -> Client {
        Client { stream: UnixStream::connect(self.path()).await.unwrap() }
    }

    /// Ends it, and returns its folder.
    pub(crate) async fn end(self) -> tempfile::TempDir {
        self.end.cancel();
        self.serving.await.unwrap();
        self.folder
    }

    pub(crate) async fn status(&self) -> proto::Status {
        match self.client().await.call(request::Call::Status(())).await {
            response::Result::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
}

impl Client {
    /// Sends these bytes as a message.
    pub(crate) async fn send(&mut self, message: &[u8]) {
        self.stream.write_all(&framed(message)).await.unwrap();
    }

    /// The next response; none where the server has closed the connection.
    pub(crate) async fn response(&mut self) -> Option<proto::Response> {
        let length = self.stream.read_u32().await.ok()?;
        let mut message = vec![0; length as usize];
        self.stream.read_exact(&mut message).await.ok()?;
        Some(proto::Response::decode(&message[..]).unwrap())
    }

    /// What the server says before it closes the connection.
    pub(crate) async fn last_error(&mut self) -> Code {
        let code = self.error().await;
        assert_eq!(self.response().await, None, "the connection is closed");
        code
    }

    pub(crate) async fn error(&mut self) -> Code {
        match self.response().await.and_then(|response| response.result) {
            Some(response::Result::Error(error)) => error.code(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn call(&mut self, call: request::Call) -> response::Result {
        self.send(&proto::Request { id: 7, call: Some(call) }.encode_to_vec()).await;
        let response = self.response().await.expect("the server is there");
        assert_eq!(response.id, 7);
        response.result.unwrap()
    }

    pub(crate) async fn decide(&mut self, decide: proto::Decide) -> Result<Vec<outcome::Outcome>, proto::Error> {
        match self.call(request::Call::Decide(decide)).await {
            response::Result::Outcomes(outcomes) => {
                Ok(outcomes.outcomes.into_iter().map(|outcome| outcome.outcome.unwrap()).collect())
            }
            response::Result::Error(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// How long the retry policy waits, of the pin where one is given.
    pub(crate) async fn waits(&mut self, pin: &[u8]) -> u64 {
        let decide = proto::Decide { pin: pin.to_vec().into(), questions: vec![gateway_failed()] };
        let outcomes = self.decide(decide).await.unwrap();
        wait_of(&outcomes[0])
    }

    pub(crate) async fn pin(&mut self) -> proto::Pin {
        match self.call(request::Call::Pin(())).await {
            response::Result::Pin(pin) => pin,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn wait_of(outcome: &outcome::Outcome) -> u64 {
    let outcome::Outcome::Decision(decision) = outcome else { panic!("{outcome:?}") };
    match decision.answer.clone().unwrap().slot {
        Some(proto::answer::Slot::Retry(answer)) => match answer.verdict.unwrap().verdict {
            Some(retry_verdict::Verdict::Wait(milliseconds)) => milliseconds,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// Whose machines the questions are about.
pub(crate) fn subject() -> proto::Subject {
    proto::Subject { program: proto::Program::Other.into(), owner: "tests".into(), ..Default::default() }
}

/// A question that the rules decide.
pub(crate) fn gateway_failed() -> proto::Question {
    let example = Retry::example();
    let question = proto::RetryQuestion {
        now: example.now,
        operation: example.operation,
        step: example.step,
        attempt: 2,
        zone: example.zone,
        subject: Some(subject()),
        failure: Some(proto::Failure { class: proto::FailureClass::Gateway.into(), ..Default::default() }),
        ..Default::default()
    };
    proto::Question { slot: Some(question::Slot::Retry(question)) }
}

/// As a request.
pub(crate) fn asking(questions: usize) -> Vec<u8> {
    let decide = proto::Decide { pin: Default::default(), questions: vec![gateway_failed(); questions] };
    proto::Request { id: 1, call: Some(request::Call::Decide(decide)) }.encode_to_vec()
}
