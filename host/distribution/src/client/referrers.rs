//! The sigstore bundles that a registry keeps beside a manifest: those that name it as their subject.
//!
//! A registry without the referrers API has them listed under a tag that is made from the digest, by the distribution
//! specification. Whoever may push may list what they like: what is looked at is bounded, and nothing of it is believed
//! before it was verified.

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, LINK};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use url::Url;

use super::{Client, EMPTY_CONFIG, MAX_MANIFEST_BYTES};
use crate::digest::ContentDigest;
use crate::error::Error;
use crate::manifest::{Descriptor, MANIFEST_MEDIA_TYPE, read_any};
use crate::printable::printable;
use crate::reference::Reference;
use crate::sigstore::{BUNDLE_MEDIA_TYPE, MAX_BUNDLE_BYTES};

/// The most bundles of one manifest that are looked at.
pub(crate) const MAX_BUNDLES: usize = 16;
/// The most pages of a list.
const MAX_PAGES: usize = 8;
/// The longest manifest of a bundle, in bytes.
const MAX_BUNDLE_MANIFEST_BYTES: u64 = 64 << 10;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: Option<String>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Default)]
struct Listed {
    /// What is said to be a bundle.
    bundles: Vec<ContentDigest>,
    /// What may be one.
    perhaps: Vec<ContentDigest>,
}

impl Listed {
    fn in_order(mut self) -> Vec<ContentDigest> {
        self.bundles.append(&mut self.perhaps);
        self.bundles
    }
}

impl Client {
    /// The bundles that name this manifest as their subject: the first ones of those that the registry lists. What is
    /// none is left out, and a trace says so.
    pub(crate) async fn bundles(&self, reference: &Reference, subject: ContentDigest) -> Result<Vec<String>, Error> {
        let mut listed = self.referrers(reference, subject).await?;
        if listed.len() > MAX_BUNDLES {
            let (registry, found) = (&self.registry, listed.len());
            tracing::warn!(%subject, registry, listed = found, "only {MAX_BUNDLES} bundles are looked at");
            listed.truncate(MAX_BUNDLES);
        }
        let mut bundles = Vec::new();
        for digest in listed {
            match self.bundle(reference, subject, digest).await {
                Ok(bundle) => bundles.push(bundle),
                // Another one may be right.
                Err(error) => tracing::warn!(%subject, %error, "a listed bundle cannot be used"),
            }
        }
        Ok(bundles)
    }

    /// The digests of the manifests that may be bundles, without repetition: the first ones, those that say so before
    /// those of which it is not known.
    async fn referrers(&self, reference: &Reference, subject: ContentDigest) -> Result<Vec<ContentDigest>, Error> {
        let mut found = Listed::default();
        // Not filtered by the registry: some take the type of the configuration for that of the artifact.
        let mut url = self.url(&format!("{}/referrers/{subject}", reference.repository()))?;
        for page in 0..MAX_PAGES {
            let response = self.send(Method::GET, url.clone(), accept(INDEX), None).await?;
            let missing = [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST, StatusCode::METHOD_NOT_ALLOWED];
            let is_api = match response.status() {
                StatusCode::OK => is_index(&response),
                status if missing.contains(&status) || status == StatusCode::NOT_ACCEPTABLE => false,
                _ => {
                    self.expect(response, &[], "the list of signatures").await?;
                    break;
                }
            };
            if !is_api && page == 0 {
                return self.referrers_by_tag(reference, subject).await;
            }
            let next = self.next(&url, &response);
            self.read_index(response, &mut found).await?;
            match next {
                Some(next) if found.bundles.len() <= MAX_BUNDLES => url = next,
                _ => break,
            }
        }
        Ok(found.in_order())
    }

    /// The same where the registry has no list of its own: clients keep one under a tag.
    async fn referrers_by_tag(
        &self,
        reference: &Reference,
        subject: ContentDigest,
    ) -> Result<Vec<ContentDigest>, Error> {
        let mut found = Listed::default();
        let url = self.url(&format!("{}/manifests/sha256-{}", reference.repository(), subject.hex()))?;
        let response = self.send(Method::GET, url, accept(INDEX), None).await?;
        if response.status() != StatusCode::NOT_FOUND {
            let response = self.expect(response, &[StatusCode::OK], "the list of signatures").await?;
            self.read_index(response, &mut found).await?;
        }
        Ok(found.in_order())
    }

