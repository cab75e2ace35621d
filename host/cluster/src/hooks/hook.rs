//! What a specification says of a hook, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_policy::{Mistake, is_unprintable};

use super::files;
use crate::units;

/// How long a hook may take when its specification doesn't say.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(600);
/// A day: whoever needs longer has a job, not a hook.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(86_400);
/// Nodes on which an ssh hook works at the same time when its specification doesn't say.
const DEFAULT_PARALLEL: u32 = 10;
const MAX_PARALLEL: u32 = 100;
const SSH_PORT: u16 = 22;
/// Arguments, variables and host keys at most; a command line of the system holds no more either.
const MAX_WORDS: usize = 256;
const MAX_WORD_LEN: usize = 32 * 1024;

/// What the user runs at one stage, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "HookText", into = "HookText")]
pub struct Hook {
    /// What is run.
    pub action: HookAction,
    /// How long one run may take, all nodes together. A run that takes longer is ended and has failed.
    pub time_limit: Duration,
}

/// What a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAction {
    /// A program beside windlass, once for all nodes.
    Program(ProgramHook),
    /// One HTTP request for all nodes.
    Webhook(WebhookHook),
    /// A command on each node.
    Ssh(SshHook),
    /// What only the embedding program's own [`RunHooks`](super::RunHooks) can run, in words for people. No
    /// specification can be written with it, and [`HookRunner`](super::HookRunner) refuses it.
    Foreign(String),
}

/// A program on windlass's own machine. It reads [`HookInput`](super::HookInput) as JSON on its stdin and says by its
/// exit code how it ended: 0 is done, 75 (`EX_TEMPFAIL`) asks to be tried again, everything else is a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramHook {
    /// A name that is looked for in `PATH`, or a path, relative to the specification's folder. No shell reads it.
    pub command: String,
    /// Its arguments, each passed as it stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Where it runs. Absent: the specification's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<PathBuf>,
    /// Variables for it. They are stored with the cluster: no place for secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Names of windlass's own variables that it gets too. Nothing else of windlass's environment reaches it, above all
    /// no credentials, but `PATH`, `HOME`, `USER`, `LANG`, `LC_ALL`, `TZ` and `TMPDIR`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_environment: Vec<String>,
}

/// An HTTP POST of [`HookInput`](super::HookInput) as JSON, signed. An answer of 2xx is done, everything else a
/// failure; redirects are not followed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookHook {
    /// Where to: `https`, or `http` on the loopback address.
    #[serde(with = "as_text")]
    pub url: url::Url,
    /// A file with the secret that signs. Exactly one of this and `secret_env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// The name of a variable with the secret that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// Allows `http` to elsewhere: whoever listens reads names and addresses of the nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

/// A command over ssh on each node. It reads [`HookInput`](super::HookInput) as JSON on its stdin, with the node itself
/// as `node`; exit codes are read as a program's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshHook {
    /// What the node's login shell runs.
    pub command: String,
    /// Who logs in.
    #[serde(default = "default_user")]
    pub user: String,
    /// A private key in OpenSSH's or PEM form, Ed25519 or ECDSA, without passphrase, readable by its owner only.
    pub key_file: PathBuf,
    #[serde(default = "default_port")]
    pub port: u16,
    /// Which of a node's addresses is used.
    #[serde(default)]
    pub address: SshAddress,
    /// Public keys of which a node must show one, as in an OpenSSH `.pub` file: for images that bring their host key.
    /// Absent: the key that a node shows first is stored, and it must show the same one ever after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_keys: Vec<String>,
    /// How many nodes are worked on at the same time.
    #[serde(default = "default_parallel")]
    pub parallel: u32,
}

/// Which address of a node ssh connects to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SshAddress {
    /// The first public one; without one, the first private one.
    #[default]
    Any,
    /// The first public one.
    Public,
    /// The first private one.
    Private,
}

/// A hook as it is written: a table with one of three tables in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookText {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<ProgramHook>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookHook>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ssh: Option<SshHook>,
    /// Written for people, and never read.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    foreign: Option<String>,
    #[serde(default = "default_time_limit", with = "units::duration")]
    time_limit: Duration,
}

/// Stands for what of a URL is not shown.
const CUT: &str = "…";

/// For serde: a URL is read whole and written as scheme and host, since what is written is shown. What is stored has it
/// whole: see [`ClusterSpecification::with_secrets`](crate::ClusterSpecification::with_secrets).
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(url: &url::Url, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::place(url))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<url::Url, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.ends_with(super::CUT) {
            return Err(serde::de::Error::custom(
                "this is the shortened form that Windlass shows: write the whole URL",
            ));
        }
        // The text may hold a token: it is not quoted.
        url::Url::parse(&text)
            .map_err(|error| serde::de::Error::custom(format!("it is no URL: {error}; write https://...")))
    }
}

