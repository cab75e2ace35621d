//! From a component's bytes to a policy that is ready to decide: examine, check against grants, describe, check the
//! settings, configure and snapshot, compile, try.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cap_std::fs::Dir;
use futures::FutureExt;
use serde_json::{Map, Value};
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Linker, WasmList};
use wasmtime::{Engine, Store};
use wasmtime_wizer::{ComponentInstanceState, Wizer};
use windlass_concurrency::Health;

use crate::cache::{Cache, CacheKey};
use crate::call::{self, Failure, Guest, link_log, new_store, renew};
use crate::capability::{Capability, GrantedCapability};
use crate::compiler::Compiler;
use crate::configuration::Link;
use crate::decision::PolicyIdentity;
use crate::engine::Engines;
use crate::error::Refusal;
use crate::examine::{Examination, is_compatible, split_version};
use crate::host_calls::{self, Answers, HostCalls};
use crate::limits::Limits;
use crate::policy::{Description, LoadedPolicy};
use crate::settings_schema::SettingsSchema;
use crate::slots::{CONTRACT_VERSION, Slot, SlotName, with_slot};
use crate::text::{MAX_REASON_BYTES, is_control, one_line, short};

/// The interface that every policy exports.
const POLICY_INTERFACE: &str = "windlass:policy/policy";
/// What every policy may import: lines for the log, and the contract's types, which have no functions.
const ALWAYS_GRANTED: [&str; 2] = ["windlass:policy/log", "windlass:policy/types"];
/// The longest settings, as JSON, in bytes.
const MAX_SETTINGS_BYTES: usize = 64 << 10;
/// The longest name and the longest version, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// What a snapshot may pass out of the guest: its whole memory, which isn't copied.
const SNAPSHOT_BYTES: usize = usize::MAX;

/// Loads policies for one host.
pub(crate) struct Loader {
    pub(crate) engines: Engines,
    pub(crate) cache: Cache,
    pub(crate) capabilities: Vec<Arc<dyn Capability>>,
    pub(crate) suspend_after: u32,
    /// Who compiles, and the state folder, where it isn't this process.
    pub(crate) compiler: Option<(Compiler, Dir)>,
}

/// The grants of one policy, understood.
type Granted = Vec<(Arc<dyn Capability>, Arc<dyn GrantedCapability>)>;

impl Loader {
    /// Loads a policy for a slot. Takes tens of milliseconds when the cache doesn't have it; never called while
    /// deciding.
    pub(crate) fn load(
        &self,
        slot: SlotName,
        link: &Link,
        component: Arc<[u8]>,
        limits: Limits,
    ) -> Result<LoadedPolicy, Refusal> {
        if component.len() as u64 > limits.component_bytes {
            return Err(Refusal::TooLarge { bytes: component.len() as u64, limit: limits.component_bytes });
        }
        let examination = Examination::of(&component)?;
        examination.export(POLICY_INTERFACE, CONTRACT_VERSION)?;
        let slot_export = examination.export(slot.interface(), CONTRACT_VERSION)?.to_owned();
        let granted = self.grants(&link.grants)?;
        self.check_imports(&examination, &granted, slot)?;

        let settings_text = Value::Object(link.settings.clone()).to_string();
        if settings_text.len() > MAX_SETTINGS_BYTES {
            let problem =
                format!("they have {} bytes, and at most {MAX_SETTINGS_BYTES} are allowed", settings_text.len());
            return Err(Refusal::Settings(problem));
        }
        let engine = match limits.fuel {
            Some(_) => self.engines.with_fuel().map_err(|error| Refusal::Prepare(error.to_string()))?,
            None => &self.engines.plain,
        };
        let key = CacheKey::of(&component, &link.settings);
        let cached = self.cache.get(engine, key);
        let compiled = match cached.or_else(|| self.compiled_by_child(engine, key, &component, link, &limits)) {
            Some(compiled) => compiled,
            None => {
                let compiled = compile(engine, &component, &link.settings, &limits)?;
                self.cache.put(engine, key, &compiled);
                compiled
            }
        };

        let mut linker = Linker::new(engine);
        let prepared = link_log(&mut linker).and_then(|()| {
            granted.iter().try_for_each(|(capability, granted)| host_calls::link(&mut linker, capability, granted))?;
            linker.instantiate_pre(&compiled)
        });
        let instance_pre = prepared.map_err(|error| Refusal::Prepare(one_line(&format!("{error:#}")).into()))?;
        let may_wait = examination.imports.iter().any(|import| !ALWAYS_GRANTED.contains(&split_version(import).0));
        let decide_export = function(&compiled, &slot_export, "decide").ok_or_else(|| Refusal::WrongType {
            export: format!("{slot_export}#decide"),
            version: CONTRACT_VERSION,
            problem: "there is no such function".into(),
        })?;
        let description = describe_and_check_type(&instance_pre, &examination, slot, &decide_export, &limits)?;

        let policy = LoadedPolicy {
            identity: PolicyIdentity {
                slot,
                name: description.name.as_str().into(),
                version: description.version.as_str().into(),
                component: key.component,
                settings: key.settings,
            },
            description,
            link: link.clone(),
            limits,
            instance_pre,
            decide_export,
            may_wait,
            health: Health::new(self.suspend_after),
        };
        with_slot!(slot, S => dry_run::<S>(&policy)).map_err(Refusal::DryRun)?;
        Ok(policy)
    }

