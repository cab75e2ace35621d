use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, PEM.
    pub certificate: String,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// PEM.
    pub certificate: String,
    /// PKCS #8, PEM.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// Where no key can be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("this machine makes keys");
        let mut authority = CertificateParams::new(Vec::new()).expect("no names are good names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.distinguished_name.push(DnType::CommonName, name);
        let certificate = authority.self_signed(&key).expect("a key signs").pem();
        Self { issuer: Issuer::new(authority, key), certificate }
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().expect("this machine makes keys");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut certificate = CertificateParams::new(names).expect("these are names");
        certificate.distinguished_name.push(DnType::CommonName, name);
        change(&mut certificate);
        let signed = certificate.signed_by(&key, &self.issuer).expect("the authority's key signs");
        Identity { certificate: signed.pem(), key: key.serialize_pem() }
    }

    /// For a server on this machine.
    #[must_use]
    pub fn server(&self) -> Identity {
        self.sign("server", |certificate| certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// For a client.
    #[must_use]
    pub fn client(&self) -> Identity {
        self.sign("client", |certificate| certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// For a client, until a day that is over.
    #[must_use]
    pub fn expired_client(&self) -> Identity {
        self.sign("expired", |certificate| {
            certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            certificate.not_before = date_time_ymd(2020, 1, 1);
            certificate.not_after = date_time_ymd(2021, 1, 1);
        })
    }
}
