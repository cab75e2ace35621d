//! From a component's bytes to a policy that is ready to decide: examine, check against grants, configure and snapshot,
//! compile, check types, describe, try. Each job has a file; here is their order.

mod description;
mod export;
mod grants;
mod import_types;
mod rule_exports;
pub(crate) mod snapshot;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use cap_std::fs::Dir;
use futures::FutureExt;
use serde_json::{Map, Value};
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};
use wasmtime::{Engine, Store};
use windlass_concurrency::Health;

use crate::built_in;
use crate::cache::{Cache, CacheKey};
use crate::call;
use crate::capability::Capability;
use crate::class::Class;
use crate::compiler::{ChildError, CompileIn, Compiler};
use crate::configuration::{Link, Mode};
use crate::decision::PolicyIdentity;
use crate::engine::{Engines, Purpose};
use crate::error::Refusal;
use crate::examine::{Examination, POLICY_INTERFACE, split_version};
use crate::failure_kind::FailureKind;
use crate::guest::{Failure, Guest, link_log, new_store};
use crate::host_calls::link::link as link_capability;
use crate::host_calls::{Answers, HostCalls};
use crate::limits::Limits;
use crate::policy::{Description, LoadedPolicy};
use crate::policy_log::LineRoom;
use crate::slots::{DECIDE, Slot, SlotName, with_slot};
use crate::source::Source;
use crate::text::one_line;

pub(crate) use grants::accept as accept_grants;
pub(crate) use rule_exports::RuleExports;

use export::{failed, function, lacks_function, wrong_type};
use snapshot::compile;

/// The longest settings, as JSON, in bytes.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// Loads policies for one host.
pub(crate) struct Loader {
    pub(crate) engines: Engines,
    pub(crate) cache: Cache,
    pub(crate) capabilities: Vec<Arc<dyn Capability>>,
    pub(crate) suspend_after: u32,
    /// Who compiles components of others, and the folder that has the cache.
    pub(crate) compiler: Option<(Compiler, Dir)>,
}

/// What a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// A policy that is a component.
    OfCode,
    /// A policy of rules: the host's own code evaluates them, and the settings are the rules.
    OfRules,
}

impl Loader {
    /// Loads a policy for a slot. Takes tens of milliseconds when the cache doesn't have it; never called while
    /// deciding.
    pub(crate) fn load(
        &self,
        slot: SlotName,
        link: &Link,
        made: Made,
        component: Arc<[u8]>,
        limits: Limits,
    ) -> Result<LoadedPolicy, Refusal> {
        with_slot!(slot, S => self.load_for::<S>(link, made, component, limits))
    }

    pub(crate) fn load_for<S: Slot>(
        &self,
        link: &Link,
        made: Made,
        component: Arc<[u8]>,
        limits: Limits,
    ) -> Result<LoadedPolicy, Refusal> {
        let slot = S::NAME;
        if component.len() as u64 > limits.component_bytes {
            return Err(Refusal::TooLarge { bytes: component.len() as u64, limit: limits.component_bytes });
        }
        let class = Class::of(&component);
        let purpose = Purpose { class, fuel: limits.fuel.is_some() };
        let engine = self.engines.get(purpose);
        let engine = engine.map_err(|error| Refusal::Prepare(error.to_string()))?;
        check_length(&link.settings)?;
        let key = CacheKey::of(&component, &link.settings);
        let cached = self.cache.get(engine, key);
        // Nothing gets into the cache that wasn't valid.
        let examination = match &cached {
            Some(_) => Examination::of_validated(&component)?,
            None => Examination::of(&component)?,
        };
        let policy_export = examination.export(POLICY_INTERFACE)?;
        let slot_export = examination.export(slot.interface())?;
        let granted = grants::accept(&self.capabilities, &link.grants)?;
        grants::check_imports(&self.capabilities, &granted, &examination, slot)?;
        let compiled = match cached {
            Some(compiled) => compiled,
            None => {
                self.compiled((purpose, engine), key, &component, link, &limits).map_err(|refusal| match refusal {
                    // Rules have a line for each of their problems.
                    Refusal::Configure(words) if made == Made::OfCode => Refusal::Configure(one_line(&words).into()),
                    refusal => refusal,
                })?
            }
        };
        import_types::check(&compiled, &granted)?;

        let mut linker = Linker::new(engine);
        let prepared = link_log(&mut linker).and_then(|()| {
            granted.iter().try_for_each(|(capability, granted)| link_capability(&mut linker, capability, granted))?;
            linker.instantiate_pre(&compiled)
        });
        let instance_pre = prepared.map_err(|error| Refusal::Prepare(one_line(&format!("{error:#}")).into()))?;
        let may_wait = examination.imports.iter().any(|import| !grants::is_always_granted(split_version(import).0));
        let decide_export =
            function(&compiled, slot_export, DECIDE).ok_or_else(|| lacks_function(slot_export, DECIDE))?;
        let rules = match made {
            Made::OfRules => Some(RuleExports::of(&compiled, &examination, &link.settings)?),
            Made::OfCode => None,
        };
        let (description, remarks) =
            describe_and_check_type::<S>(&instance_pre, policy_export, &decide_export, rules.as_ref(), &limits)?;

        // The last link of every chain: nobody could decide in its place.
        let is_last_resort = link.source == Source::BuiltIn && link.mode == Mode::Decide;
        let suspend_after = if is_last_resort { 0 } else { self.suspend_after };
        let mut policy = LoadedPolicy {
            identity: Arc::new(PolicyIdentity {
                slot,
                name: description.name.as_str().into(),
                version: description.version.as_str().into(),
                component: key.component,
                settings: key.settings,
                configuration: link.configuration(),
                origin: None,
            }),
            description,
            link: link.clone(),
            signed_by: None,
            limits,
            class,
            instance_pre,
            decide_export,
            rules,
            remarks,
            failed_example: None,
            may_wait,
            health: Health::new(suspend_after),
            decisions: AtomicU64::new(0),
            loaded: Instant::now(),
            slow_until_ms: AtomicU64::new(0),
            line_room: LineRoom::default(),
            _ticker: self.engines.ticker.clone(),
        };
        match dry_run::<S>(&policy) {
            Ok(()) => {}
            // A rule that cannot be evaluated there may never be asked such a question.
            Err(failure) if failure.kind == FailureKind::RuleFailed => policy.failed_example = Some(failure.reason),
            Err(failure) => return Err(Refusal::DryRun(failure.reason)),
        }
        Ok(policy)
    }