    /// Lets the compiler's process compile, where there is one, and reads what it put into the cache. Nothing when that
    /// fails, also because the policy is to be refused: then it is compiled here, which finds the words.
    fn compiled_by_child(
        &self,
        engine: &Engine,
        key: CacheKey,
        component: &[u8],
        link: &Link,
        limits: &Limits,
    ) -> Option<Component> {
        let (compiler, state) = self.compiler.as_ref()?;
        match compiler.run(state, component, &link.settings, limits) {
            Ok(()) => self.cache.get(engine, key),
            Err(error) => {
                tracing::debug!(%error, "a policy was not compiled in a process of its own; compiling it here");
                None
            }
        }
    }

    /// Understands grant lines: the name of an import, then arguments for its capability.
    fn grants(&self, grants: &[String]) -> Result<Granted, Refusal> {
        let mut arguments: Vec<(usize, Vec<String>)> = Vec::new();
        for grant in grants {
            let (import, rest) = grant.trim().split_once(char::is_whitespace).unwrap_or((grant.trim(), ""));
            let name = split_version(import).0;
            if ALWAYS_GRANTED.contains(&name) {
                continue;
            }
            let Some(index) = self.capabilities.iter().position(|capability| capability.interface() == name) else {
                let problem = format!("this host offers no such import. It offers {}", self.offered());
                return Err(Refusal::Grant { grant: grant.clone(), problem });
            };
            match arguments.iter_mut().find(|(known, _)| *known == index) {
                Some((_, all)) => all.push(rest.trim().to_owned()),
                None => arguments.push((index, vec![rest.trim().to_owned()])),
            }
        }
        let accept = |(index, arguments): (usize, Vec<String>)| {
            let capability = &self.capabilities[index];
            let granted = capability.accept_grants(&arguments).map_err(|problem| {
                let grant = format!("{} {}", capability.interface(), arguments.join(" | "));
                Refusal::Grant { grant: grant.trim().to_owned(), problem }
            })?;
            Ok((capability.clone(), granted))
        };
        arguments.into_iter().map(accept).collect()
    }

    fn check_imports(&self, examination: &Examination, granted: &Granted, slot: SlotName) -> Result<(), Refusal> {
        for import in &examination.imports {
            let (name, version) = split_version(import);
            let offers = |ours: &str| version.is_some_and(|version| is_compatible(version, ours));
            if ALWAYS_GRANTED.contains(&name) && offers(CONTRACT_VERSION) {
                continue;
            }
            match self.capabilities.iter().find(|capability| capability.interface() == name) {
                Some(capability) if offers(capability.version()) => {
                    if !granted.iter().any(|(granted, _)| granted.interface() == name) {
                        let grant = capability.example_grant();
                        return Err(Refusal::Ungranted { import: short(import).into(), slot, grant });
                    }
                }
                _ => return Err(Refusal::UnknownImport { import: short(import).into(), offered: self.offered() }),
            }
        }
        Ok(())
    }

    /// What can be imported at all.
    fn offered(&self) -> String {
        let mut names = vec![format!("`windlass:policy/log@{CONTRACT_VERSION}`")];
        names.extend(self.capabilities.iter().map(|it| format!("`{}@{}`", it.interface(), it.version())));
        names.join(", ")
    }
}

/// The index of a function of an exported instance.
fn function(component: &Component, instance: &str, function: &str) -> Option<ComponentExportIndex> {
    let instance = component.get_export_index(None, instance)?;
    component.get_export_index(Some(&instance), function)
}

