//! The console's certificate, and whose clients' certificates it takes: read from files, and again when these change.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::options::{TlsFiles, read};

/// What the next connection is answered with.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    /// Whether who brings no certificate may try a token.
    optional: bool,
    current: RwLock<([u8; 32], Arc<ServerConfig>)>,
}

impl Tls {
    /// Reads the files. `optional`: a client may come without a certificate.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it is to hold.
    pub(crate) fn new(files: TlsFiles, optional: bool) -> Result<Self, Error> {
        let contents = Contents::read(&files)?;
        let current = RwLock::new((contents.digest(), Arc::new(contents.configuration(&files, optional)?)));
        Ok(Self { files, optional, current })
    }

    /// Takes up what has changed in the files. Says whether anything has.
    ///
    /// # Errors
    /// As [`Tls::new`]; what was there before is used on.
    pub(crate) fn look_again(&self) -> Result<bool, Error> {
        let contents = Contents::read(&self.files)?;
        let digest = contents.digest();
        if self.current.read().0 == digest {
            return Ok(false);
        }
        let configuration = Arc::new(contents.configuration(&self.files, self.optional)?);
        *self.current.write() = (digest, configuration);
        Ok(true)
    }

    pub(crate) fn configuration(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().1)
    }
}

struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authorities: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, Error> {
        let client_authorities = files.client_authorities.as_deref();
        Ok(Self {
            certificate: read(&files.certificate, "the certificate")?,
            key: read(&files.key, "the key of the certificate")?,
            client_authorities: client_authorities
                .map(|path| read(path, "the authorities of clients' certificates"))
                .transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [&self.certificate, &self.key, self.client_authorities.as_ref().unwrap_or(&Vec::new())] {
            digest.update(Sha256::digest(part));
        }
        digest.finalize().into()
    }

    fn configuration(&self, files: &TlsFiles, optional: bool) -> Result<ServerConfig, Error> {
        let refused = |path: &Path, why: String| Error::Certificates { path: path.to_owned(), why };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&files.certificate, error.to_string()))?;
        let builder = match (&self.client_authorities, &files.client_authorities) {
            (Some(content), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(content, path)? {
                    roots.add(certificate).map_err(|error| refused(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if optional { verifier.allow_unauthenticated() } else { verifier };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| refused(path, error.to_string()))?)
            }
            _ => builder.with_no_client_auth(),
        };
        // The words of a parser may quote what it could not read, which is a key here.
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| refused(&files.key, "it holds no private key in PEM".to_owned()))?;
        let mut configuration = builder
            .with_single_cert(certificates(&self.certificate, &files.certificate)?, key)
            .map_err(|error| refused(&files.certificate, error.to_string()))?;
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection proves itself: a session that is taken up again would outlive its certificate.
        configuration.session_storage = Arc::new(NoServerSessionStorage {});
        configuration.send_tls13_tickets = 0;
        Ok(configuration)
    }
}

fn certificates(content: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let refused = |why: &str| Error::Certificates { path: path.to_owned(), why: why.to_owned() };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(refused("it holds no certificate in PEM")),
        Err(_) => Err(refused("it holds something that is no certificate in PEM")),
    }
}
