//! A fleeting plugin in one file: a group whose instances exist in memory only. It shows what [`InstanceGroup`] asks of
//! a provider, and GitLab's own host runs against it in `tests/fleeting-go` to prove the protocol without a cloud.
//!
//! `plugin_config`: `max_size`; `broken` (text): every call but Init fails with it; `defect` (text): Update panics with
//! it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_fleeting::protocol::{
    Capability, ConnectInfo, ConnectorConfig, Failure, Handshake, InstanceGroup, Partial, ProviderInfo, Report, State,
    Update, serve,
};

/// Everything the group remembers.
#[derive(Default)]
struct Memory {
    connector: ConnectorConfig,
    broken: Option<String>,
    defect: Option<String>,
    made: u32,
    instances: BTreeMap<String, State>,
}

/// The group.
#[derive(Default)]
struct InMemory(Mutex<Memory>);

impl InMemory {
    fn memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> Result<T, Failure> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &memory.broken {
            Some(words) => Err(Failure(words.clone())),
            None => Ok(work(&mut memory)),
        }
    }

    /// Sets the state of those instances that exist, but never of one named `*-2`, so that a part fails.
    fn set(&self, instances: Vec<String>, state: State) -> Partial {
        let done = self.memory(|memory| {
            let (refused, accepted): (Vec<_>, Vec<_>) = instances.into_iter().partition(|id| id.ends_with("-2"));
            for id in &accepted {
                memory.instances.entry(id.clone()).and_modify(|current| *current = state);
            }
            (accepted, refused)
        });
        match done {
            Ok((succeeded, refused)) => Partial {
                succeeded,
                failure: (!refused.is_empty()).then(|| Failure(format!("not possible for {}", refused.join(", ")))),
            },
            Err(failure) => Partial { succeeded: Vec::new(), failure: Some(failure) },
        }
    }
}

#[async_trait]
impl InstanceGroup for InMemory {
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure> {
        let configuration: serde_json::Value =
            serde_json::from_slice(&configuration).map_err(|error| Failure(format!("plugin_config: {error}")))?;
        let max_size = configuration["max_size"].as_u64().and_then(|size| u32::try_from(size).ok()).unwrap_or(10);
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memory.connector = connector;
        memory.broken = configuration["broken"].as_str().map(str::to_owned);
        memory.defect = configuration["defect"].as_str().map(str::to_owned);
        tracing::info!(max_size, "a group in memory");
        Ok(ProviderInfo {
            id: "memory/example".to_owned(),
            max_size,
            version: windlass_fleeting::version::VERSION.to_owned(),
            build_info: windlass_fleeting::version::build_info(),
            capabilities: vec![Capability::SuspendResume],
        })
    }

    async fn update(&self) -> Result<Update, Failure> {
        self.memory(|memory| {
            if let Some(words) = &memory.defect {
                panic!("{words}");
            }
            let reports =
                memory.instances.iter().map(|(id, state)| Report { instance: id.clone(), state: *state }).collect();
            for state in memory.instances.values_mut() {
                *state = match *state {
                    State::Creating | State::Resuming => State::Running,
                    State::Suspending => State::Suspended,
                    other => other,
                };
            }
            Update { reports, delivered: None }
        })
    }

    async fn increase(&self, count: u32) -> Result<u32, Failure> {
        self.memory(|memory| {
            for _ in 0..count {
                memory.made += 1;
                let id = format!("memory-{}", memory.made);
                memory.instances.insert(id, State::Creating);
            }
            count
        })
    }

    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure> {
        self.memory(|memory| {
            for id in &instances {
                memory.instances.remove(id);
            }
            instances
        })
    }

    async fn connect_info(&self, instance: String) -> Result<ConnectInfo, Failure> {
        self.memory(|memory| match memory.instances.get(&instance) {
            Some(State::Running) => Ok(ConnectInfo {
                connector: memory.connector.clone(),
                external_address: "192.0.2.1".to_owned(),
                internal_address: "10.0.0.1".to_owned(),
                expires: Some(4_102_444_800),
            }),
            _ => Err(Failure(format!("{instance} is not running"))),
        })?
    }

    async fn heartbeat(&self, instance: String) -> Result<(), Failure> {
        self.connect_info(instance).await.map(|_| ())
    }

    async fn suspend(&self, instances: Vec<String>) -> Partial {
        self.set(instances, State::Suspending)
    }

    async fn resume(&self, instances: Vec<String>) -> Partial {
        self.set(instances, State::Resuming)
    }

    async fn shutdown(&self) -> Result<(), Failure> {
        self.memory(|_| ())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let handshake = match Handshake::from_environment() {
        Ok(handshake) => handshake,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    windlass_fleeting::start_logging(&windlass_telemetry::Telemetry::default());
    match serve(handshake, Arc::new(InMemory::default())).await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the plugin cannot serve");
            ExitCode::FAILURE
        }
    }
}