/// A policy configured and compiled. Takes tens of milliseconds.
pub(crate) fn compile(
    engine: &Engine,
    component: &[u8],
    settings: &Map<String, Value>,
    limits: &Limits,
) -> Result<Component, Refusal> {
    let examination = Examination::of(component)?;
    let settings_text = Value::Object(settings.clone()).to_string();
    let snapshot = configured(engine, component, &examination, settings, &settings_text, limits)?;
    Component::new(engine, snapshot).map_err(|error| Refusal::Prepare(one_line(&format!("{error:#}")).into()))
}

/// Runs `configure` and returns a component whose memory holds what it left: the same exports, already configured.
fn configured(
    engine: &Engine,
    bytes: &[u8],
    examination: &Examination,
    settings: &Map<String, Value>,
    settings_text: &str,
    limits: &Limits,
) -> Result<Vec<u8>, Refusal> {
    let prepare = |error: wasmtime::Error| Refusal::Prepare(one_line(&format!("{error:#}")).into());
    let limits = Limits { time_ms: limits.configure_time_ms, ..limits.clone() };
    let wizer = Wizer::new();
    // The snapshot library asserts what it can't handle (several memories in a module, for one). A policy of that kind
    // is refused like any other that can't be prepared.
    let unwound = |_| Refusal::Prepare("its memory can't be made into a snapshot".into());

    let (context, instrumented) =
        catch_unwind(|| wizer.instrument_component(bytes)).map_err(unwound)?.map_err(prepare)?;
    let component = Component::new(engine, &instrumented)
        .map_err(|error| Refusal::Invalid(one_line(&format!("{error:#}")).into()))?;
    let mut linker = Linker::<Guest>::new(engine);
    linker.define_unknown_imports_as_traps(&component).map_err(prepare)?;

    let policy_export = examination.export(POLICY_INTERFACE, CONTRACT_VERSION)?;
    let failed = |function: &'static str| {
        let limits = &limits;
        move |error: wasmtime::Error| {
            let failure = Failure::from_engine(&error, limits);
            let text = format!("{error:#}");
            // The engine's words for an import that was defined as a trap.
            let problem = if text.contains("unknown import") {
                "it calls an import, and until a question is put a policy must not call any".into()
            } else {
                failure.reason
            };
            Refusal::Failed { function, problem }
        }
    };
    let mut store = new_store(engine, &limits, Guest::new(&limits, None));
    let instance = linker.instantiate(&mut store, &component).map_err(failed("instantiation"))?;

    let (_, schema) = call_describe(&mut store, &instance, &component, policy_export, &limits)?;
    schema.check(&Value::Object(settings.clone())).map_err(Refusal::Settings)?;

    let wrong_type = |error: wasmtime::Error| wrong_type(policy_export, "configure", &error);
    let index = function(&component, policy_export, "configure")
        .ok_or_else(|| wrong_type(wasmtime::format_err!("there is no such function")))?;
    let configure =
        instance.get_typed_func::<(&str,), (Result<(), String>,)>(&mut store, &index).map_err(wrong_type)?;
    renew(&mut store, &limits);
    let (outcome,) = configure.call(&mut store, (settings_text,)).map_err(failed("configure"))?;
    outcome.map_err(|words| Refusal::Configure(one_line(&words).into()))?;

    // What follows only reads, through functions that the library added.
    store.set_epoch_deadline(u64::MAX / 2);
    store.set_hostcall_fuel(SNAPSHOT_BYTES);
    if limits.fuel.is_some() {
        let _ = store.set_fuel(u64::MAX);
    }
    let mut state = Snapshotted { store: &mut store, instance };
    let snapshot = AssertUnwindSafe(async { wizer.snapshot_component(&context, &mut state).await }).catch_unwind();
    match snapshot.now_or_never() {
        Some(Ok(snapshot)) => snapshot.map_err(prepare),
        Some(Err(panic)) => Err(unwound(panic)),
        None => Err(Refusal::Prepare("the snapshot waits for something, and nothing in it can".into())),
    }
}

fn wrong_type(instance: &str, function: &str, error: &wasmtime::Error) -> Refusal {
    Refusal::WrongType {
        export: format!("{instance}#{function}"),
        version: CONTRACT_VERSION,
        problem: one_line(&format!("{error:#}")).into(),
    }
}

