//! A console on an address: alone in a process, or beside the work of a host.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_lifecycle::StateDirectory;

use crate::access::Access;
use crate::connections::{Times, answer};
use crate::options::ServeOptions;
use crate::tls::Tls;
use crate::{Console, Error};

/// Threads that read for pages, beside the one that answers: two pages at a time, and what these wait for.
const READING_THREADS: usize = 4;
/// How long such a thread stays that has nothing to do.
const IDLE_THREAD: Duration = Duration::from_secs(1);

/// An address that is listened on, and what is needed to answer there.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    options: ServeOptions,
    access: Access,
    tls: Option<Arc<Tls>>,
}

impl Endpoint {
    /// Reads the files and listens. Nobody is answered yet.
    ///
    /// # Errors
    /// Others could look who are not to; a file cannot be used; the address cannot be listened on.
    pub fn bind(options: ServeOptions) -> Result<Self, Error> {
        options.check()?;
        let token = options.token()?;
        let certificates = options.asks_for_certificates();
        let access = Access::guarded(options.listen, options.allow_hosts.clone(), token.as_deref(), certificates)?;
        let tls = match &options.tls {
            Some(files) => Some(Arc::new(Tls::new(files.clone(), token.is_some())?)),
            None => None,
        };
        let failed = |source| Error::Serve { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options, access, tls })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// A console on this directory, for those whom this endpoint lets look.
    #[must_use]
    pub fn console(&self, state: StateDirectory) -> Console {
        Console::new(state, self.access.clone())
    }

    /// Shows this console until `end`. Streams of events and idle connections do not hold the end up.
    ///
    /// # Errors
    /// The address cannot be listened on here.
    pub async fn serve(self, console: Console, end: CancellationToken) -> Result<(), Error> {
        let failed = |source| Error::Serve { address: self.address, source };
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
        let router = console.until(end.clone()).router();
        let files = Files { options: self.options, access: self.access, tls: self.tls.clone() };
        let looking = files.look_again_until(end.clone());
        tokio::join!(answer(listener, self.tls, router, Times::default(), end), looking);
        Ok(())
    }

    /// Shows this console beside the work of this process, on threads of its own with low priority, until what is
    /// returned is dropped. Whatever becomes of a page, the process goes on, and its end is not held up.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn serve_beside(self, console: Console) -> Result<Beside, Error> {
        let url = self.url();
        let address = self.address;
        let failed = move |source| Error::Serve { address, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READING_THREADS)
            .thread_keep_alive(IDLE_THREAD)
            .thread_name("console-reader")
            .on_thread_start(windlass_process::yield_to_other_threads)
            .build()
            .map_err(failed)?;
        let end = CancellationToken::new();
        let ended = end.clone();
        thread::Builder::new()
            .name("console".to_owned())
            .spawn(move || {
                windlass_process::yield_to_other_threads();
                if let Err(error) = runtime.block_on(self.serve(console, ended)) {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the console is no longer served");
                }
                runtime.shutdown_background();
            })
            .map_err(failed)?;
        tracing::info!(url, "the console is served");
        Ok(Beside { url, _end: end.drop_guard() })
    }
}

/// A console beside other work. It ends when this is dropped, without waiting for anybody.
#[derive(Debug)]
pub struct Beside {
    url: String,
    _end: DropGuard,
}

impl Beside {
    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// What is read again when it changes.
struct Files {
    options: ServeOptions,
    access: Access,
    tls: Option<Arc<Tls>>,
}

impl Files {
    async fn look_again_until(self, end: CancellationToken) {
        if self.options.token_file.is_none() && self.tls.is_none() {
            return;
        }
        let interval = self.options.look_again;
        let files = Arc::new(self);
        let mut said = None;
        while tokio::time::timeout(interval, end.cancelled()).await.is_err() {
            let files = Arc::clone(&files);
            let looked = tokio::task::spawn_blocking(move || files.look_again()).await;
            let problem = looked.ok().and_then(Result::err).map(|error| error.to_string());
            if problem != said
                && let Some(problem) = &problem
            {
                tracing::warn!(problem, "the console keeps its current certificates and token");
            }
            said = problem;
        }
    }

    fn look_again(&self) -> Result<(), Error> {
        if let Some(token) = self.options.token()?
            && self.access.replace_token(&token)?
        {
            tracing::info!("the console has a new token");
        }
        if let Some(tls) = &self.tls
            && tls.look_again()?
        {
            tracing::info!("the console has new certificates");
        }
        Ok(())
    }
}
