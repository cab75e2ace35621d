//! `windlass:scaleway/look-ups`: typed, read-only questions.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use windlass_policy::{CallContext, Capability, CapabilityError, GrantedCapability, wit_result};
use windlass_scaleway::types::instance::{ListServers, Server, ServerType, Stock};
use windlass_scaleway::{Client, Error, Zone, has_all_tags};

use super::redaction::is_key_tag;

const INTERFACE: &str = "windlass:scaleway/look-ups";
const WIT: &str = include_str!("../../wit/look-ups.wit");
const FUNCTIONS: [&str; 3] = ["server-types", "get-server", "list-servers"];

/// How many servers, or server types, one answer holds; the contract says so.
const MAX_ITEMS: usize = 500;
/// What [`ServerType::hourly_price`] is in, which is a number without a unit in Scaleway's answer.
const CURRENCY: &str = "EUR";
/// Micros in a unit of a currency.
const MICROS: f64 = 1_000_000.0;

/// The longest message of a failure, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 300;

/// The capability. It needs no arguments in its grant.
pub(super) struct LookUps {
    client: Client,
}

impl LookUps {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Capability for LookUps {
    fn interface(&self) -> &str {
        INTERFACE
    }

    fn version(&self) -> &str {
        super::version::VERSION
    }

    fn wit(&self) -> &str {
        WIT
    }

    fn functions(&self) -> &[&str] {
        &FUNCTIONS
    }

    fn accept_grants(&self, arguments: &[String]) -> Result<Arc<dyn GrantedCapability>, String> {
        if let Some(extra) = arguments.iter().find(|arguments| !arguments.is_empty()) {
            return Err(format!("the grant of {INTERFACE} takes no arguments, found {extra:?}"));
        }
        Ok(Arc::new(Granted { client: self.client.clone() }))
    }
}

struct Granted {
    client: Client,
}

#[async_trait]
impl GrantedCapability for Granted {
    async fn call(
        &self,
        _context: CallContext,
        function: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, CapabilityError> {
        let arguments = Value::Array(arguments);
        match function {
            "server-types" => {
                let (zone, names) = serde_json::from_value(arguments)?;
                wit_result(self.server_types(zone, names).await)
            }
            "get-server" => {
                let (zone, id) = serde_json::from_value(arguments)?;
                wit_result(self.get_server(zone, id).await)
            }
            "list-servers" => {
                let (zone, tags) = serde_json::from_value(arguments)?;
                wit_result(self.list_servers(zone, tags).await)
            }
            other => Err(CapabilityError::new(format!("{INTERFACE} has no function {other:?}"))),
        }
    }
}

impl Granted {
    async fn server_types(&self, zone: String, names: Vec<String>) -> Result<TypesInStock, LookUpError> {
        let api = self.client.instance(&parse_zone(&zone)?);
        let (types, stock) = futures::try_join!(api.list_server_types(), api.server_type_availability())?;
        let found = types
            .into_iter()
            .filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name)))
            .map(|(name, server_type)| TypeInStock::new(stock.get(&name), name, server_type));
        let (server_types, complete) = first_items(found);
        Ok(TypesInStock { server_types, complete })
    }

    async fn get_server(&self, zone: String, id: String) -> Result<KnownServer, LookUpError> {
        // The id becomes a segment of a path: only what an id can look like goes in.
        if uuid::Uuid::try_parse(&id).is_err() {
            return Err(LookUpError::NotFound);
        }
        Ok(KnownServer::from(self.client.instance(&parse_zone(&zone)?).get_server(&id).await?))
    }

    async fn list_servers(&self, zone: String, tags: Vec<String>) -> Result<KnownServers, LookUpError> {
        let api = self.client.instance(&parse_zone(&zone)?);
        let request = ListServers {
            // A tag with a comma can't be asked for, so those are filtered here alone.
            tags: tags.iter().filter(|tag| !tag.contains(',')).cloned().collect(),
            ..ListServers::default()
        };
        let servers = api.list_servers(&request).await?;
        let found = servers.into_iter().filter(|server| has_all_tags(&server.tags, &tags)).map(KnownServer::from);
        let (servers, complete) = first_items(found);
        Ok(KnownServers { servers, complete })
    }
}

