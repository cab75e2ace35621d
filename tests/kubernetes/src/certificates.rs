use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// One authority and one certificate for 127.0.0.1, used by the API server and by Cluster API's webhooks.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The authority, PEM.
    pub(crate) authority: String,
    /// Its key, PKCS #8 PEM.
    pub(crate) authority_key: String,
    /// Its public key, PEM.
    pub(crate) authority_public_key: String,
    /// The server's certificate, PEM.
    pub(crate) certificate: String,
    /// Its key, PKCS #8 PEM.
    pub(crate) key: String,
    /// The key that signs tokens of service accounts, PKCS #8 PEM.
    pub(crate) token_key: String,
    /// The key that verifies them, PEM.
    pub(crate) token_public_key: String,
}

impl Certificates {
    pub(crate) fn new() -> Result<Self> {
        let authority_key = KeyPair::generate().context("make a key")?;
        let mut authority = CertificateParams::new(Vec::new()).context("an authority")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "windlass test authority");
        let authority_certificate = authority.self_signed(&authority_key).context("sign the authority")?;
        let (authority_pem, authority_public_key) = (authority_key.serialize_pem(), authority_key.public_key_pem());
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().context("make a key")?;
        let mut server = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        let certificate = server.signed_by(&key, &issuer).context("sign the server's certificate")?;
        let token_key = KeyPair::generate().context("make a key")?;
        Ok(Self {
            authority: authority_certificate.pem(),
            authority_key: authority_pem,
            authority_public_key,
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token_key: token_key.serialize_pem(),
            token_public_key: token_key.public_key_pem(),
        })
    }
}
