use std::collections::HashMap;

use parking_lot::Mutex;
use windlass_scaleway::types::instance::Server;

/// Where an instance is reached. Either is empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) external: String,
    pub(super) internal: String,
}

/// The addresses of each instance as they were read last.
#[derive(Default)]
pub(crate) struct LastAddresses(Mutex<HashMap<String, Addresses>>);

impl LastAddresses {
    pub(super) fn read(&self, id: &str, addresses: &Addresses) {
        self.0.lock().insert(id.to_owned(), addresses.clone());
    }

    pub(super) fn get(&self, id: &str) -> Option<Addresses> {
        self.0.lock().get(id).cloned()
    }

    /// Takes in listed servers. A list says nothing about private addresses.
    pub(crate) fn listed<'s>(&self, servers: impl Iterator<Item = (&'s str, &'s Server)>) {
        let mut all = self.0.lock();
        for (id, server) in servers {
            let external = public_address(server);
            match all.get_mut(id) {
                Some(known) if known.external == external => {}
                Some(known) => known.external = external.to_owned(),
                None if server.private_nics.is_empty() => {
                    all.insert(id.to_owned(), Addresses { external: external.to_owned(), internal: String::new() });
                }
                // The runner may need the private one.
                None => {}
            }
        }
    }

    /// Forgets all but these.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().retain(|id, _| is_there(id));
    }
}

/// The public address, IPv4 before IPv6; empty where there is none.
pub(super) fn public_address(server: &Server) -> &str {
    let of = |family: &str| server.public_ips.iter().find(|ip| ip.family == family && !ip.address.is_empty());
    of("inet").or_else(|| of("inet6")).map(|ip| ip.address.as_str()).unwrap_or_default()
}
