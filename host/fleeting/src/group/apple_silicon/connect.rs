//! ConnectInfo: where a host is and who logs in. Read each time, never kept: the password is shown in no other answer,
//! and a wipe changes it.

use super::Hosts;
use crate::protocol::{ConnectInfo, Failure};

/// In Go's words, which are the runner's.
const OPERATING_SYSTEM: &str = "darwin";
const ARCHITECTURE: &str = "arm64";

impl Hosts {
    /// How to reach a host now.
    pub(crate) async fn connect_info(&self, id: &str) -> Result<ConnectInfo, Failure> {
        let host = self.book.lock().get(id).and_then(|entry| entry.server.clone());
        let Some(host) = host else {
            return Err(Failure(format!("{id} has no host to connect to (yet, or any more)")));
        };
        let host = self
            .client
            .apple_silicon(&self.configuration.zone)
            .get_server(&host)
            .await
            .map_err(|error| Failure::from_error(&error))?;
        // Whoever it belongs to now, its password is none of ours.
        if host.name != id {
            return Err(Failure(format!("{id} is gone: its host carries another name now")));
        }
        if host.ip.is_empty() {
            return Err(Failure(format!("{id} has no address yet")));
        }
        let mut connector = self.connector.clone();
        for (field, default) in [
            (&mut connector.operating_system, OPERATING_SYSTEM),
            (&mut connector.architecture, ARCHITECTURE),
            (&mut connector.protocol, "ssh"),
            (&mut connector.username, host.ssh_username.as_str()),
        ] {
            if field.is_empty() {
                *field = default.to_owned();
            }
        }
        // The operator's own credentials win; without them the host's password is the only way in.
        if connector.password.is_empty() && connector.key.is_empty() && !connector.use_static_credentials {
            match host.sudo_password.reveal() {
                Some(password) => connector.password = password.to_owned(),
                None => return Err(Failure(format!("Scaleway does not show the password of {id} now"))),
            }
        }
        Ok(ConnectInfo {
            connector,
            // A runner that asks for the internal address would be given an empty one otherwise, and dial itself.
            internal_address: host.ip.clone(),
            external_address: host.ip,
            expires: None,
        })
    }
}
