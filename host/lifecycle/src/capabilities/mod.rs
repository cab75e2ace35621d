//! What policies can look up on Scaleway: the interfaces of `wit/scaleway`, offered behind grants.
//!
//! Both are laid out alike: a [`Capability`](windlass_policy::Capability) that checks the grants of one policy when it
//! is loaded, and a granted half that answers its calls. The policy host counts calls, bytes and time and records each
//! call; here the credentials stay, secrets are taken out of what comes back, and nothing is ever changed by a look-up.

mod grant;
mod look_ups;
mod redaction;
mod request;
mod version;

use std::sync::Arc;

use windlass_policy::Capability;
use windlass_scaleway::Client;

/// Everything that policies can be granted, asked with this client's credentials and under its limits.
#[must_use]
pub fn scaleway_capabilities(client: &Client) -> Vec<Arc<dyn Capability>> {
    vec![Arc::new(look_ups::LookUps::new(client.clone())), Arc::new(request::GenericRequest::new(client.clone()))]
}
