//! What both benchmarks measure: a host with its defaults, and the bare wasmtime loop beside it.

#![allow(dead_code, reason = "each benchmark uses its part")]

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use wasmtime::component::{Component, Instance, InstancePre, Linker};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits,
    StoreLimitsBuilder,
};
use windlass_policy::slots::{Retry, Slot, SlotName, StateMapping, retry, state_mapping};
use windlass_policy::{Compiler, Host, HostOptions, Link, LoadedPolicy};

/// The default retry policy, as the host embeds it.
const RETRY: &[u8] = include_bytes!("../../components/retry.wasm");

pub(crate) struct Set {
    pub(crate) host: Host,
    pub(crate) state: tempfile::TempDir,
}

impl Set {
    pub(crate) fn new() -> Set {
        let state = tempfile::tempdir().expect("the machine has room for a temporary folder");
        let host = open(state.path());
        Set { host, state }
    }

    pub(crate) fn bare(&self) -> Bare {
        Bare::new()
    }
}

/// A host on this state folder.
pub(crate) fn open(state: &std::path::Path) -> Host {
    let dir = Dir::open_ambient_dir(state, ambient_authority()).expect("the folder was just made");
    let mut options = HostOptions::new(dir);
    options.compiler = Some(Compiler::this_process());
    Host::new(options).expect("the built-in defaults load")
}

/// A batch of so many servers in all sorts of states.
pub(crate) fn batch(servers: usize) -> state_mapping::Question {
    let mut question = StateMapping::example();
    question.servers = question.servers.iter().copied().cycle().take(servers).collect();
    question
}

/// Ten rules for `retry`, of which the last one applies to the example, and for `state-mapping`.
pub(crate) fn ten_rules(host: &Host, slot: SlotName) -> std::sync::Arc<LoadedPolicy> {
    let (conditions, answer) = match slot {
        SlotName::Retry => (
            [
                "failure.class == 'out-of-stock' && attempt < 20",
                "failure.class in ['locked', 'transient-state'] && zone == 'fr-par-2'",
                "undoing && attempt < 5",
                "has(failure.status) && failure.status == 429",
                "operation == 'release-machine' && attempt > 3",
                "step.startsWith('delete') && !failure.ambiguous",
                "subject.group == 'batch' && elapsed < 60000",
                "time_left != null && time_left < 1000",
                "server_type == 'GP1-XS' || server_type == 'GP1-S'",
                "failure.class == 'server-error' && attempt < 10",
            ],
            "{ wait = \"= 2000 * attempt + random % 500\" }",
        ),
        _ => (
            [
                "server.state == 'locked'",
                "server.state == 'stopped' && 'debug' in server.watched_tags",
                "server.server_type == 'GP1-XS' && server.age < 60000",
                "server.suspended && server.state_age > 3600000",
                "server.in_flight == 'suspend'",
                "server.detail == 'rebooting' && server.state_age < 600000",
                "server.state == 'stopping' && server.in_flight == 'none'",
                "zone == 'fr-par-3'",
                "subject.group == 'batch' && !server.has_run",
                "server.state == 'other'",
            ],
            "{ mapped = { report = \"none\", action = \"none\" } }",
        ),
    };
    let rules = conditions.map(|when| format!("[[rules]]\nwhen = \"{when}\"\nanswer = {answer}\n"));
    let text = format!("slot = \"{slot}\"\n{}", rules.concat());
    let link = Link::contents(std::path::Path::new("ten.rules.toml"), text.into_bytes());
    host.load(slot, &link).expect("these rules are right")
}

/// wasmtime and nothing else, with the same limits in force: store, instantiate, call, drop. The yardstick. `configure`
/// isn't even called, so it does less than a policy's decision has to.
pub(crate) struct Bare {
    engine: Engine,
    pre: InstancePre<StoreLimits>,
    decide: wasmtime::component::ComponentExportIndex,
    question: retry::Question,
}

impl Bare {
    fn new() -> Bare {
        let mut pool = PoolingAllocationConfig::new();
        pool.linear_memory_keep_resident(1 << 20)
            .table_keep_resident(1 << 20)
            .pagemap_scan(Enabled::No)
            .max_memory_size(64 << 20);
        let mut config = Config::new();
        config
            .concurrency_support(false)
            .epoch_interruption(true)
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).expect("this engine is valid");
        let component = Component::new(&engine, RETRY).expect("the default policy compiles");
        let mut linker = Linker::<StoreLimits>::new(&engine);
        linker.define_unknown_imports_as_traps(&component).expect("imports can be traps");
        let pre = linker.instantiate_pre(&component).expect("all imports are defined");
        let instance = component.get_export_index(None, "windlass:policy/retry@0.1.0").expect("the slot is exported");
        let decide = component.get_export_index(Some(&instance), "decide").expect("the slot has its function");
        Bare { engine, pre, decide, question: Retry::example() }
    }

    fn instance(&self) -> (Store<StoreLimits>, Instance) {
        let mut store = Store::new(&self.engine, StoreLimitsBuilder::new().memory_size(16 << 20).build());
        store.limiter(|limits| limits);
        store.set_epoch_deadline(1_000);
        store.set_hostcall_fuel(4 << 20);
        let instance = self.pre.instantiate(&mut store).expect("the pool has room");
        (store, instance)
    }

    /// One decision in a fresh instance.
    pub(crate) fn decide_fresh(&mut self) -> retry::Answer {
        let (mut store, instance) = self.instance();
        let decide = instance
            .get_typed_func::<(&retry::Question,), (retry::Answer,)>(&mut store, &self.decide)
            .expect("the type is the contract's");
        decide.call(&mut store, (&self.question,)).expect("an unconfigured policy decides by its defaults").0
    }

    /// A closure that decides in one instance again and again.
    pub(crate) fn reused(&self) -> impl FnMut() -> retry::Answer {
        let (mut store, instance) = self.instance();
        let decide = instance
            .get_typed_func::<(&retry::Question,), (retry::Answer,)>(&mut store, &self.decide)
            .expect("the type is the contract's");
        let question = self.question.clone();
        move || {
            store.set_epoch_deadline(1_000);
            decide.call(&mut store, (&question,)).expect("an unconfigured policy decides by its defaults").0
        }
    }
}
