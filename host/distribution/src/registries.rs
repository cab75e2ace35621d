//! All registries of a configuration: credentials, mirrors, the lock file and the cache put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;

use crate::artifact::{Artifact, Fetch, NewArtifact};
use crate::cache::Cache;
use crate::client::{Access, Client, MAX_BUNDLES, MAX_MANIFEST_BYTES, Manifest, read_certificates};
use crate::credentials::DockerConfiguration;
use crate::digest::ContentDigest;
use crate::error::Error;
use crate::lock::{LockFile, LockedTag, TagLock};
use crate::manifest::read_manifest;
use crate::reference::Reference;
use crate::settings::{HostSettings, RegistrySettings};
use crate::signature::Signature;
use crate::trust::Trust;

/// How long one artifact may take from all registries together.
const DEADLINE: Duration = Duration::from_secs(120);
/// The same where a service waits for it at its start.
const SERVICE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a credential helper may take.
const HELPER_DEADLINE: Duration = Duration::from_secs(15);

/// How [`Registries`] are made.
#[non_exhaustive]
pub struct RegistryOptions {
    /// How registries are reached.
    pub settings: RegistrySettings,
    /// Where relative paths of the settings start.
    pub folder: PathBuf,
    /// The folder for the cache. Several processes may share it. Absent: nothing is cached.
    pub state: Option<Dir>,
    /// Where tags are locked. Absent: a tag is looked up each time.
    pub lock: Option<Arc<dyn TagLock>>,
    /// Who must have signed what a tag is, before it is locked. Whoever fetches has to verify all the same.
    pub trust: Option<Arc<Trust>>,
    /// The variables `DOCKER_CONFIG`, `HOME` and, for credential helpers, `PATH`.
    pub environment: BTreeMap<String, String>,
    /// How long one artifact may take, all registries together. Default: two minutes.
    pub deadline: Duration,
    /// How long a credential helper may take. Default: 15 seconds.
    pub helper_deadline: Duration,
}

impl RegistryOptions {
    /// The defaults with these settings: the current folder, no cache, no lock file, no variables.
    pub fn new(settings: RegistrySettings) -> RegistryOptions {
        RegistryOptions {
            settings,
            folder: PathBuf::from("."),
            state: None,
            lock: None,
            trust: None,
            environment: BTreeMap::new(),
            deadline: DEADLINE,
            helper_deadline: HELPER_DEADLINE,
        }
    }

    /// The options of a service with a state directory, whose handle and path these are: the cache and the lock file
    /// `policies.lock` are there, variables are the process's, and one artifact may take half a minute, since the
    /// service starts only then. `trust` is whoever the service trusts.
    ///
    /// # Errors
    /// The handle can't be duplicated.
    pub fn of_service(
        settings: RegistrySettings,
        trust: Option<Arc<Trust>>,
        state: &Dir,
        path: &Path,
    ) -> std::io::Result<RegistryOptions> {
        let mut options = RegistryOptions::new(settings).with_environment_of_process();
        options.trust = trust;
        options.state = Some(state.try_clone()?);
        options.lock = Some(Arc::new(LockFile::of_service(path)));
        options.deadline = SERVICE_DEADLINE;
        Ok(options)
    }

    /// The same with the variables of this process.
    pub fn with_environment_of_process(mut self) -> RegistryOptions {
        let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
        self.environment = ["DOCKER_CONFIG", "HOME", "PATH"].into_iter().filter_map(variable).collect();
        self
    }
}

/// Pushes and fetches artifacts.
pub struct Registries {
    settings: RegistrySettings,
    folder: PathBuf,
    cache: Option<Cache>,
    lock: Option<Arc<dyn TagLock>>,
    trust: Option<Arc<Trust>>,
    docker: DockerConfiguration,
    deadline: Duration,
}

impl Registries {
    /// Makes the client. Nothing is asked of anybody yet.
    ///
    /// # Errors
    /// The folder of the cache can't be opened.
    pub fn new(options: RegistryOptions) -> Result<Registries, Error> {
        let cache = options.state.as_ref().map(Cache::open).transpose();
        let cache = cache.map_err(|error| Error::Settings(format!("the folder for artifacts: {error}")))?;
        let usual = || {
            let variable =
                |name: &str| options.environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let folder = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
            folder.map(|folder| (folder.join("config.json"), false))
        };
        let named = options.settings.credentials.as_ref().map(|file| (options.folder.join(file), true));
        let docker = DockerConfiguration {
            file: named.or_else(usual),
            path: options.environment.get("PATH").cloned(),
            helper_deadline: options.helper_deadline,
        };
        Ok(Registries {
            settings: options.settings,
            folder: options.folder,
            cache,
            lock: options.lock,
            trust: options.trust,
            docker,
            deadline: options.deadline,
        })
    }

