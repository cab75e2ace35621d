//! One registry over HTTP, by the OCI distribution specification. Nothing is read without a bound, and credentials go
//! to the registry and to the token service that it names, and nowhere else.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use url::Url;

use crate::artifact::NewArtifact;
use crate::credentials::Credentials;
use crate::digest::ContentDigest;
use crate::error::Error;
use crate::manifest::{
    Layer, MANIFEST_MEDIA_TYPE as MANIFEST, MINISIGN_ANNOTATION, SIGSTORE_ANNOTATION, WASM_MEDIA_TYPE, read_manifest,
};
use crate::printable::printable;
use crate::reference::Reference;
use crate::settings::HostSettings;
use crate::signature::{Signature, SignatureFile};

mod referrers;

pub(crate) use referrers::MAX_BUNDLES;

/// The longest manifest, in bytes: the limit that the specification asks registries to have.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// The longest answer of a token service or error, in bytes.
const MAX_WORDS_BYTES: u64 = 64 << 10;
/// The most redirections of one request.
const MAX_REDIRECTIONS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long nothing may come.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
const EMPTY_CONFIG: &str = "application/vnd.oci.empty.v1+json";

/// What is done with a repository.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// A registry, and who speaks to it.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    registry: String,
    scope: String,
    /// Tried in this order.
    credentials: Vec<Credentials>,
    authorization: tokio::sync::Mutex<Option<HeaderValue>>,
}

