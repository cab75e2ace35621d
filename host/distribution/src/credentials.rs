//! Credentials as Docker keeps them: in its configuration file, or with a helper, a program that is asked.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::error::Error;
use crate::files::read_bounded;
use crate::printable::printable;

/// The longest configuration, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;
/// The longest answer of a helper, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// What a helper answers as the name where its secret is a token.
const TOKEN_NAME: &str = "<token>";

/// Who pushes or fetches. Its secret is never shown.
#[derive(Clone)]
pub(crate) enum Credentials {
    /// A name and a password.
    Password { name: String, password: String },
    /// A token by which a registry's token service gives out others.
    IdentityToken(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase", default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Docker's configuration file.
pub(crate) struct DockerConfiguration {
    /// Where it is, and whether it must be there.
    pub(crate) file: Option<(PathBuf, bool)>,
    /// Where helpers are looked for, where it isn't this process's own `PATH`.
    pub(crate) path: Option<String>,
    /// How long a helper may take.
    pub(crate) helper_deadline: Duration,
}

impl DockerConfiguration {
    /// The credentials for a registry, where there are any.
    pub(crate) async fn credentials(&self, registry: &str) -> Result<Option<Credentials>, Error> {
        let problem = |problem: String| Error::Credentials { registry: registry.to_owned(), problem };
        let Some((file, required)) = &self.file else { return Ok(None) };
        let configuration = match read(file) {
            Ok(bytes) => serde_json::from_slice::<Configuration>(&bytes)
                // serde_json's words quote no values but unexpected ones, which could be a secret: say the place only.
                .map_err(|error| {
                    problem(format!("{}: line {} is not as Docker writes it", file.display(), error.line()))
                })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => return Ok(None),
            Err(error) => return Err(problem(format!("{}: {error}", file.display()))),
        };
        let names = names_of(registry);
        let helper =
            names.iter().find_map(|name| configuration.cred_helpers.get(name)).or(configuration.creds_store.as_ref());
        if let Some(helper) = helper
            && let Some(found) = self.ask(helper, registry).await?
        {
            return Ok(Some(found));
        }
        let Some(auth) = names.iter().find_map(|name| configuration.auths.get(name)) else { return Ok(None) };
        if let Some(token) = auth.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::IdentityToken(token.clone())));
        }
        if let (Some(name), Some(password)) = (&auth.username, &auth.password) {
            return Ok(Some(Credentials::Password { name: name.clone(), password: password.clone() }));
        }
        let Some(encoded) = auth.auth.as_ref().filter(|encoded| !encoded.is_empty()) else { return Ok(None) };
        let decoded = BASE64.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|decoded| decoded.split_once(':'));
        let (name, password) =
            pair.ok_or_else(|| problem(format!("{}: `auth` is not base64 of name:password", file.display())))?;
        Ok(Some(Credentials::Password { name: name.to_owned(), password: password.trim_end_matches('\0').to_owned() }))
    }

    /// Asks a helper as Docker does: the program `docker-credential-NAME`, the registry on its standard input.
    async fn ask(&self, helper: &str, registry: &str) -> Result<Option<Credentials>, Error> {
        let problem = |problem: String| Error::Credentials { registry: registry.to_owned(), problem };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        // A path here would run any program of this machine.
        if helper.is_empty() || helper.len() > 64 || !helper.bytes().all(is_name) {
            return Err(problem(format!("`{}` is no name of a credential helper", printable(helper))));
        }
        let program = format!("docker-credential-{helper}");
        let failed = |error: std::io::Error| problem(format!("{program}: {error}"));
        let mut command = tokio::process::Command::new(&program);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let mut child = command
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let asked = async {
            if let Some(mut stdin) = stdin {
                // One that reads nothing has closed it, and may answer all the same.
                let _ = stdin.write_all(format!("{registry}\n").as_bytes()).await;
            }
            let mut answer = Vec::new();
            if let Some(stdout) = stdout {
                stdout.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut answer).await.map_err(failed)?;
            }
            if answer.len() as u64 > MAX_ANSWER_BYTES {
                return Err(problem(format!("{program} answers more than {MAX_ANSWER_BYTES} bytes")));
            }
            Ok((answer, child.wait().await.map_err(failed)?))
        };
        let asked = tokio::time::timeout(self.helper_deadline, asked).await;
        let (answer, status) =
            asked.map_err(|_| problem(format!("{program} did not answer within {:?}", self.helper_deadline)))??;
        if !status.success() {
            // By the protocol, these words say that it keeps none for this registry.
            if answer.starts_with(b"credentials not found") {
                return Ok(None);
            }
            return Err(problem(format!("{program} ended with {status}")));
        }
        let answer: HelperAnswer = serde_json::from_slice(&answer)
            .map_err(|_| problem(format!("{program} does not answer as a credential helper does")))?;
        Ok(Some(if answer.username == TOKEN_NAME {
            Credentials::IdentityToken(answer.secret)
        } else {
            Credentials::Password { name: answer.username, password: answer.secret }
        }))
    }
}

/// The names under which Docker keeps a registry's credentials.
fn names_of(registry: &str) -> Vec<String> {
    let mut names = vec![registry.to_owned(), format!("https://{registry}"), format!("http://{registry}")];
    names.extend([format!("https://{registry}/v2/"), format!("https://{registry}/v1/")]);
    names
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let name = file.file_name().ok_or_else(|| std::io::Error::other("the path names no file"))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    read_bounded(&Dir::open_ambient_dir(folder, ambient_authority())?, name, MAX_CONFIGURATION_BYTES)
}