fn default_time_limit() -> Duration {
    DEFAULT_TIME_LIMIT
}

fn default_user() -> String {
    "root".to_owned()
}

fn default_port() -> u16 {
    SSH_PORT
}

fn default_parallel() -> u32 {
    DEFAULT_PARALLEL
}

impl TryFrom<HookText> for Hook {
    type Error = String;

    fn try_from(text: HookText) -> Result<Self, String> {
        let action = match (text.program, text.webhook, text.ssh) {
            (Some(program), None, None) => HookAction::Program(program),
            (None, Some(webhook), None) => HookAction::Webhook(webhook),
            (None, None, Some(ssh)) => HookAction::Ssh(ssh),
            (None, None, None) => return Err("a hook needs one of the tables program, webhook and ssh".to_owned()),
            _ => return Err("a hook has one of the tables program, webhook and ssh, not several".to_owned()),
        };
        Ok(Self { action, time_limit: text.time_limit })
    }
}

impl From<Hook> for HookText {
    fn from(hook: Hook) -> Self {
        let mut text = Self { program: None, webhook: None, ssh: None, foreign: None, time_limit: hook.time_limit };
        match hook.action {
            HookAction::Program(program) => text.program = Some(program),
            HookAction::Webhook(webhook) => text.webhook = Some(webhook),
            HookAction::Ssh(ssh) => text.ssh = Some(ssh),
            HookAction::Foreign(words) => text.foreign = Some(words),
        }
        text
    }
}

impl Hook {
    /// A hook with the default time limit.
    #[must_use]
    pub fn new(action: HookAction) -> Self {
        Self { action, time_limit: DEFAULT_TIME_LIMIT }
    }

    /// Everything that is wrong with it, as far as it shows without touching anything. Places are within the hook.
    #[must_use]
    pub fn problems(&self) -> Vec<Mistake> {
        let mut problems = Vec::new();
        if self.time_limit < Duration::from_millis(100) || self.time_limit > MAX_TIME_LIMIT {
            problems.push(Mistake::new("time_limit", "it is below 100ms or above a day (24h)"));
        }
        match &self.action {
            HookAction::Program(program) => program.add_problems(&mut problems),
            HookAction::Webhook(webhook) => webhook.add_problems(&mut problems),
            HookAction::Ssh(ssh) => ssh.add_problems(&mut problems),
            // The code that made it has checked it.
            HookAction::Foreign(_) => {}
        }
        problems
    }

    /// Takes the paths of a hook relative to `folder`, an absolute one. Paths that are absolute stay.
    pub fn resolve(&mut self, folder: &Path) {
        match &mut self.action {
            HookAction::Program(program) => {
                // As a shell has it: a name without a slash is looked for in PATH.
                if program.command.contains('/') {
                    program.command = files::join(folder, Path::new(&program.command)).to_string_lossy().into_owned();
                }
                let own = program.working_directory.take().unwrap_or_default();
                program.working_directory = Some(files::join(folder, &own));
            }
            HookAction::Webhook(webhook) => {
                if let Some(file) = &mut webhook.secret_file {
                    *file = files::join(folder, file);
                }
            }
            HookAction::Ssh(ssh) => ssh.key_file = files::join(folder, &ssh.key_file),
            HookAction::Foreign(_) => {}
        }
    }
}

/// For people: what is run, without anything that could be a secret.
impl fmt::Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            HookAction::Program(program) => write!(formatter, "program {}", program.command),
            HookAction::Webhook(webhook) => write!(formatter, "webhook {}", webhook.place()),
            HookAction::Ssh(ssh) => write!(formatter, "ssh command `{}`", files::first_line(&ssh.command, 60)),
            HookAction::Foreign(words) => formatter.write_str(words),
        }
    }
}

impl ProgramHook {
    /// A program without arguments.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            arguments: Vec::new(),
            working_directory: None,
            environment: BTreeMap::new(),
            pass_environment: Vec::new(),
        }
    }

    fn add_problems(&self, problems: &mut Vec<Mistake>) {
        if self.command.trim().is_empty() {
            problems.push(Mistake::new("program.command", "it is empty: name a program"));
        }
        if self.arguments.len() > MAX_WORDS
            || self.environment.len() > MAX_WORDS
            || self.pass_environment.len() > MAX_WORDS
        {
            problems
                .push(Mistake::new("program", format!("a program takes at most {MAX_WORDS} arguments and variables")));
        }
        let words = self.arguments.iter().chain(self.environment.values()).chain([&self.command]);
        if words.clone().any(|word| word.contains('\0') || word.len() > MAX_WORD_LEN) {
            problems.push(Mistake::new(
                "program",
                format!("a word of the program is longer than {MAX_WORD_LEN} bytes or holds a NUL"),
            ));
        }
        let names = self.environment.keys().chain(&self.pass_environment);
        problems.extend(names.filter_map(|name| problem_of_variable(name)).map(|words| Mistake::new("program", words)));
        if let Some(name) = self.environment.keys().find(|name| self.pass_environment.contains(name)) {
            problems.push(Mistake::new("program.environment", format!("{name} is also in program.pass_environment")));
        }
    }
}