    /// Pushes an artifact under the reference's tag. Returns the digest by which it can be named for good. Blocks.
    ///
    /// # Errors
    /// The registry, or the credentials for it.
    pub fn push(&self, reference: &Reference, artifact: &NewArtifact<'_>) -> Result<ContentDigest, Error> {
        if reference.digest().is_some() || reference.tag().is_none() {
            let problem = "name a tag to push to; the digest follows from what is pushed".to_owned();
            return Err(Error::Reference { reference: reference.to_string(), problem });
        }
        self.blocking(reference, async {
            let client = self.client(reference.registry(), reference, Access::Push).await?;
            client.push(reference, artifact).await
        })
    }

    /// Looks a tag up and locks what it is now, whatever is locked. Blocks.
    ///
    /// # Errors
    /// No registry has it, or it can't be locked; then what is locked stays as it was.
    pub fn lock(&self, reference: &Reference, most: u64) -> Result<ContentDigest, Error> {
        let artifact = self.fetch_from_registries(reference, most)?;
        if let Some(trust) = &self.trust {
            trust.verify(&artifact.contents, &artifact.signatures)?;
        }
        self.write_lock(reference, artifact.digest)?;
        Ok(artifact.digest)
    }

    fn write_lock(&self, reference: &Reference, digest: ContentDigest) -> Result<(), Error> {
        match &self.lock {
            Some(lock) => lock.lock(&[LockedTag { reference: reference.clone(), digest }]),
            None => Ok(()),
        }
    }

    /// Looks a tag up, whatever is locked and cached, and fetches what it is now.
    fn fetch_from_registries(&self, reference: &Reference, most: u64) -> Result<Artifact, Error> {
        self.blocking(reference, async {
            let mut errors = Vec::new();
            let mut untrusted = None;
            for registry in self.in_order(reference) {
                match self.fetch_from(registry, reference, most).await {
                    Ok(artifact) if self.is_trusted(&artifact) => return Ok(artifact),
                    // A mirror may lack the signature, or have another artifact under a tag.
                    Ok(artifact) => untrusted = Some(artifact),
                    Err(error) => errors.push(error),
                }
            }
            // The caller reports why it is not trusted.
            untrusted.ok_or_else(|| all_of(errors))
        })
    }

    /// The mirrors of a registry, and the registry itself.
    fn in_order<'a>(&'a self, reference: &'a Reference) -> impl Iterator<Item = &'a str> {
        let its = self.settings.hosts.get(reference.registry());
        let mirrors = its.map_or(&[][..], |its| &its.mirrors);
        mirrors.iter().map(String::as_str).chain([reference.registry()])
    }

    /// Whether nobody has to have signed it, or somebody who is trusted has.
    fn is_trusted(&self, artifact: &Artifact) -> bool {
        self.trust.as_ref().is_none_or(|trust| trust.verify(&artifact.contents, &artifact.signatures).is_ok())
    }

    /// Whether it is worth asking for bundles that lie beside its manifest.
    fn may_have_bundles(&self, artifact: &Artifact) -> bool {
        self.trust.as_ref().is_some_and(|trust| trust.takes_bundles()) && !self.is_trusted(artifact)
    }

    /// What was cached, with the bundles that are there by now, where none of those that are cached is trusted: a key
    /// may have been replaced.
    fn with_new_bundles(
        &self,
        reference: &Reference,
        manifest: &[u8],
        mut artifact: Artifact,
    ) -> Result<Artifact, Error> {
        if !self.may_have_bundles(&artifact) {
            return Ok(artifact);
        }
        let looked_up = self.blocking(reference, async {
            let mut errors = Vec::new();
            for registry in self.in_order(reference) {
                let asked = async {
                    let client = self.client(registry, reference, Access::Pull).await?;
                    client.bundles(reference, artifact.digest).await
                };
                match asked.await {
                    Ok(bundles) => {
                        artifact.signatures.extend(of_manifest(&bundles, manifest));
                        if self.is_trusted(&artifact) {
                            self.keep_bundles(artifact.digest, &bundles);
                            return Ok(());
                        }
                    }
                    Err(error) => errors.push(error),
                }
            }
            if errors.is_empty() { Ok(()) } else { Err(all_of(errors)) }
        });
        match looked_up {
            // Without any signature, that nobody could be asked is the reason.
            Err(error) if artifact.signatures.is_empty() => Err(error),
            Err(error) => {
                tracing::warn!(%reference, %error, "cannot check for newer signatures");
                Ok(artifact)
            }
            Ok(()) => Ok(artifact),
        }
    }

    fn keep_bundles(&self, manifest: ContentDigest, bundles: &[String]) {
        if let Some(cache) = &self.cache {
            cache.put_bundles(manifest, bundles);
        }
    }