/// As many as one answer holds, and whether those are all.
fn first_items<T>(mut found: impl Iterator<Item = T>) -> (Vec<T>, bool) {
    let first = found.by_ref().take(MAX_ITEMS).collect();
    (first, found.next().is_none())
}

fn parse_zone(zone: &str) -> Result<Zone, LookUpError> {
    zone.parse().map_err(|error: windlass_scaleway::InvalidLocation| LookUpError::Failed(error.to_string()))
}

/// `look-up-error` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum LookUpError {
    NotFound,
    Failed(String),
}

impl From<Error> for LookUpError {
    fn from(error: Error) -> Self {
        if error.is_not_found() {
            Self::NotFound
        } else {
            Self::Failed(error.to_string().chars().take(MAX_MESSAGE_CHARACTERS).collect())
        }
    }
}

/// `server-type-list` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TypesInStock {
    server_types: Vec<TypeInStock>,
    complete: bool,
}

/// `server-list` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct KnownServers {
    servers: Vec<KnownServer>,
    complete: bool,
}

/// `money` of the contract.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Money {
    currency: &'static str,
    micros: u64,
}

impl Money {
    /// Scaleway's number, to the nearest millionth. One that is no price (below nothing, not a number) is nothing.
    fn of(price: f64) -> Self {
        // Casts of floats saturate.
        Self { currency: CURRENCY, micros: (price * MICROS).round() as u64 }
    }
}

/// `server-type` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TypeInStock {
    name: String,
    stock: &'static str,
    architecture: String,
    processors: u32,
    memory: u64,
    hourly_price: Money,
}

impl TypeInStock {
    fn new(stock: Option<&Stock>, name: String, server_type: ServerType) -> Self {
        Self {
            name,
            stock: match stock {
                Some(Stock::Available) => "available",
                Some(Stock::Scarce) => "scarce",
                Some(Stock::Shortage) => "shortage",
                _ => "unknown",
            },
            architecture: server_type.arch.to_string(),
            processors: server_type.ncpus,
            memory: server_type.ram,
            hourly_price: Money::of(server_type.hourly_price),
        }
    }
}

/// `server` of the contract.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct KnownServer {
    id: String,
    name: String,
    server_type: String,
    state: String,
    state_detail: String,
    tags: Vec<String>,
    created_at: u64,
}

impl From<Server> for KnownServer {
    fn from(server: Server) -> Self {
        Self {
            created_at: server.created_at().and_then(|at| u64::try_from(at.as_millisecond()).ok()).unwrap_or(0),
            id: server.id,
            name: server.name,
            server_type: server.commercial_type,
            state: server.state.to_string(),
            state_detail: server.state_detail,
            tags: server.tags.into_iter().filter(|tag| !is_key_tag(tag)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_money_to_the_millionth() {
        let micros = |price| Money::of(price).micros;
        // As recorded: DEV1-S, and the smallest fraction that a float makes of it.
        assert_eq!((micros(0.008976), micros(0.1 + 0.2)), (8_976, 300_000));
        for no_price in [-1.0, f64::NAN, f64::NEG_INFINITY, 0.0] {
            assert_eq!(micros(no_price), 0, "{no_price}");
        }
        assert_eq!(micros(f64::INFINITY), u64::MAX);
    }

    #[test]
    fn an_answer_says_whether_it_holds_everything() {
        assert_eq!(first_items(0..MAX_ITEMS), ((0..MAX_ITEMS).collect(), true));
        assert_eq!(first_items(0..MAX_ITEMS + 1), ((0..MAX_ITEMS).collect(), false));
        assert_eq!(first_items(0..0), (vec![], true));
    }
}