/// A manifest as it was sent, and the one layer that it names.
pub(crate) struct Manifest {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: ContentDigest,
    pub(crate) layer: Layer,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    /// A client of one repository. `ca` holds the PEM certificates that `settings` names.
    pub(crate) fn new(
        registry: &str,
        reference: &Reference,
        access: Access,
        settings: &HostSettings,
        ca: Option<&[u8]>,
        credentials: Vec<Credentials>,
    ) -> Result<Client, Error> {
        let problem = |problem: String| Error::Registry { registry: registry.to_owned(), problem };
        let loopback = is_loopback(registry);
        let scheme = if settings.plain_http || loopback && ca.is_none() { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{registry}/v2/")).map_err(|error| problem(error.to_string()))?;
        // One provider for the process. When the embedding program installed another one before us, that one stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            // Followed here, where it can be seen who would get the credentials.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .referer(false);
        if loopback {
            builder = builder.no_proxy();
        }
        if let Some(pem) = ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| problem(words(&error)))?;
            if certificates.is_empty() {
                let file = settings.ca.as_deref().unwrap_or(Path::new("ca")).display();
                return Err(Error::Settings(format!("hosts.\"{registry}\".ca: {file}: it holds no PEM certificate")));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let http = builder.build().map_err(|error| problem(words(&error)))?;
        let actions = match access {
            Access::Pull => "pull",
            Access::Push => "pull,push",
        };
        let scope = format!("repository:{}:{actions}", reference.repository());
        let authorization = tokio::sync::Mutex::default();
        Ok(Client { http, base, registry: registry.to_owned(), scope, credentials, authorization })
    }

    /// The manifest of a reference: of its digest, where it has one, and verified against it.
    pub(crate) async fn manifest(&self, reference: &Reference) -> Result<Manifest, Error> {
        let name = match (reference.digest(), reference.tag()) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.unwrap_or_default().to_owned(),
        };
        let url = self.url(&format!("{}/manifests/{name}", reference.repository()))?;
        let accepted = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(MANIFEST))]);
        let response = self.send(Method::GET, url, accepted, None).await?;
        let response = self.expect(response, &[StatusCode::OK], &format!("the manifest {name}")).await?;
        let bytes = self.body(response, "manifest", MAX_MANIFEST_BYTES).await?;
        let digest = ContentDigest::of(&bytes);
        self.check_digest("manifest", reference.digest().unwrap_or(digest), digest)?;
        let layer = read_manifest(&bytes).map_err(|problem| self.not_an_artifact(problem))?;
        Ok(Manifest { bytes, digest, layer })
    }

    /// A layer, whole and verified.
    pub(crate) async fn layer(&self, reference: &Reference, layer: &Layer) -> Result<Vec<u8>, Error> {
        let url = self.url(&format!("{}/blobs/{}", reference.repository(), layer.digest))?;
        let response = self.send(Method::GET, url, HeaderMap::new(), None).await?;
        let response = self.expect(response, &[StatusCode::OK], &format!("the layer {}", layer.digest)).await?;
        // Not one byte more than the manifest says.
        let bytes = self.body(response, "layer", layer.size).await?;
        self.check_digest("layer", layer.digest, ContentDigest::of(&bytes))?;
        Ok(bytes)
    }

    /// Pushes an artifact under a tag, layers before the manifest. Returns the digest of the manifest.
    pub(crate) async fn push(&self, reference: &Reference, artifact: &NewArtifact<'_>) -> Result<ContentDigest, Error> {
        let layer = ContentDigest::of(artifact.contents);
        let (config, config_type) = match artifact.media_type {
            WASM_MEDIA_TYPE => (wasm_config(artifact, layer).to_string().into_bytes(), WASM_CONFIG),
            _ => (b"{}".to_vec(), EMPTY_CONFIG),
        };
        self.push_blob(reference, &config).await?;
        self.push_blob(reference, artifact.contents).await?;
        let mut manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": config_type,
                "digest": ContentDigest::of(&config).to_string(),
                "size": config.len(),
            },
            "layers": [{
                "mediaType": artifact.media_type,
                "digest": layer.to_string(),
                "size": artifact.contents.len(),
            }],
        });
        if config_type == EMPTY_CONFIG {
            manifest["artifactType"] = artifact.media_type.into();
        }
        for (file, text) in artifact.signatures.iter().filter_map(Signature::file) {
            let annotation = match file {
                SignatureFile::Minisign => MINISIGN_ANNOTATION,
                SignatureFile::Sigstore => SIGSTORE_ANNOTATION,
            };
            manifest["annotations"][annotation] = text.into();
        }
        let bytes = manifest.to_string().into_bytes();
        let digest = ContentDigest::of(&bytes);
        let name = reference.tag().map_or_else(|| digest.to_string(), str::to_owned);
        let url = self.url(&format!("{}/manifests/{name}", reference.repository()))?;
        let typed = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(MANIFEST))]);
        let response = self.send(Method::PUT, url, typed, Some(&bytes)).await?;
        self.expect(response, &[StatusCode::CREATED], "the push of the manifest").await?;
        Ok(digest)
    }

    async fn push_blob(&self, reference: &Reference, bytes: &[u8]) -> Result<(), Error> {
        let digest = ContentDigest::of(bytes);
        let blobs = format!("{}/blobs/", reference.repository());
        let there = self.send(Method::HEAD, self.url(&format!("{blobs}{digest}"))?, HeaderMap::new(), None).await?;
        if there.status() == StatusCode::OK {
            return Ok(());
        }
        let start = self.url(&format!("{blobs}uploads/"))?;
        let response = self.send(Method::POST, start.clone(), HeaderMap::new(), Some(&[])).await?;
        let response = self.expect(response, &[StatusCode::ACCEPTED], "the start of an upload").await?;
        let mut upload = self.location(&start, &response)?;
        upload.query_pairs_mut().append_pair("digest", &digest.to_string());
        let typed = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))]);
        let response = self.send(Method::PUT, upload, typed, Some(bytes)).await?;
        self.expect(response, &[StatusCode::CREATED], "an upload").await.map(drop)
    }

    /// Sends a request, with credentials once they are asked for; follows what is to be read.
    async fn send(
        &self,
        method: Method,
        mut url: Url,
        headers: HeaderMap,
        body: Option<&[u8]>,
    ) -> Result<Response, Error> {
        let mut redirections = 0;
        let mut tried = 0;
        loop {
            let is_ours = url.origin() == self.base.origin();
            let mut request = self.http.request(method.clone(), url.clone()).headers(headers.clone());
            if is_ours && let Some(authorization) = self.authorization.lock().await.clone() {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(body) = body {
                request = request.body(body.to_vec());
            }
            let response = request.send().await.map_err(|error| self.problem(words(&error)))?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED
                && is_ours
                && let Some(authorization) = self.next_authorization(&response, &mut tried).await?
            {
                *self.authorization.lock().await = Some(authorization);
                continue;
            }
            if !status.is_redirection() || method != Method::GET {
                return Ok(response);
            }
            redirections += 1;
            if redirections > MAX_REDIRECTIONS {
                return Err(self.problem(format!("it redirects more than {MAX_REDIRECTIONS} times")));
            }
            let next = self.location(&url, &response)?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(self.problem("it redirects from https to http".into()));
            }
            url = next;
        }
    }

    /// The answer to a registry's 401, by the first credentials that were not tried for this request. None after the
    /// last ones.
    async fn next_authorization(&self, response: &Response, tried: &mut usize) -> Result<Option<HeaderValue>, Error> {
        loop {
            let credentials = self.credentials.get(*tried);
            // A registry's token service may let in everybody: it is asked once without credentials, if there are none.
            if credentials.is_none() && *tried > 0 {
                return Ok(None);
            }
            *tried += 1;
            let authorization = self.authorize(response, credentials).await;
            if authorization.is_ok() || *tried >= self.credentials.len() {
                return authorization.map(Some);
            }
        }
    }

    /// What a registry asks for with its 401: the password itself, or a token for it.
    async fn authorize(&self, response: &Response, credentials: Option<&Credentials>) -> Result<HeaderValue, Error> {
        let challenges =
            response.headers().get_all(WWW_AUTHENTICATE).into_iter().filter_map(|value| value.to_str().ok());
        let mut basic = false;
        for challenge in challenges {
            let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
            if scheme.eq_ignore_ascii_case("bearer") {
                return self.token(parameters, credentials).await;
            }
            basic |= scheme.eq_ignore_ascii_case("basic");
        }
        match (credentials, basic) {
            (Some(Credentials::Password { name, password }), true) => self.secret(&basic_of(name, password)),
            (_, true) => Err(self.problem(
                "it requires a name and a password, and Docker's configuration has none: run `docker login`".into(),
            )),
            (_, false) => Err(self.problem("it asks for an unknown kind of credentials".into())),
        }
    }

    async fn token(&self, parameters: &str, credentials: Option<&Credentials>) -> Result<HeaderValue, Error> {
        let realm =
            parameter(parameters, "realm").ok_or_else(|| self.problem("its 401 names no token service".into()))?;
        let mut url = Url::parse(&realm).map_err(|_| self.problem("its token service has no valid URL".into()))?;
        // Where the registry itself is spoken to without TLS, its token service may be.
        if url.scheme() != "https" && !(url.scheme() == "http" && self.base.scheme() == "http") {
            return Err(self.problem("its token service is not reached by https".into()));
        }
        let service = parameter(parameters, "service");
        let request = match credentials {
            Some(Credentials::IdentityToken(token)) => {
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("refresh_token", token),
                    ("service", service.as_deref().unwrap_or_default()),
                    ("scope", &self.scope),
                    ("client_id", "windlass"),
                ];
                let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
                self.http.post(url).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form)
            }
            credentials => {
                url.query_pairs_mut().append_pair("scope", &self.scope);
                if let Some(service) = &service {
                    url.query_pairs_mut().append_pair("service", service);
                }
                let request = self.http.get(url);
                match credentials {
                    Some(Credentials::Password { name, password }) => {
                        request.header(AUTHORIZATION, self.secret(&basic_of(name, password))?)
                    }
                    _ => request,
                }
            }
        };
        let response =
            request.send().await.map_err(|error| self.problem(format!("its token service: {}", words(&error))))?;
        if response.status() != StatusCode::OK {
            return Err(self.problem(format!("its token service answers {}", response.status())));
        }
        let bytes = self.body(response, "answer of the token service", MAX_WORDS_BYTES).await?;
        let answer: TokenAnswer = serde_json::from_slice(&bytes)
            .map_err(|_| self.problem("its token service does not answer as one does".into()))?;
        let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.problem("its token service gives no token".into()))?;
        self.secret(&format!("Bearer {token}"))
    }

    fn secret(&self, text: &str) -> Result<HeaderValue, Error> {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| self.problem("its credentials hold characters that no header may".into()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The answer, where it has one of these statuses.
    async fn expect(&self, response: Response, expected: &[StatusCode], what: &str) -> Result<Response, Error> {
        let status = response.status();
        if expected.contains(&status) {
            return Ok(response);
        }
        let said = self.body(response, "error", MAX_WORDS_BYTES).await.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said = if said.trim().is_empty() { String::new() } else { format!(": {}", printable(said.trim())) };
        Err(self.problem(format!("{status} for {what}{said}")))
    }

    /// A body of at most so many bytes, whatever its length is said to be.
    async fn body(&self, mut response: Response, what: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| self.problem(format!("the {what} broke off: {}", words(&error))))?
        {
            if (body.len() + chunk.len()) as u64 > limit {
                return Err(Error::TooLarge { registry: self.registry.clone(), what, limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn check_digest(&self, what: &'static str, expected: ContentDigest, found: ContentDigest) -> Result<(), Error> {
        if expected == found {
            return Ok(());
        }
        Err(Error::WrongDigest { registry: self.registry.clone(), what, expected, found })
    }

    fn location(&self, from: &Url, response: &Response) -> Result<Url, Error> {
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let url = location.and_then(|location| from.join(location).ok());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        url.ok_or_else(|| self.problem("its answer has no valid Location header".into()))
    }

    fn url(&self, path: &str) -> Result<Url, Error> {
        self.base.join(path).map_err(|error| self.problem(error.to_string()))
    }

    fn problem(&self, problem: String) -> Error {
        Error::Registry { registry: self.registry.clone(), problem }
    }

    fn not_an_artifact(&self, problem: String) -> Error {
        Error::NotAnArtifact { registry: self.registry.clone(), problem }
    }
}

/// The configuration of a component, by the Wasm OCI artifact layout. Its time is always the same, so that the same
/// file pushed twice has the same digest.
fn wasm_config(artifact: &NewArtifact<'_>, layer: ContentDigest) -> serde_json::Value {
    serde_json::json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.to_string()],
        "component": {"exports": artifact.exports, "imports": artifact.imports, "target": null},
    })
}

/// Whether a registry is this machine itself.
fn is_loopback(registry: &str) -> bool {
    Url::parse(&format!("http://{registry}/")).is_ok_and(|url| match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    })
}

fn basic_of(name: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{name}:{password}")))
}

/// A parameter of a challenge: `name="value"` or `name=value`.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim().trim_start_matches(',').trim().eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = after;
    }
    None
}

/// The words of an error and of its causes, without the URL, which may hold a signature.
fn words(error: &reqwest::Error) -> String {
    let mut words = match error {
        error if error.is_timeout() => "it did not answer in time".to_owned(),
        error if error.is_connect() => "it cannot be reached".to_owned(),
        _ => "the exchange with it failed".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    printable(&words)
}

/// Reads a file of PEM certificates.
pub(crate) fn read_certificates(file: &Path) -> std::io::Result<Vec<u8>> {
    const MAX_BYTES: u64 = 1 << 20;
    let name = file.file_name().ok_or_else(|| std::io::Error::other("the path names no file"))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = cap_std::fs::Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
    crate::files::read_bounded(&folder, name, MAX_BYTES)
}
