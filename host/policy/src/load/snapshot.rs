//! `configure`, and the component whose memory holds what it left.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use serde_json::{Map, Value};
use std::time::Instant;

use wasmtime::component::{Component, Instance, Lift, Linker, WasmList};
use wasmtime::{Engine, Store};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

use super::description::describe;
use super::export::{failed, function, lacks_function, wrong_type};
use crate::built_in;
use crate::cache::{Cache, CacheKey};
use crate::engine::{Engines, Purpose};
use crate::error::Refusal;
use crate::examine::{Examination, POLICY_INTERFACE};
use crate::guest::{Guest, link_log, new_store, renew};
use crate::limits::Limits;
use crate::text::{one_line, tidy_lines};

/// What a snapshot may pass out of the guest: its whole memory, which isn't copied.
const SNAPSHOT_BYTES: usize = usize::MAX;

/// The error for a policy that calls a capability before it is asked.
const CALLS_TOO_EARLY: &str = "it calls an import, and until a question is put a policy must not call any";

/// A policy, configured and compiled. Takes tens of milliseconds; for a script many seconds.
pub(crate) fn compile(
    engines: &Engines,
    cache: &Cache,
    purpose: Purpose,
    component: &[u8],
    settings: &Map<String, Value>,
    limits: &Limits,
) -> Result<Component, Refusal> {
    let made = |error: crate::Error| Refusal::Prepare(error.to_string());
    let configuring = engines.configuring(purpose.class).map_err(made)?;
    let snapshot = configured(configuring, cache, component, settings, limits)?;
    Component::new(engines.get(purpose).map_err(made)?, snapshot).map_err(|error| prepare(&error))
}

fn prepare(error: &wasmtime::Error) -> Refusal {
    Refusal::Prepare(one_line(&format!("{error:#}")).into())
}

/// The snapshot library asserts what it can't handle (several memories in a module, for one). A policy of that kind is
/// refused like any other that can't be prepared.
fn unwound<P>(_: P) -> Refusal {
    Refusal::Prepare("its memory can't be made into a snapshot".into())
}

/// Runs `configure` and returns a component with the same exports, already configured.
fn configured(
    engine: &Engine,
    cache: &Cache,
    bytes: &[u8],
    settings: &Map<String, Value>,
    limits: &Limits,
) -> Result<Vec<u8>, Refusal> {
    // The engine for it counts no fuel.
    let limits = Limits { time_ms: limits.configure_time_ms, fuel: None, ..limits.clone() };
    let examination = Examination::of(bytes)?;
    let wizer = Wizer::new();
    let (context, instrumented) =
        catch_unwind(|| wizer.instrument_component(bytes)).map_err(unwound)?.map_err(|error| prepare(&error))?;
    let component = unconfigured(engine, cache, (bytes, &instrumented), settings)?;
    let mut linker = Linker::<Guest>::new(engine);
    // The log as well is for answers, but what a panic says on its way out must be heard here, too.
    link_log(&mut linker)
        .and_then(|()| linker.define_unknown_imports_as_traps(&component))
        .map_err(|error| prepare(&error))?;

    let mut store = new_store(engine, &limits, Guest::new(Instant::now(), &limits, None));
    let instance = linker
        .instantiate(&mut store, &component)
        .map_err(|error| failed_early("instantiation", &error, store.data(), &limits))?;
    let export = examination.export(POLICY_INTERFACE)?;
    let (_, schema) = describe(&mut store, &instance, &component, export, &limits)?;
    schema.check(&Value::Object(settings.clone())).map_err(Refusal::Settings)?;
    configure(&mut store, &instance, &component, export, settings, &limits)?;

    // What follows only reads, through functions that the library added.
    store.set_epoch_deadline(u64::MAX / 2);
    store.set_hostcall_fuel(SNAPSHOT_BYTES);
    let mut state = Snapshotted { store: &mut store, instance };
    let snapshot = AssertUnwindSafe(async { wizer.snapshot_component(&context, &mut state).await }).catch_unwind();
    match snapshot.now_or_never() {
        Some(Ok(snapshot)) => snapshot.map_err(|error| prepare(&error)),
        Some(Err(panic)) => Err(unwound(panic)),
        None => Err(Refusal::Prepare("the snapshot waits for something, and nothing in it can".into())),
    }
}

