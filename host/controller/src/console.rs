//! The console of this controller's state, beside its metrics.

use std::path::PathBuf;

use clap::Args;
use windlass_console::{Beside, Endpoint, Prices, ServeOptions};
use windlass_lifecycle::StateDirectory;
use windlass_scaleway::Client;

use crate::Error;
use crate::address::{Address, address};

const OPTION: &str = "--console-bind-address";
/// What stands in no journal of this process's.
const ELSEWHERE: &str =
    "Clusters of servers are Kubernetes objects: kubectl get serverclusters --all-namespaces lists them.";

/// Where the console is served, and for whom.
#[derive(Clone, Debug, Args)]
pub struct ConsoleArguments {
    /// Where the state directory is shown as web pages, for reading only; `0` for nowhere. On another address than a
    /// loopback one it needs a token or clients' certificates
    #[arg(
        long,
        env = "WINDLASS_CONSOLE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0",
        value_parser = address
    )]
    pub console_bind_address: Address,
    /// The file whose first line is the console's token: at least 16 characters. It is read again when it changes, as
    /// are those below
    #[arg(long, env = "WINDLASS_CONSOLE_TOKEN_FILE", value_name = "FILE")]
    pub console_token_file: Option<PathBuf>,
    /// The certificate by which the console speaks TLS, in PEM
    #[arg(long, env = "WINDLASS_CONSOLE_TLS_CERTIFICATE", value_name = "FILE", requires = "console_tls_key")]
    pub console_tls_certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, env = "WINDLASS_CONSOLE_TLS_KEY", value_name = "FILE", requires = "console_tls_certificate")]
    pub console_tls_key: Option<PathBuf>,
    /// The authorities of clients' certificates, in PEM: who has one of theirs may look
    #[arg(long, env = "WINDLASS_CONSOLE_CLIENT_CA", value_name = "FILE", requires = "console_tls_certificate")]
    pub console_client_ca: Option<PathBuf>,
    /// A further name by which the console is asked for, without port, as that of a Service; several times
    #[arg(long, env = "WINDLASS_CONSOLE_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub console_allow_host: Vec<String>,
}

/// Begins to show this directory where it is to be shown, with what machines cost by this client's catalogue, until
/// what is returned is dropped.
///
/// # Errors
/// [`Error::Option`]: others could look who are not to, a file cannot be used, or nobody can listen there.
pub(crate) fn serve_console(
    arguments: &ConsoleArguments,
    state: &StateDirectory,
    client: &Client,
) -> Result<Option<Beside>, Error> {
    let Some(listen) = arguments.console_bind_address.0 else { return Ok(None) };
    let options = ServeOptions {
        allow_hosts: arguments.console_allow_host.clone(),
        token_file: arguments.console_token_file.clone(),
        ..ServeOptions::new(listen)
    };
    let serve = || {
        let options = options.with_tls(
            arguments.console_tls_certificate.clone(),
            arguments.console_tls_key.clone(),
            arguments.console_client_ca.clone(),
        )?;
        let endpoint = Endpoint::bind(options)?;
        let prices = Prices::new();
        let console = endpoint.console(state.clone()).with_prices(prices.clone());
        let console = console.with_elsewhere(crate::accounts::FOLDER, ELSEWHERE);
        let beside = endpoint.serve_beside(console)?;
        let client = client.clone();
        tokio::spawn(async move {
            let client = &client;
            prices.keep(|zone| async move { client.hourly_prices(&zone).await }).await;
        });
        Ok(beside)
    };
    serve()
        .map(Some)
        .map_err(|error: windlass_console::Error| Error::Option { option: OPTION, problem: with_remedy(&error) })
}

fn with_remedy(error: &windlass_console::Error) -> String {
    let remedy = match error {
        windlass_console::Error::Unguarded { .. } => {
            ": --console-token-file, or --console-client-ca with --console-tls-certificate and --console-tls-key"
        }
        _ => "",
    };
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => format!("{error}{remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    const KEY: &str = "11111111-1111-1111-1111-111111111111";

    fn arguments(of: &[&str]) -> ConsoleArguments {
        Arguments::try_parse_from([&["windlass-controller"], of].concat()).unwrap().run.console
    }

    fn served(of: &[&str]) -> Result<Option<Beside>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::new(windlass_scaleway::Settings::new(KEY.parse().unwrap())).unwrap();
        serve_console(&arguments(of), &StateDirectory::open(folder.path()).unwrap(), &client)
    }

    fn ask(url: &str, headers: &str) -> String {
        let mut connection = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        write!(connection, "GET / HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    #[tokio::test]
    async fn there_is_no_console_unless_it_is_asked_for() {
        assert!(served(&[]).unwrap().is_none());
        assert!(served(&["--console-bind-address=0", "--console-token-file=/nowhere"]).unwrap().is_none());
    }

    #[tokio::test]
    async fn it_is_served_on_loopback_and_beyond_it_to_those_with_the_token_only() {
        let console =
            served(&["--console-bind-address=127.0.0.1:0", "--console-allow-host=console.svc"]).unwrap().unwrap();
        assert!(ask(console.url(), "host: localhost\r\n").starts_with("HTTP/1.1 200"));
        assert!(ask(console.url(), "host: console.svc:7474\r\n").starts_with("HTTP/1.1 200"));
        assert!(ask(console.url(), "host: evil.example\r\n").starts_with("HTTP/1.1 421"));
        let refused = served(&["--console-bind-address=:0"]).unwrap_err().to_string();
        assert!(refused.contains("--console-bind-address") && refused.contains("--console-token-file"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        let file = format!("--console-token-file={}", token.display());
        let missing = served(&["--console-bind-address=:0", &file]).unwrap_err().to_string();
        assert!(missing.contains("the token cannot be read") && missing.contains("No such file"), "{missing}");
        std::fs::write(&token, "correct-horse-battery\n").unwrap();
        let console = served(&["--console-bind-address=:0", &file]).unwrap().unwrap();
        let url = console.url().replace("0.0.0.0", "127.0.0.1");
        assert!(ask(&url, "host: localhost\r\n").starts_with("HTTP/1.1 401"));
        let bearer = "host: localhost\r\nauthorization: Bearer correct-horse-battery\r\n";
        assert!(ask(&url, bearer).starts_with("HTTP/1.1 200"));
    }
}
