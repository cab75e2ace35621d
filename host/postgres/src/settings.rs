//! Where the database is, and how it is reached.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;
use windlass_lifecycle::GroupName;

use crate::client::{Client, Failure};

/// Where the tables are if the URL does not say.
const SCHEMA: &str = "windlass";
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// After so long without an answer to a statement, a connection counts as lost, whatever its socket says: a server that
/// is frozen sends nothing, and a network may drop everything. It is longer than [`STATEMENT`], so that the server
/// itself refuses what is slow. With `holder::RENEWAL` it is shorter than a lease, so a new connection renews that in
/// time.
const SILENCE: Duration = Duration::from_secs(20);
/// How long a statement may take, and how long it may wait for another host's: shorter than a lease, whose renewal may
/// have to wait for it.
const STATEMENT: Duration = Duration::from_secs(15);
/// After so long, the server ends a transaction whose host does nothing: it holds up all others.
const IDLE_TRANSACTION: Duration = Duration::from_secs(10);
/// The longest file of certificates or of a password, in bytes.
const MAX_FILE_LEN: u64 = 1024 * 1024;

/// Why a place for state cannot be used as it is written.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("it is not a URL like postgres://user@host:5432/database: {0}")]
    NotUrl(String),
    #[error("unknown parameter `{0}`; known: host, sslmode, sslrootcert, schema, part, passfile, connect_timeout")]
    UnknownParameter(String),
    #[error("`{parameter}={value}`: {problem}")]
    Parameter { parameter: &'static str, value: String, problem: String },
    #[error("the database's name is missing: postgres://user@host/DATABASE")]
    NoDatabase,
    #[error("the user's name is missing: postgres://USER@host/database")]
    NoUser,
    #[error("`{parameter}`: {} cannot be read: {source}", path.display())]
    File {
        parameter: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the certificates that the system trusts cannot be read: {0}")]
    Roots(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// A part of a schema, by which its families, locks and processes begin. The empty one has whatever begins with no
/// part's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part(String);

impl Part {
    /// What has this name in the part, as it is stored. No name has a colon.
    pub(crate) fn stored(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }

    /// The name in the part of what is stored so.
    pub(crate) fn name(&self, stored: &str) -> String {
        stored.strip_prefix(&self.0).unwrap_or(stored).to_owned()
    }
}

/// How the server is proved to be the one that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsMode {
    /// Encrypted, by a certificate of a known authority and with the host's name.
    VerifyFull,
    /// Not encrypted. For a socket of this machine, or its loopback.
    Disable,
}

/// Where the database is. It never shows a password.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The URL without a password, for messages.
    pub(crate) place: String,
    pub(crate) schema: String,
    pub(crate) part: Part,
    /// After so long without an answer, a connection counts as lost.
    pub(crate) silence: Duration,
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Settings").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads a URL. The password is in it, in `PGPASSWORD`, or in the file that `passfile` or `PGPASSFILE` names. A
    /// group has a schema of its own, whose name begins with that of the URL.
    pub(crate) fn parse(
        text: &str,
        environment: &BTreeMap<String, String>,
        group: Option<&GroupName>,
    ) -> Result<Self, SettingsError> {
        // As libpq writes a socket's: a user without a host.
        let url = Url::parse(&text.replacen("@/", "@localhost/", 1))
            .map_err(|error| SettingsError::NotUrl(not_url(text, &error)))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(SettingsError::NotUrl(format!("the scheme is `{}`", url.scheme())));
        }
        let decoded = |text: &str| percent_decoded(text);
        let database = decoded(url.path().trim_start_matches('/'));
        let user = Some(decoded(url.username())).filter(|user| !user.is_empty());
        let user = user.or_else(|| environment.get("PGUSER").cloned()).ok_or(SettingsError::NoUser)?;
        if database.is_empty() {
            return Err(SettingsError::NoDatabase);
        }
        let mut host = decoded(url.host_str().unwrap_or_default());
        let port = url.port().unwrap_or(5432);
        let (mut schema, mut mode, mut root, mut passfile) = (SCHEMA.to_owned(), None, None, None);
        let mut part = None;
        let mut connect_timeout = CONNECT;
        for (name, value) in url.query_pairs() {
            let bad = |parameter, problem: &str| SettingsError::Parameter {
                parameter,
                value: value.to_string(),
                problem: problem.to_owned(),
            };
            match &*name {
                // A URL has no place for the path of a socket's folder.
                "host" => host = value.into_owned(),
                "sslmode" => {
                    mode = Some(match &*value {
                        "verify-full" => TlsMode::VerifyFull,
                        "disable" => TlsMode::Disable,
                        _ => return Err(bad("sslmode", "use verify-full (the default) or disable")),
                    });
                }
                "sslrootcert" => root = Some(PathBuf::from(&*value)),
                "passfile" => passfile = Some(PathBuf::from(&*value)),
                "part" => part = Some(value.into_owned()).filter(|part| !part.is_empty()),
                "schema" if is_identifier(&value) => schema = value.into_owned(),
                "schema" => return Err(bad("schema", "use up to 63 of a-z, 0-9 and _, and begin with a letter")),
                "connect_timeout" => {
                    let seconds = value.parse().ok().filter(|seconds| (1..=600).contains(seconds));
                    let seconds = seconds.ok_or_else(|| bad("connect_timeout", "use 1 to 600 seconds"))?;
                    connect_timeout = Duration::from_secs(seconds);
                }
                other => return Err(SettingsError::UnknownParameter(other.to_owned())),
            }
        }
        if host.is_empty() {
            "localhost".clone_into(&mut host);
        }
        if let Some(group) = group {
            // A group's name has no underscore, so no two groups of one URL get the same schema.
            let of_group = format!("{schema}_{}", group.as_str().replace('-', "_"));
            if !is_identifier(&of_group) {
                let problem = format!("{of_group}, the schema of this group, would have more than 63 bytes");
                return Err(SettingsError::Parameter { parameter: "schema", value: schema, problem });
            }
            schema = of_group;
        }
        let is_socket = host.starts_with('/');
        let mode = mode.unwrap_or(if is_socket { TlsMode::Disable } else { TlsMode::VerifyFull });
        let mut config = Config::new();
        config.user(&user).dbname(&database).host(&host).port(port).application_name("windlass");
        config.connect_timeout(connect_timeout).tcp_user_timeout(SILENCE).keepalives_idle(SILENCE);
        config.keepalives_interval(SILENCE / 4).keepalives_retries(3);
        let seconds = |name: &str, limit: Duration| format!("-c {name}={}", limit.as_millis());
        config.options(format!(
            // Who waited for another one's write must see it.
            "-c search_path={schema} -c default_transaction_isolation=read\\ committed {} {} {}",
            seconds("statement_timeout", STATEMENT),
            seconds("lock_timeout", STATEMENT),
            seconds("idle_in_transaction_session_timeout", IDLE_TRANSACTION)
        ));
        config.ssl_mode(match mode {
            TlsMode::VerifyFull => SslMode::Require,
            TlsMode::Disable => SslMode::Disable,
        });
        let written = url.password().map(decoded);
        let password = match written.or_else(|| environment.get("PGPASSWORD").cloned()) {
            Some(password) => Some(password),
            None => {
                let named = passfile.or_else(|| environment.get("PGPASSFILE").map(PathBuf::from));
                let usual = environment.get("HOME").map(|home| Path::new(home).join(".pgpass"));
                let wanted = Login { host: &host, port, database: &database, user: &user };
                match (named, usual) {
                    (Some(file), _) => wanted.password(&read("passfile", &file)?),
                    (None, Some(file)) => read("passfile", &file).ok().and_then(|text| wanted.password(&text)),
                    (None, None) => None,
                }
            }
        };
        if let Some(password) = password {
            config.password(password);
        }
        let tls = match mode {
            TlsMode::Disable => None,
            TlsMode::VerifyFull => Some(MakeRustlsConnect::new(client_config(root.as_deref())?)),
        };
        let place = match is_socket {
            true => format!("postgres://{user}@/{database}?host={host}&schema={schema}"),
            false => format!("postgres://{user}@{host}:{port}/{database}?schema={schema}"),
        };
        let settings = Self { place, schema, part: Part::default(), silence: SILENCE, config, tls };
        Ok(match part {
            Some(part) => settings.with_part(&part),
            None => settings,
        })
    }

    /// The same for a part of the schema.
    pub(crate) fn with_part(mut self, name: &str) -> Self {
        self.part = Part(self.part.stored(&format!("{name}:")));
        self.place = format!("{}&part={name}", self.place);
        self
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        match &self.tls {
            Some(tls) => Client::connect(&self.config, tls.clone(), self.silence),
            None => Client::connect(&self.config, NoTls, self.silence),
        }
    }
}