    async fn read_index(&self, response: Response, found: &mut Listed) -> Result<(), Error> {
        let bytes = self.body(response, "list of signatures", MAX_MANIFEST_BYTES).await?;
        let none = |problem: String| self.problem(format!("its list of signatures is not valid: {problem}"));
        let index: Index = serde_json::from_slice(&bytes).map_err(|error| none(printable(&error.to_string())))?;
        let media_type = index.media_type.as_deref().unwrap_or(INDEX);
        if index.schema_version != 2 || media_type != INDEX {
            return Err(none(format!("it is of the type {}", printable(media_type))));
        }
        for listed in &index.manifests {
            let into = match listed.artifact_type.as_deref() {
                Some(BUNDLE_MEDIA_TYPE) => &mut found.bundles,
                None | Some(EMPTY_CONFIG) => &mut found.perhaps,
                Some(_) => continue,
            };
            let digest = listed.digest.parse::<ContentDigest>().map_err(|expected| none(expected.to_owned()))?;
            // One more than is looked at, so that it is known that there are more.
            if !into.contains(&digest) && into.len() <= MAX_BUNDLES {
                into.push(digest);
            }
        }
        Ok(())
    }

    /// One bundle: a manifest of the right subject with one layer.
    async fn bundle(
        &self,
        reference: &Reference,
        subject: ContentDigest,
        digest: ContentDigest,
    ) -> Result<String, Error> {
        let url = self.url(&format!("{}/manifests/{digest}", reference.repository()))?;
        let response = self.send(Method::GET, url, accept(MANIFEST_MEDIA_TYPE), None).await?;
        let response = self.expect(response, &[StatusCode::OK], &format!("the signature {digest}")).await?;
        let bytes = self.body(response, "manifest of a signature", MAX_BUNDLE_MANIFEST_BYTES).await?;
        self.check_digest("manifest of a signature", digest, ContentDigest::of(&bytes))?;
        let manifest = read_any(&bytes).map_err(|problem| self.not_an_artifact(problem))?;
        let named = manifest.subject.map(|subject| subject.digest).unwrap_or_default();
        if named != subject.to_string() {
            return Err(self.problem(format!(
                "the signature {digest} is listed for {subject}, and is of `{}`",
                printable(&named)
            )));
        }
        let [layer] = &manifest.layers[..] else {
            return Err(self.problem(format!("the signature {digest} has {} layers", manifest.layers.len())));
        };
        let limit = MAX_BUNDLE_BYTES;
        if layer.media_type != BUNDLE_MEDIA_TYPE {
            return Err(self.problem(format!("the signature {digest} is of the type {}", printable(&layer.media_type))));
        }
        if layer.size > limit {
            return Err(Error::TooLarge { registry: self.registry.clone(), what: "signature", limit });
        }
        let blob = layer.digest.parse::<ContentDigest>().map_err(|expected| self.problem(expected.to_owned()))?;
        let url = self.url(&format!("{}/blobs/{blob}", reference.repository()))?;
        let response = self.send(Method::GET, url, HeaderMap::new(), None).await?;
        let response = self.expect(response, &[StatusCode::OK], &format!("the signature {blob}")).await?;
        let bytes = self.body(response, "signature", layer.size).await?;
        self.check_digest("signature", blob, ContentDigest::of(&bytes))?;
        String::from_utf8(bytes).map_err(|_| self.problem(format!("the signature {blob} is no text")))
    }

    /// Where the list goes on, if that is at the same registry.
    fn next(&self, url: &Url, response: &Response) -> Option<Url> {
        let link = response.headers().get(LINK)?.to_str().ok()?;
        let (target, parameters) = link.strip_prefix('<')?.split_once('>')?;
        let next = url.join(target).ok().filter(|next| next.origin() == self.base.origin())?;
        parameters.contains("next").then_some(next)
    }
}

fn accept(media_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(media_type))])
}

/// Some answer every path with a page.
fn is_index(response: &Response) -> bool {
    let media_type = response.headers().get(reqwest::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|value| value.split(';').next().unwrap_or_default().trim() == INDEX)
}
