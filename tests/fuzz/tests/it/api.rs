//! Answers of an API, or of whatever else answers at its address.
//!
//! An input is the name of a call and the answers that it gets: each a status, headers, an empty line and a body;
//! between two of them a line of two dashes. The last one is repeated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use windlass_scaleway::types::apple_silicon::{ListOperatingSystems, ListServers as ListMacs};
use windlass_scaleway::types::block::ListBlockVolumes;
use windlass_scaleway::types::instance::{
    ListImages, ListIps, ListPrivateNics, ListServers, ListVolumes, ServerAction,
};
use windlass_scaleway::types::ipam::ListIpamIps;
use windlass_scaleway::{Client, Error, Limits, Settings, Transport, TransportError};

use crate::support::{KEY, block_on, is_read_again, is_short, parts};

const ID: &str = "00000000-0000-4000-8000-000000000001";
/// Three readings of a thousand pages, each forwards and backwards.
const MAX_CALLS: usize = 3 * 2 * 1_001;
/// Method, path, message, advice, details and names, each bounded.
const MAX_WORDS_LEN: usize = 32 * 1024;

/// Answers one after the other.
struct Scripted {
    answers: Vec<http::Response<Bytes>>,
    asked: AtomicUsize,
}

impl Transport for Scripted {
    fn send(&self, _: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(asked < MAX_CALLS, "the number of calls is bounded");
        let answer = self.answers[asked.min(self.answers.len() - 1)].clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// An answer as far as it is one; the rest is left out, as a client of HTTP would not have let it through.
fn answer(text: &[u8]) -> http::Response<Bytes> {
    let split = |text: &[u8], at: &[u8]| -> (Vec<u8>, Vec<u8>) {
        match text.windows(at.len()).position(|window| window == at) {
            Some(found) => (text[..found].to_vec(), text[found + at.len()..].to_vec()),
            None => (text.to_vec(), Vec::new()),
        }
    };
    let (head, body) = split(text, b"\n\n");
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| http::StatusCode::from_bytes(line).ok()).unwrap_or(http::StatusCode::OK);
    let mut answer = http::Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    for line in lines {
        let (name, value) = split(line, b": ");
        if let (Ok(name), Ok(value)) = (http::HeaderName::from_bytes(&name), http::HeaderValue::from_bytes(&value)) {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

fn client(transport: Arc<Scripted>) -> Client {
    let fast = u32::MAX.try_into().unwrap();
    let mut limits = Limits::default();
    limits.calls_per_second = fast;
    limits.burst = fast;
    Client::with_transport(Settings::new(KEY.parse().unwrap()).with_limits(limits), transport).unwrap()
}

/// A success is read again as it is written; of what is in a list, each has another id.
macro_rules! object {
    ($answer:expr) => {
        $answer.await.map(|object| is_read_again(&object))
    };
}
macro_rules! list {
    ($answer:expr, $id:ident) => {
        $answer.await.map(|objects| {
            let ids: BTreeSet<_> = objects.iter().map(|object| &object.$id).collect();
            assert!(ids.len() == objects.len() && !ids.iter().any(|id| id.is_empty()), "{ids:?}");
            objects.iter().for_each(is_read_again);
        })
    };
}

async fn call(client: &Client, name: &str) -> Result<(), Error> {
    let zone = "fr-par-1".parse().unwrap();
    let (instance, block) = (client.instance(&zone), client.block(&zone));
    let (macs, ipam) = (client.apple_silicon(&zone), client.ipam(&zone.region()));
    match name {
        "get_server" => object!(instance.get_server(ID)),
        "list_servers" => list!(instance.list_servers(&ListServers::default()), id),
        "count_servers" => instance.count_servers(&ListServers::default()).await.map(drop),
        "server_action" => object!(instance.server_action(ID, ServerAction::PowerOn)),
        "list_server_actions" => instance.list_server_actions(ID).await.map(drop),
        "list_server_user_data" => instance.list_server_user_data(ID).await.map(drop),
        "get_server_user_data" => instance.get_server_user_data(ID, "cloud-init").await.map(drop),
        "set_server_user_data" => instance.set_server_user_data(ID, "cloud-init", "#cloud-config").await,
        "get_private_nic" => object!(instance.get_private_nic(ID, ID)),
        "list_private_nics" => list!(instance.list_private_nics(ID, &ListPrivateNics::default()), id),
        "get_local_volume" => object!(instance.get_volume(ID)),
        "list_local_volumes" => list!(instance.list_volumes(&ListVolumes::default()), id),
        "get_ip" => object!(instance.get_ip(ID)),
        "list_ips" => list!(instance.list_ips(&ListIps::default()), id),
        "delete_ip" => instance.delete_ip(ID).await,
        "list_server_types" => instance.list_server_types().await.map(drop),
        "server_type_availability" => instance.server_type_availability().await.map(drop),
        "get_image" => object!(instance.get_image(ID)),
        "list_images" => list!(instance.list_images(&ListImages::default()), id),
        "get_security_group" => object!(instance.get_security_group(ID)),
        "get_placement_group" => object!(instance.get_placement_group(ID)),
        "get_block_volume" => object!(block.get_volume(ID)),
        "list_block_volumes" => list!(block.list_volumes(&ListBlockVolumes::default()), id),
        "get_mac" => macs.get_server(ID).await.map(drop),
        "list_macs" => macs.list_servers(&ListMacs::default()).await.map(drop),
        "delete_mac" => macs.delete_server(ID).await,
        "list_operating_systems" => list!(macs.list_os(&ListOperatingSystems::default()), id),
        "get_mac_type" => object!(macs.get_server_type("M1-M")),
        "list_mac_types" => list!(macs.list_server_types(), name),
        "get_ipam_ip" => object!(ipam.get_ip(ID)),
        "list_ipam_ips" => list!(ipam.list_ips(&ListIpamIps::default()), id),
        "list_quota" => list!(client.iam().list_quota(ID), name),
        _ => client.send_raw("GET", "/instance/v1/zones/fr-par-1/servers", None).await.map(drop),
    }
}

fn holds(error: &Error) {
    let words = error.to_string();
    is_short(&words, MAX_WORDS_LEN);
    let all = format!("{words} {error:?}");
    assert!(!all.contains(KEY), "the key is told: {all}");
    let _ = (error.class(), error.is_ambiguous(), error.is_not_found(), error.is_refusal());
    if let Error::Api(error) = error {
        let _ = (error.words(), error.not_before());
        assert!(error.retry_after.is_none_or(|wait| wait <= Duration::from_secs(86_400)));
        assert!(error.body.len() <= 8 * 1024 + 16 && error.details.len() <= 64);
    }
}

#[test]
fn whatever_answers_a_call_ends_within_its_bounds_and_tells_no_key() {
    windlass_test_fuzz::check("api", |input| {
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let name = String::from_utf8_lossy(&input[..end]).into_owned();
        let answers = parts(input.get(end + 1..).unwrap_or_default()).into_iter().map(answer).collect();
        let client = client(Arc::new(Scripted { answers, asked: AtomicUsize::new(0) }));
        if let Err(error) = block_on(call(&client, &name)) {
            holds(&error);
        }
    });
}
