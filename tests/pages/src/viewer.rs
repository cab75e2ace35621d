use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{Authority, Identity};

/// How long an answer is waited for before a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most pages of a crawl.
const MAX_PAGES: usize = 5_000;

/// Somebody who looks.
#[derive(Clone)]
pub struct Viewer {
    address: String,
    tls: Option<Arc<ClientConfig>>,
    host: String,
    headers: Vec<(String, String)>,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// Its head, as it came.
    pub head: String,
    /// Its body.
    pub text: String,
}

/// An answer whose head has come.
pub struct Opened {
    stream: BufReader<Box<dyn ReadWrite>>,
    /// The head, as it came.
    pub head: String,
}

trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

impl Viewer {
    /// Of what is at this URL, `http://address:port` or `https://...`; whom TLS trusts there is said by
    /// [`Viewer::trusting`].
    #[must_use]
    pub fn of(url: &str) -> Self {
        let (_, address) = url.trim().split_once("://").unwrap_or(("", url.trim()));
        let address = address.replace("0.0.0.0", "127.0.0.1");
        Self { address, tls: None, host: "localhost".to_owned(), headers: Vec::new() }
    }

    /// By TLS, with a server whose certificate is of this authority, bringing a certificate of one's own or none.
    ///
    /// # Panics
    /// What is given is none.
    #[must_use]
    pub fn trusting(mut self, authority: &Authority, own: Option<&Identity>) -> Self {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).expect("it was just made");
        roots.add(root).expect("it is an authority's");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks them")
            .with_root_certificates(roots);
        let configuration = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).expect("just made")];
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("just made");
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
        };
        self.tls = Some(Arc::new(configuration));
        self
    }

    /// Asking by this name.
    #[must_use]
    pub fn asking(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// With a further header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// Asks for this, and waits for the head of the answer.
    ///
    /// # Errors
    /// Nobody answers, or not in the way of HTTP; also where a handshake is refused.
    pub fn open(&self, path: &str) -> io::Result<Opened> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream: Box<dyn ReadWrite> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                let connection = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, stream))
            }
        };
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.host);
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{request}\r\n").as_bytes())?;
        stream.flush()?;
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Opened { stream, head })
    }

    /// Asks for this.
    ///
    /// # Errors
    /// As [`Viewer::open`].
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        let mut opened = self.open(path)?;
        let mut text = Vec::new();
        opened.stream.read_to_end(&mut text)?;
        let status = opened.head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {}", opened.head)))?;
        Ok(Answer { status, head: opened.head, text: String::from_utf8_lossy(&text).into_owned() })
    }

    /// The status of an answer.
    ///
    /// # Errors
    /// As [`Viewer::open`].
    pub fn status(&self, path: &str) -> io::Result<u16> {
        self.get(path).map(|answer| answer.status)
    }

    /// Each page that can be reached from the first one, with its address.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn crawl(&self) -> io::Result<BTreeMap<String, String>> {
        let (mut pages, mut to_see) = (BTreeMap::new(), BTreeSet::from(["/".to_owned()]));
        while let Some(path) = to_see.pop_first() {
            if pages.len() >= MAX_PAGES {
                return Err(io::Error::other("there are more pages than a test looks at"));
            }
            let answer = self.get(&path)?;
            if answer.status != 200 {
                return Err(io::Error::other(format!("{path}: {} {}", answer.status, answer.text)));
            }
            let page = format!("{}{}", answer.head, answer.text);
            pages.insert(path, page);
            let links = links(&answer.text).into_iter().filter(|link| link.starts_with('/') && !link.starts_with("//"));
            to_see.extend(links.filter(|link| !pages.contains_key(link)));
        }
        Ok(pages)
    }
}

/// Every link and source of a page.
fn links(page: &str) -> BTreeSet<String> {
    let after = ["href=\"", "src=\""].into_iter().flat_map(|mark| page.split(mark).skip(1));
    after.filter_map(|rest| rest.split('"').next()).map(|link| link.replace("&amp;", "&")).collect()
}

impl Opened {
    /// The next line that comes; none at the end.
    ///
    /// # Errors
    /// The connection broke.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.stream.read_line(&mut line)? > 0).then_some(line))
    }
}
