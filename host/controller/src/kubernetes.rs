//! The API server: how it is reached, and the objects of a kind.

use std::path::Path;

use kube::api::ListParams;
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

use crate::Error;

/// Who we are in events, in the Lease's history and to the API server.
pub(crate) const CONTROLLER: &str = "windlass-controller";

/// Objects of one page of a listing.
const PAGE: u32 = 500;

/// What is appended to the client's own user agent.
pub(crate) fn user_agent() -> String {
    format!("{CONTROLLER}/{}", env!("CARGO_PKG_VERSION"))
}

/// A client of the API server: by a kubeconfig, else as kubectl or a pod finds one.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    connect_to(config(kubeconfig).await?)
}

pub(crate) fn connect_to(config: Config) -> Result<Client, Error> {
    Client::try_from(config).map_err(|error| Error::Kubeconfig(error.to_string()))
}

/// How the API server is reached.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    // The parser of YAML draws the place below its first line, which names it.
    let first_line = |words: String| words.lines().next().unwrap_or_default().to_owned();
    match kubeconfig {
        Some(path) => {
            let problem = |error: kube::config::KubeconfigError| {
                Error::Kubeconfig(format!("{}: {}", path.display(), first_line(error.to_string())))
            };
            let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(problem)?;
            Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(problem)
        }
        None => Config::infer().await.map_err(|error| Error::Kubeconfig(first_line(error.to_string()))),
    }
}

/// An error of the API server with its causes, of which only the last tells what happened.
pub(crate) fn words(error: &kube::Error) -> String {
    windlass_process::with_causes(error)
}

/// The objects of a kind in one namespace, or in all.
pub(crate) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The same of a kind whose version was discovered.
pub(crate) fn api_with<K>(client: &Client, namespace: Option<&str>, resource: &kube::api::ApiResource) -> Api<K>
where
    K: Resource<DynamicType = kube::api::ApiResource, Scope = kube::core::DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// Lists objects page by page and visits each. `doing` says in an error what was listed.
pub(crate) async fn for_each<K>(
    api: &Api<K>,
    doing: &'static str,
    mut visit: impl FnMut(K) -> Result<(), Error>,
) -> Result<(), Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await.map_err(Error::kubernetes(doing))?;
        page.items.into_iter().try_for_each(&mut visit)?;
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = parameters.continue_token(&next),
            _ => return Ok(()),
        }
    }
}