/// The component that takes the settings, compiled. This host's own ones take many: a file of rules is the settings of
/// one of them. So each is compiled for that once.
fn unconfigured(
    engine: &Engine,
    cache: &Cache,
    (bytes, instrumented): (&[u8], &[u8]),
    settings: &Map<String, Value>,
) -> Result<Component, Refusal> {
    // One key for all settings.
    let key = (built_in::is_own(bytes) && !settings.is_empty()).then(|| CacheKey::of(instrumented, &Map::new()));
    if let Some(component) = key.and_then(|key| cache.get(engine, key)) {
        return Ok(component);
    }
    let component = Component::new(engine, instrumented)
        .map_err(|error| Refusal::Invalid(one_line(&format!("{error:#}")).into()))?;
    if let Some(key) = key {
        cache.put(engine, key, &component);
    }
    Ok(component)
}

fn configure(
    store: &mut Store<Guest>,
    instance: &Instance,
    component: &Component,
    export: &str,
    settings: &Map<String, Value>,
    limits: &Limits,
) -> Result<(), Refusal> {
    let index = function(component, export, "configure").ok_or_else(|| lacks_function(export, "configure"))?;
    let configure = instance
        .get_typed_func::<(&str,), (Result<(), String>,)>(&mut *store, &index)
        .map_err(|error| wrong_type(export, "configure", &error))?;
    renew(store, limits);
    let settings = Value::Object(settings.clone()).to_string();
    let (outcome,) = configure
        .call(&mut *store, (settings.as_str(),))
        .map_err(|error| failed_early("configure", &error, store.data(), limits))?;
    if store.data().has_logged() {
        return Err(Refusal::Failed { function: "configure", problem: CALLS_TOO_EARLY.into() });
    }
    outcome.map_err(|words| Refusal::Configure(tidy_lines(&words)))
}

fn failed_early(function: &'static str, error: &wasmtime::Error, guest: &Guest, limits: &Limits) -> Refusal {
    // The engine's words for an import that was defined as a trap.
    if format!("{error:#}").contains("unknown import") {
        return Refusal::Failed { function, problem: CALLS_TOO_EARLY.into() };
    }
    failed(function, error, guest, limits)
}

/// Lets the snapshot library read the instance.
struct Snapshotted<'a> {
    store: &'a mut Store<Guest>,
    instance: Instance,
}

impl Snapshotted<'_> {
    fn read<R: Lift + Send + Sync + 'static>(&mut self, instance: &str, function: &str) -> R {
        // The library added these functions to the component itself and validated it after. They take nothing, read one
        // global or hand out the memory, and neither time, fuel nor size limits them any more (see `configured`).
        const ADDED: &str = "the snapshot library's own accessor, which only reads";
        let instance_export = self.instance.get_export_index(&mut *self.store, None, instance).expect(ADDED);
        let function = self.instance.get_export_index(&mut *self.store, Some(&instance_export), function).expect(ADDED);
        let function = self.instance.get_typed_func::<(), (R,)>(&mut *self.store, &function).expect(ADDED);
        function.call(&mut *self.store, ()).expect(ADDED).0
    }
}

impl ComponentInstanceState for Snapshotted<'_> {
    async fn call_func_ret_list_u8(&mut self, instance: &str, func: &str, contents: impl FnOnce(&[u8]) + Send) {
        let list: WasmList<u8> = self.read(instance, func);
        contents(list.as_le_slice(&*self.store));
    }

    async fn call_func_ret_s32(&mut self, instance: &str, func: &str) -> i32 {
        self.read(instance, func)
    }

    async fn call_func_ret_s64(&mut self, instance: &str, func: &str) -> i64 {
        self.read(instance, func)
    }

    async fn call_func_ret_f32(&mut self, instance: &str, func: &str) -> u32 {
        self.read::<f32>(instance, func).to_bits()
    }

    async fn call_func_ret_f64(&mut self, instance: &str, func: &str) -> u64 {
        self.read::<f64>(instance, func).to_bits()
    }
}