    async fn fetch_from(&self, registry: &str, reference: &Reference, most: u64) -> Result<Artifact, Error> {
        let client = self.client(registry, reference, Access::Pull).await?;
        let manifest = client.manifest(reference).await?;
        if manifest.layer.size > most {
            return Err(Error::TooLarge { registry: registry.to_owned(), what: "layer", limit: most });
        }
        let cached = self.cache.as_ref().and_then(|cache| cache.get(manifest.layer.digest, most));
        let contents = match cached {
            Some(contents) => contents,
            None => client.layer(reference, &manifest.layer).await?,
        };
        if let Some(cache) = &self.cache {
            // The layer first: where the manifest is, everything is.
            cache.put(manifest.layer.digest, &contents);
            cache.put(manifest.digest, &manifest.bytes);
        }
        let bytes = manifest.bytes.clone();
        let mut artifact = artifact(manifest, contents);
        if self.may_have_bundles(&artifact) {
            let bundles = client.bundles(reference, artifact.digest).await?;
            artifact.signatures.extend(of_manifest(&bundles, &bytes));
            self.keep_bundles(artifact.digest, &bundles);
        }
        Ok(artifact)
    }

    /// Everything from the cache, or nothing.
    fn cached(&self, digest: ContentDigest, most: u64) -> Option<(Artifact, Vec<u8>)> {
        let cache = self.cache.as_ref()?;
        let bytes = cache.get(digest, MAX_MANIFEST_BYTES)?;
        let layer = read_manifest(&bytes).ok()?;
        let contents = cache.get(layer.digest, most)?;
        let manifest = bytes.clone();
        let mut artifact = artifact(Manifest { bytes, digest, layer }, contents);
        if self.may_have_bundles(&artifact) {
            artifact.signatures.extend(of_manifest(&cache.bundles(digest), &manifest));
        }
        Some((artifact, manifest))
    }

    async fn client(&self, registry: &str, reference: &Reference, access: Access) -> Result<Client, Error> {
        let default = HostSettings::default();
        let settings = self.settings.hosts.get(registry).unwrap_or(&default);
        let certificates = match &settings.ca {
            Some(file) => {
                let file = self.folder.join(file);
                let read = read_certificates(&file);
                let problem = |error| Error::Settings(format!("hosts.\"{registry}\".ca: {}: {error}", file.display()));
                Some(read.map_err(problem)?)
            }
            None => None,
        };
        let credentials = self.docker.credentials(registry, reference.repository()).await?;
        Client::new(registry, reference, access, settings, certificates.as_deref(), credentials)
    }

    /// Runs work on a thread of its own, since the caller's may belong to an asynchronous runtime.
    fn blocking<T: Send>(
        &self,
        reference: &Reference,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let problem = |problem: String| Error::Registry { registry: reference.registry().to_owned(), problem };
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| problem(error.to_string()))?;
            let ended = runtime.block_on(async { tokio::time::timeout(self.deadline, work).await });
            // A name that is being looked up elsewhere is not waited for.
            runtime.shutdown_background();
            ended.unwrap_or_else(|_| Err(problem(format!("it took longer than {:?}", self.deadline))))
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Fetch for Registries {
    fn fetch(&self, reference: &Reference, most: u64) -> Result<Artifact, Error> {
        let locked = match (reference.digest(), &self.lock) {
            (Some(digest), _) => Some(digest),
            (None, Some(lock)) => lock.get(reference)?,
            (None, None) => None,
        };
        if let Some(digest) = locked {
            if let Some((artifact, manifest)) = self.cached(digest, most) {
                return self.with_new_bundles(reference, &manifest, artifact);
            }
            return self.fetch_from_registries(&reference.at(digest), most);
        }
        let artifact = self.fetch_from_registries(reference, most)?;
        // What nobody trusted has signed is refused by whoever asked for it, and must not stay locked until then.
        if !self.is_trusted(&artifact) {
            return Ok(artifact);
        }
        let Some(lock) = &self.lock else { return Ok(artifact) };
        let digest = lock.lock_first(&LockedTag { reference: reference.clone(), digest: artifact.digest })?;
        if digest == artifact.digest {
            return Ok(artifact);
        }
        // Another process was first, and the tag was moved in between.
        match self.cached(digest, most) {
            Some((first, manifest)) => self.with_new_bundles(reference, &manifest, first),
            None => self.fetch_from_registries(&reference.at(digest), most),
        }
    }
}

/// The errors of all who were asked.
fn all_of(mut errors: Vec<Error>) -> Error {
    match errors.pop() {
        Some(only) if errors.is_empty() => only,
        last => Error::Everywhere(errors.into_iter().chain(last).collect()),
    }
}

fn of_manifest(bundles: &[String], manifest: &[u8]) -> impl Iterator<Item = Signature> {
    let manifest: Arc<[u8]> = manifest.into();
    bundles
        .iter()
        .take(MAX_BUNDLES)
        .map(move |bundle| Signature::SigstoreOfManifest { bundle: bundle.clone(), manifest: Arc::clone(&manifest) })
}

fn artifact(manifest: Manifest, contents: Vec<u8>) -> Artifact {
    Artifact {
        digest: manifest.digest,
        contents: contents.into(),
        media_type: manifest.layer.media_type,
        signatures: manifest.layer.signatures,
    }
}