/// What a policy says of itself, checked, and its schema of settings understood.
fn call_describe(
    store: &mut Store<Guest>,
    instance: &Instance,
    component: &Component,
    policy_export: &str,
    limits: &Limits,
) -> Result<(Description, SettingsSchema), Refusal> {
    let wrong_type = |error: wasmtime::Error| wrong_type(policy_export, "describe", &error);
    let index = function(component, policy_export, "describe")
        .ok_or_else(|| wrong_type(wasmtime::format_err!("there is no such function")))?;
    let describe = instance.get_typed_func::<(), (Description,)>(&mut *store, &index).map_err(wrong_type)?;
    let called = describe.call_async(&mut *store, ()).now_or_never();
    let described = called.unwrap_or_else(|| Err(wasmtime::format_err!("it waits for something")));
    let (description,) = described.map_err(|error| Refusal::Failed {
        function: "describe",
        problem: Failure::from_engine(&error, limits).reason,
    })?;

    let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let problem = if description.name.is_empty()
        || description.name.len() > MAX_NAME_BYTES
        || !description.name.chars().all(letters)
    {
        Some("`name` must be 1 to 64 lower-case letters, digits and dashes".to_owned())
    } else if description.version.len() > MAX_NAME_BYTES
        || !is_compatible(&description.version, &description.version)
        || !looks_like_semver(&description.version)
    {
        Some("`version` must be a semantic version such as 1.2.3".to_owned())
    } else if description.summary.len() > MAX_REASON_BYTES || description.summary.contains(is_control) {
        Some("`summary` must be one line of at most 1,024 bytes".to_owned())
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(Refusal::Description(problem));
    }
    let schema = SettingsSchema::read(&description.settings_schema).map_err(Refusal::Description)?;
    Ok((description, schema))
}

/// Three numbers, and after them perhaps a pre-release or build in the characters allowed there.
fn looks_like_semver(version: &str) -> bool {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let numbers: Vec<&str> = numbers.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|number| number.parse::<u64>().is_ok())
        && rest.chars().all(|letter| letter.is_ascii_alphanumeric() || "-+.".contains(letter))
}

/// What the configured policy says of itself, and whether its `decide` has the contract's type.
fn describe_and_check_type(
    instance_pre: &InstancePre<Guest>,
    examination: &Examination,
    slot: SlotName,
    decide_export: &ComponentExportIndex,
    limits: &Limits,
) -> Result<Description, Refusal> {
    let host_calls = HostCalls::new(limits, Answers::Refused("no question was put"));
    let mut store = new_store(instance_pre.engine(), limits, Guest::new(limits, Some(Box::new(host_calls))));
    let instantiated = instance_pre.instantiate_async(&mut store).now_or_never();
    let instance =
        instantiated.unwrap_or_else(|| Err(wasmtime::format_err!("it waits for something"))).map_err(|error| {
            Refusal::Failed { function: "instantiation", problem: Failure::from_engine(&error, limits).reason }
        })?;
    with_slot!(slot, S => {
        type Question = <S as Slot>::Question;
        type Answer = <S as Slot>::Answer;
        instance.get_typed_func::<(&Question,), (Answer,)>(&mut store, decide_export).map(|_| ())
    })
    .map_err(|error| wrong_type(slot.interface(), "decide", &error))?;
    let policy_export = examination.export(POLICY_INTERFACE, CONTRACT_VERSION)?;
    let (description, _) = call_describe(&mut store, &instance, instance_pre.component(), policy_export, limits)?;
    Ok(description)
}

/// Puts the slot's example question. Capabilities answer that nothing is called.
fn dry_run<S: Slot>(policy: &LoadedPolicy) -> Result<(), String> {
    let question = S::example();
    let answer = if policy.may_wait {
        let calls = HostCalls::new(policy.limits(), Answers::Refused("this is a dry run: nothing is called"));
        let asked = call::ask_waiting::<S>(policy, &question, calls).now_or_never();
        asked.ok_or("it waits for something")?.0
    } else {
        call::ask::<S>(policy, &question).0
    };
    S::check(&question, &answer.map_err(|failure| failure.reason)?)
}

/// Lets the snapshot library read the instance.
struct Snapshotted<'a> {
    store: &'a mut Store<Guest>,
    instance: Instance,
}

impl Snapshotted<'_> {
    fn read<R: wasmtime::component::Lift + Send + Sync + 'static>(&mut self, instance: &str, function: &str) -> R {
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