impl WebhookHook {
    /// The URL without what could be a secret: many services put a token into the path or the query.
    pub(crate) fn place(&self) -> String {
        place(&self.url)
    }

    fn add_problems(&self, problems: &mut Vec<Mistake>) {
        problems.extend(self.check_url().err().map(|words| Mistake::new("webhook.url", words)));
        let of_secret = match (&self.secret_file, &self.secret_env) {
            (Some(_), None) => None,
            (None, Some(name)) => problem_of_variable(name),
            (None, None) => Some("a webhook is signed: name secret_file or secret_env".to_owned()),
            (Some(_), Some(_)) => Some("a webhook has one secret: name secret_file or secret_env, not both".to_owned()),
        };
        problems.extend(of_secret.map(|words| Mistake::new("webhook", words)));
    }

    pub(crate) fn check_url(&self) -> Result<(), String> {
        if !self.url.username().is_empty() || self.url.password().is_some() {
            return Err("it holds credentials, which would be stored: remove them, requests are signed".to_owned());
        }
        match self.url.scheme() {
            "https" => Ok(()),
            "http" if self.plain_http || files::is_loopback(&self.url) => Ok(()),
            "http" => Err("it is not encrypted: write https, or plain_http = true".to_owned()),
            other => Err(format!("it begins with {other}: write https")),
        }
    }
}

/// Scheme and host of a URL, and whether there is more.
pub(crate) fn place(url: &url::Url) -> String {
    let more = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
    format!("{}/{}", url.origin().ascii_serialization(), if more { CUT } else { "" })
}

/// Without the path and the query of the URL.
impl fmt::Debug for WebhookHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WebhookHook")
            .field("url", &self.place())
            .field("secret_file", &self.secret_file)
            .field("secret_env", &self.secret_env)
            .field("plain_http", &self.plain_http)
            .finish()
    }
}

impl SshHook {
    /// A command of root's with this key, on every default.
    #[must_use]
    pub fn new(command: impl Into<String>, key_file: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            user: default_user(),
            key_file: key_file.into(),
            port: SSH_PORT,
            address: SshAddress::default(),
            host_keys: Vec::new(),
            parallel: DEFAULT_PARALLEL,
        }
    }

    fn add_problems(&self, problems: &mut Vec<Mistake>) {
        if self.command.trim().is_empty() || self.command.len() > MAX_WORD_LEN {
            problems.push(Mistake::new("ssh.command", format!("it is empty or longer than {MAX_WORD_LEN} bytes")));
        }
        if self.user.is_empty()
            || self.user.len() > 64
            || self.user.contains(|one: char| is_unprintable(one) || one.is_whitespace())
        {
            let words =
                "it is empty, longer than 64 bytes or not a user name: write one without spaces, for example root";
            problems.push(Mistake::new("ssh.user", words));
        }
        if self.port == 0 {
            problems.push(Mistake::new("ssh.port", "it is 0"));
        }
        if !(1..=MAX_PARALLEL).contains(&self.parallel) {
            let words = format!("it is {}: write 1 to {MAX_PARALLEL}", self.parallel);
            problems.push(Mistake::new("ssh.parallel", words));
        }
        if self.host_keys.len() > MAX_WORDS {
            problems.push(Mistake::new("ssh.host_keys", format!("there are more than {MAX_WORDS}")));
        }
        for (number, key) in self.host_keys.iter().take(MAX_WORDS).enumerate() {
            if let Err(problem) = check_public_key(key) {
                let words = format!(
                    "it is no public key of OpenSSH's ({problem}): write the content of a .pub file, for example \
                     \"ssh-ed25519 AAAA...\""
                );
                problems.push(Mistake::new(format!("ssh.host_keys[{number}]"), words));
            }
        }
    }
}

fn problem_of_variable(name: &str) -> Option<String> {
    let right = !name.is_empty()
        && name.len() <= 256
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    (!right).then(|| format!("{name:?} is not a variable name: letters, digits and _"))
}

/// Whether this is a public key as OpenSSH writes it. Not looked at without ssh hooks: the hook is refused as a whole.
#[cfg_attr(not(feature = "ssh-hooks"), allow(unused_variables))]
pub(super) fn check_public_key(text: &str) -> Result<(), String> {
    #[cfg(feature = "ssh-hooks")]
    text.parse::<windlass_ssh::HostKey>()?;
    Ok(())
}