/// The names by which a password is found in a file, as in libpq's `.pgpass`.
struct Login<'a> {
    host: &'a str,
    port: u16,
    database: &'a str,
    user: &'a str,
}

impl Login<'_> {
    fn password(&self, file: &str) -> Option<String> {
        let port = self.port.to_string();
        let wanted = [self.host, &port, self.database, self.user];
        file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = fields(line);
            let [names @ .., password] = fields.as_slice() else { return None };
            let is_it = names.len() == wanted.len()
                && names.iter().zip(wanted).all(|(name, wanted)| name == "*" || name == wanted);
            is_it.then(|| password.clone())
        })
    }
}

/// The fields of a line: between colons, where a backslash takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_escaped) = (vec![String::new()], false);
    for character in line.chars() {
        match (character, fields.last_mut()) {
            ('\\', _) if !is_escaped => is_escaped = true,
            (':', _) if !is_escaped => fields.push(String::new()),
            (_, Some(field)) => {
                field.push(character);
                is_escaped = false;
            }
            (_, None) => {}
        }
    }
    fields
}

fn client_config(root: Option<&Path>) -> Result<ClientConfig, SettingsError> {
    let mut roots = RootCertStore::empty();
    match root {
        Some(path) => {
            let pem = read("sslrootcert", path)?;
            let unusable = |problem: String| SettingsError::File {
                parameter: "sslrootcert",
                path: path.to_owned(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, problem),
            };
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("it has no certificate".to_owned()));
            }
        }
        None => {
            let loaded = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(loaded.certs);
            if roots.is_empty() {
                let problems: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
                return Err(SettingsError::Roots(problems.join("; ")));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn read(parameter: &'static str, path: &Path) -> Result<String, SettingsError> {
    let failed = |source| SettingsError::File { parameter, path: path.to_owned(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let read = || {
        let folder = cap_std::fs::Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
        let mut text = String::new();
        folder.open(name)?.take(MAX_FILE_LEN).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(failed)
}

/// Why a text is no URL. It is not repeated: it may hold a password.
fn not_url(text: &str, error: &url::ParseError) -> String {
    match text {
        _ if text.starts_with(['/', '.', '~']) => {
            "it is a path; for a directory, use WINDLASS_STATE_DIR or state_dir".to_owned()
        }
        _ if !text.contains("://") && text.contains('=') => "write it as a URL, not as key=value".to_owned(),
        _ => match error {
            url::ParseError::RelativeUrlWithoutBase => "it does not begin with postgres://".to_owned(),
            other => other.to_string(),
        },
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    text.len() <= 63
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text, &BTreeMap::new(), None)
    }

    #[test]
    fn a_password_is_in_no_message_about_the_place() {
        let settings = parse("postgres://ops:s%40cret@/state?host=/run/postgresql").unwrap();
        assert!(!format!("{settings:?} {}", settings.place).contains("cret"), "{settings:?}");
        assert_eq!(settings.config.get_password(), Some(b"s@cret".as_slice()));
    }

    #[test]
    fn a_server_is_verified_unless_the_url_says_otherwise() {
        let mode = |text: &str| parse(text).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://ops@db.example.com/state"), SslMode::Require);
        assert_eq!(mode("postgres://ops@localhost/state?sslmode=disable"), SslMode::Disable);
        let error = parse("postgres://ops@localhost/state?sslmode=prefer").unwrap_err().to_string();
        assert!(error.contains("verify-full"), "{error}");
    }

    #[test]
    fn each_group_has_a_schema_of_its_own_below_that_of_the_url() {
        let place = |url: &str, group: &str| {
            let group: GroupName = group.parse().unwrap();
            Settings::parse(url, &BTreeMap::new(), Some(&group)).map(|settings| settings.place)
        };
        let url = "postgres://ops@/state?host=/run";
        assert_eq!(place(url, "mac-ci").unwrap(), "postgres://ops@/state?host=/run&schema=windlass_mac_ci");
        let long = format!("{url}&schema={}", "s".repeat(40));
        let error = place(&long, &"g".repeat(30)).unwrap_err().to_string();
        assert!(error.contains("more than 63 bytes"), "{error}");
    }

    #[test]
    fn what_a_part_has_is_stored_under_its_name() {
        let whole = parse("postgres://ops@/state?host=/run").unwrap();
        assert_eq!(whole.part.stored("operation"), "operation");
        let url = "postgres://ops@/state?host=/run&part=accounts/ci/key";
        let named = parse(url).unwrap();
        assert_eq!(named.part, whole.with_part("accounts/ci/key").part);
        assert_eq!(named.part.stored("operation"), "accounts/ci/key:operation");
        assert_eq!(named.part.name("accounts/ci/key:operation"), "operation");
        assert_eq!(named.place, "postgres://ops@/state?host=/run&schema=windlass&part=accounts/ci/key");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (text, part) in [
            ("/var/lib/windlass", "for a directory, use WINDLASS_STATE_DIR"),
            ("host=localhost dbname=x", "not as key=value"),
            ("state", "does not begin with postgres://"),
            ("mysql://ops@host/state", "`mysql`"),
            ("postgres://ops@host", "name is missing"),
            ("postgres://host/state", "user's name"),
            ("postgres://ops@host/state?pool=3", "`pool`"),
            ("postgres://ops@host/state?schema=My-Schema", "schema=My-Schema"),
            ("postgres://ops@host/state?sslrootcert=/no/such.pem", "/no/such.pem"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_libpq_reads_it() {
        let wanted = Login { host: "db", port: 5432, database: "state", user: "ops" };
        let file = "# db:5432:state:ops:no\ndb:5432:other:ops:no\ndb:*:state:ops:a\\:b\\\\c\n*:*:*:*:late\n";
        assert_eq!(wanted.password(file).as_deref(), Some("a:b\\c"));
        assert_eq!(wanted.password("db:5432:state:another:x\n"), None);
    }
}