    /// The policy configured and compiled, by the compiler's process or here; and put into the cache. A component that
    /// is not this host's own is compiled here only if the host was given [`Compiler::this_process`].
    fn compiled(
        &self,
        (purpose, engine): (Purpose, &Engine),
        key: CacheKey,
        component: &[u8],
        link: &Link,
        limits: &Limits,
    ) -> Result<Component, Refusal> {
        let is_own = built_in::is_own(component);
        match &self.compiler {
            None if !is_own => return Err(Refusal::NoCompiler),
            None | Some((Compiler(CompileIn::ThisProcess), _)) => {}
            Some((Compiler(CompileIn::Child(program)), state)) => {
                match program.run(state, component, &link.settings, limits) {
                    Ok(()) => {
                        if let Some(compiled) = self.cache.get(engine, key) {
                            return Ok(compiled);
                        }
                    }
                    Err(ChildError::Refused(refusal)) if link.source != Source::BuiltIn => return Err(refusal),
                    // Settings can be made to be too much, too. The built-in defaults are not to blame for what happens
                    // to the child, and nobody could decide in their place.
                    Err(error) if !is_own || (error.was_stopped() && link.source != Source::BuiltIn) => {
                        return Err(Refusal::NotCompiled(error.to_string()));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a policy was not compiled in a process of its own; compiling it here");
                    }
                }
            }
        }
        let compiled = compile(&self.engines, &self.cache, purpose, component, &link.settings, limits)?;
        self.cache.put(engine, key, &compiled);
        Ok(compiled)
    }
}

fn check_length(settings: &Map<String, Value>) -> Result<(), Refusal> {
    let bytes = Value::Object(settings.clone()).to_string().len();
    if bytes > MAX_SETTINGS_BYTES {
        let problem = format!("they have {bytes} bytes, and at most {MAX_SETTINGS_BYTES} are allowed");
        return Err(Refusal::Settings(problem));
    }
    Ok(())
}

/// What the configured policy says of itself and of its rules, and whether its `decide` has the contract's type.
fn describe_and_check_type<S: Slot>(
    instance_pre: &InstancePre<Guest>,
    policy_export: &str,
    decide_export: &ComponentExportIndex,
    rules: Option<&RuleExports>,
    limits: &Limits,
) -> Result<(Description, Vec<String>), Refusal> {
    let host_calls = HostCalls::new(limits, Answers::Refused("no question was put"));
    let mut store: Store<Guest> =
        new_store(instance_pre.engine(), limits, Guest::new(Instant::now(), limits, Some(Box::new(host_calls))));
    let instantiated = instance_pre.instantiate_async(&mut store).now_or_never();
    let instantiated = instantiated.unwrap_or_else(|| Err(wasmtime::format_err!("it waits for something")));
    let instance = instantiated.map_err(|error| failed("instantiation", &error, store.data(), limits))?;
    instance
        .get_typed_func::<(&S::Question,), (S::Answer,)>(&mut store, decide_export)
        .map_err(|error| wrong_type(S::NAME.interface(), DECIDE, &error))?;
    let (description, _) =
        description::describe(&mut store, &instance, instance_pre.component(), policy_export, limits)?;
    let remarks = rules.map(|rules| rules.remarks(&mut store, &instance)).transpose();
    let remarks = remarks.map_err(|error| failed("remarks", &error, store.data(), limits))?;
    Ok((description, remarks.unwrap_or_default()))
}

/// Puts the slot's example question. Capabilities answer that nothing is called.
fn dry_run<S: Slot>(policy: &LoadedPolicy) -> Result<(), Failure> {
    let question = S::example();
    let (answer, trace) = if policy.may_wait {
        let calls = HostCalls::new(policy.limits(), Answers::Refused("this is a dry run: nothing is called"));
        let asked = call::ask_waiting::<S>(policy, &question, calls).now_or_never();
        asked.ok_or_else(|| Failure::new(FailureKind::HostCall, "it waits for something"))?
    } else {
        call::ask::<S>(policy, &question)
    };
    policy.computed(trace.computed);
    S::check(&question, &answer?).map_err(|problem| Failure::new(FailureKind::RejectedAnswer, problem))
}
