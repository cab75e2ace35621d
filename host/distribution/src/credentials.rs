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
/// The names of Docker Hub.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
/// The name by which Docker asks a helper for the credentials of Docker Hub.
const HUB_SERVER: &str = "https://index.docker.io/v1/";

/// Who pushes or fetches. Its secret is never shown.
#[derive(Clone)]
pub(crate) enum Credentials {
    Password {
        name: String,
        password: String,
    },
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

impl Auth {
    /// None where Docker has left an empty entry: a helper keeps the secret then.
    fn credentials(&self) -> Result<Option<Credentials>, &'static str> {
        if let Some(token) = self.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Credentials::IdentityToken(token.clone())));
        }
        if let (Some(name), Some(password)) = (&self.username, &self.password) {
            return Ok(Some(Credentials::Password { name: name.clone(), password: password.clone() }));
        }
        let Some(encoded) = self.auth.as_ref().filter(|encoded| !encoded.is_empty()) else { return Ok(None) };
        let decoded = BASE64.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|decoded| decoded.split_once(':'));
        let (name, password) = pair.ok_or("`auth` is not base64 of name:password")?;
        Ok(Some(Credentials::Password { name: name.to_owned(), password: password.trim_end_matches('\0').to_owned() }))
    }
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
    /// The credentials that fit a repository of a registry, in the order in which they are to be tried.
    pub(crate) async fn credentials(&self, registry: &str, repository: &str) -> Result<Vec<Credentials>, Error> {
        let problem = |problem: String| Error::Credentials { registry: registry.to_owned(), problem };
        let Some((file, required)) = &self.file else { return Ok(Vec::new()) };
        let configuration = match read(file) {
            Ok(bytes) => serde_json::from_slice::<Configuration>(&bytes)
                // serde_json's words quote no values but unexpected ones, which could be a secret: say the place only.
                .map_err(|error| {
                    problem(format!("{}: line {} is not as Docker writes it", file.display(), error.line()))
                })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => return Ok(Vec::new()),
            Err(error) => return Err(problem(format!("{}: {error}", file.display()))),
        };
        let helpers = fitting(&configuration.cred_helpers, registry, repository);
        if let Some(helper) = helpers.first().copied().or(configuration.creds_store.as_ref())
            && let Some(found) = self.ask(helper, registry).await?
        {
            return Ok(vec![found]);
        }
        let fitting = fitting(&configuration.auths, registry, repository);
        let read = fitting.into_iter().filter_map(|auth| auth.credentials().transpose());
        read.collect::<Result<_, _>>().map_err(|wrong: &str| problem(format!("{}: {wrong}", file.display())))
    }

    /// Asks a helper as Docker does: the program `docker-credential-NAME`, the registry on its standard input.
    async fn ask(&self, helper: &str, registry: &str) -> Result<Option<Credentials>, Error> {
        let problem = |problem: String| Error::Credentials { registry: registry.to_owned(), problem };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        // A path here would run any program of this machine.
        if helper.is_empty() || helper.len() > 64 || !helper.bytes().all(is_name) {
            return Err(problem(format!("`{}` is not the name of a credential helper", printable(helper))));
        }
        let program = format!("docker-credential-{helper}");
        let failed = |error: std::io::Error| problem(format!("{program}: {error}"));
        let mut command = tokio::process::Command::new(&program);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let server = if HUB.contains(&registry) { HUB_SERVER } else { registry };
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
                let _ = stdin.write_all(format!("{server}\n").as_bytes()).await;
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

/// What is kept for a repository of a registry, the longest path first.
///
/// Docker and the kubelet write the same place in several ways: `host:port`, `https://host:port`,
/// `https://host:port/v1/`, `host:port/team`, and for Kubernetes a host in which `*` stands for any part of a label:
/// <https://kubernetes.io/docs/concepts/containers/images/#config-json>.
fn fitting<'c, T>(kept: &'c BTreeMap<String, T>, registry: &str, repository: &str) -> Vec<&'c T> {
    let mut found: Vec<_> = kept
        .iter()
        .filter_map(|(key, kept)| {
            let (host, path) = place_of(key);
            let below = repository.strip_prefix(path).filter(|_| host_fits(host, registry))?;
            (path.is_empty() || below.is_empty() || below.starts_with('/')).then_some((path.len(), host, kept))
        })
        .collect();
    // For the same path, an exact host comes before a pattern.
    found.sort_by_key(|(path, host, _)| (std::cmp::Reverse(*path), host.contains('*')));
    found.into_iter().map(|(_, _, kept)| kept).collect()
}

/// The host and the path that a key is about, without the scheme and the version of the API.
fn place_of(key: &str) -> (&str, &str) {
    let place = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let path = path.strip_prefix("v1/").or_else(|| path.strip_prefix("v2/")).unwrap_or(path);
    (host, path.trim_end_matches('/'))
}

/// Whether a host of Docker's configuration is this registry. Ports have to be the same.
fn host_fits(host: &str, registry: &str) -> bool {
    if HUB.contains(&host) && HUB.contains(&registry) {
        return true;
    }
    let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let (its_host, its_port) = registry.rsplit_once(':').unwrap_or((registry, ""));
    let labels = || host.split('.').zip(its_host.split('.'));
    port == its_port
        && host.split('.').count() == its_host.split('.').count()
        && labels().all(|(pattern, label)| label_fits(pattern, label))
}

fn label_fits(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((before, after)) => label.strip_prefix(before).is_some_and(|rest| {
            // What stands after the last star ends the label; one in between may match anywhere.
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| label_fits(after, rest)))
        }),
    }
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let name = file.file_name().ok_or_else(|| std::io::Error::other("the path names no file"))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    read_bounded(&Dir::open_ambient_dir(folder, ambient_authority())?, name, MAX_CONFIGURATION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that fit, in the order in which they are tried.
    fn tried<'c>(keys: &[&'c str], registry: &str, repository: &str) -> Vec<&'c str> {
        let kept: BTreeMap<_, _> = keys.iter().map(|key| ((*key).to_owned(), *key)).collect();
        fitting(&kept, registry, repository).into_iter().copied().collect()
    }

    #[test]
    fn docker_hub_has_three_names() {
        for registry in HUB {
            for key in ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io/team"] {
                assert_eq!(tried(&[key], registry, "team/policy"), [key], "{registry}");
            }
        }
        assert!(tried(&["docker.io"], "evil.docker.io", "team/policy").is_empty());
    }

    #[test]
    fn a_star_stands_for_a_part_of_one_label_only() {
        for (key, registry, fits) in [
            ("*.registry.example", "eu.registry.example", true),
            ("eu-*.registry.example", "eu-1.registry.example", true),
            ("*a*b.example", "xaybzb.example", true),
            ("*.registry.example:5000", "eu.registry.example:5000", true),
            ("*.registry.example", "registry.example", false),
            ("*.registry.example", "a.b.registry.example", false),
            ("*.registry.example", "eu.registry.example:5000", false),
            ("*.registry.example", "eu.registry.example.attacker.example", false),
            ("*", "registry.example", false),
        ] {
            assert_eq!(tried(&[key], registry, "team/policy").len(), usize::from(fits), "{key} {registry}");
        }
    }

    #[test]
    fn the_longest_path_comes_first_and_a_pattern_after_its_host() {
        let keys =
            ["*.example", "https://r.example/v1/", "r.example/team", "*.example/team/policy", "r.example/team/policy"];
        assert_eq!(
            tried(&keys, "r.example", "team/policy"),
            ["r.example/team/policy", "*.example/team/policy", "r.example/team", "https://r.example/v1/", "*.example"]
        );
    }
}
