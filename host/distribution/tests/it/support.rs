//! A registry that answers as a test says.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_distribution::{
    Artifact, ContentDigest, Error, Fetch as _, LockFile, Reference, Registries, RegistryOptions, RegistrySettings,
};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const LAYER: &[u8] = b"the layer of the test";
/// More than any layer here has.
pub const MAX_BYTES: u64 = 1 << 20;

/// A request as it came: its first line, and its head with it.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    pub head: String,
}

type Answer = dyn Fn(&Request, &mut TcpStream) + Send + Sync;

pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves until the process ends, each connection for one request.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Ok(mut stream) = stream else { return };
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut byte) {
                            Ok(1) => head.push(byte[0]),
                            _ => return,
                        }
                    }
                    let head = String::from_utf8(head).unwrap();
                    let line = head.lines().next().unwrap().to_owned();
                    let request = Request { line, head };
                    seen.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        Server { address, requests }
    }

    /// One that has an artifact with this layer under `team/policy:main`, until it is told otherwise.
    pub fn honest(layer: &'static [u8]) -> Server {
        Server::start(move |request, stream| honest(request, stream, layer))
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn by_tag(&self) -> Reference {
        format!("oci://{}/team/policy:main", self.address).parse().unwrap()
    }

    pub fn by_digest(&self, digest: ContentDigest) -> Reference {
        self.by_tag().at(digest)
    }
}

pub fn honest(request: &Request, stream: &mut TcpStream, layer: &[u8]) {
    let (_, digest) = manifest(layer);
    if request.line.contains("/manifests/main") || request.line.contains(&format!("/manifests/{digest}")) {
        respond(stream, "200 OK", MANIFEST, manifest(layer).0.as_bytes());
    } else if request.line.contains(&format!("/blobs/{}", ContentDigest::of(layer))) {
        respond(stream, "200 OK", "application/octet-stream", layer);
    } else {
        respond(stream, "404 Not Found", "text/plain", b"");
    }
}

/// The manifest of one layer, and its digest.
pub fn manifest(layer: &[u8]) -> (String, ContentDigest) {
    manifest_of("application/wasm", ContentDigest::of(layer), layer.len())
}

pub fn manifest_of(media_type: &str, layer: ContentDigest, size: usize) -> (String, ContentDigest) {
    let text = format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","layers":[{{"mediaType":"{media_type}","digest":"{layer}","size":{size}}}]}}"#
    );
    let digest = ContentDigest::of(text.as_bytes());
    (text, digest)
}

pub fn respond(stream: &mut TcpStream, status: &str, media_type: &str, body: &[u8]) {
    respond_with(stream, status, &format!("Content-Type: {media_type}\r\nContent-Length: {}\r\n", body.len()));
    let _ = stream.write_all(body);
}

/// A head alone.
pub fn respond_with(stream: &mut TcpStream, status: &str, headers: &str) {
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").as_bytes());
}

/// A folder for the cache, the lock file and Docker's configuration.
pub struct Home {
    pub folder: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap() }
    }

    pub fn lock(&self) -> std::path::PathBuf {
        self.folder.path().join("policies.lock")
    }

    pub fn options(&self) -> RegistryOptions {
        let mut options = RegistryOptions::new(RegistrySettings::default());
        options.folder = self.folder.path().to_owned();
        options.state = Some(Dir::open_ambient_dir(self.folder.path(), ambient_authority()).unwrap());
        options.lock = Some(Arc::new(LockFile::at(self.lock())));
        // What is served here is served at once, or never.
        options.deadline = Duration::from_secs(60);
        options
    }

    pub fn fetch(&self, reference: &Reference) -> Result<Artifact, Error> {
        Registries::new(self.options()).unwrap().fetch(reference, MAX_BYTES)
    }

    /// Fetches what has to be refused, and returns the words of the refusal. Nothing of it may be left behind.
    pub fn refused(&self, reference: &Reference) -> String {
        let error = self.fetch(reference).unwrap_err().to_string();
        assert!(!self.lock().exists(), "a refused artifact was locked");
        assert_eq!(self.cached(), 0, "a refused artifact was cached");
        error
    }

    pub fn cached(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("artifacts")).map_or(0, Iterator::count)
    }
}
