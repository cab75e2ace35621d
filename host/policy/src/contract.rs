//! Several versions of the contract side by side. A policy says by its exports which version it was built for; a host
//! speaks its own with those that have it, and an older one with the rest, as long as a slot has an [`Adapter`] for it.
//!
//! A slot's own types are those of the newest version. An adapter makes the older question from the newer one, puts it
//! with the older types, and makes the newer answer from the older one. Nothing else in the host knows of it: chains,
//! checks, records and replays see the newest types alone. A policy of the newest version takes no step more for it.

use futures::FutureExt;
use futures::future::BoxFuture;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentType, Instance, Lift, Lower};

use crate::error::Refusal;
use crate::examine::{Examination, POLICY_INTERFACE};
use crate::guest::Guest;
use crate::slots::slot::Adapter;
use crate::slots::{CONTRACT_VERSION, Slot};

/// An older version of a slot: its types, and how they come from the newest and back.
pub(crate) trait OlderSlot<S: Slot>: 'static {
    /// The version of the contract: `0.1.0`.
    const VERSION: &'static str;
    /// The slot's function in that version.
    const FUNCTION: &'static str;
    /// What is asked in that version.
    type Question: ComponentType + Lower + Send + Sync + 'static;
    /// What is answered in that version.
    type Answer: ComponentType + Lift + Send + Sync + 'static;

    /// The question down: without fields that the older version has no name for, newer cases as `other`.
    fn question(question: &S::Question) -> Self::Question;

    /// The answer up. It always can be: an older answer says nothing that a newer version can't.
    fn answer(answer: Self::Answer) -> S::Answer;
}

impl<S: Slot> Adapter<S> {
    /// The adapter for this older version.
    #[cfg_attr(not(test), expect(dead_code, reason = "there is no older version yet; the tests have one"))]
    pub(crate) const fn of<O: OlderSlot<S>>() -> Adapter<S> {
        Adapter {
            version: O::VERSION,
            function: O::FUNCTION,
            check: check::<S, O>,
            call: call::<S, O>,
            call_waiting: call_waiting::<S, O>,
        }
    }
}

fn check<S: Slot, O: OlderSlot<S>>(
    store: &mut Store<Guest>,
    instance: &Instance,
    function: &ComponentExportIndex,
) -> wasmtime::Result<()> {
    instance.get_typed_func::<(&O::Question,), (O::Answer,)>(store, function).map(|_| ())
}

fn call<S: Slot, O: OlderSlot<S>>(
    store: &mut Store<Guest>,
    instance: &Instance,
    function: &ComponentExportIndex,
    question: &S::Question,
) -> wasmtime::Result<S::Answer> {
    let question = O::question(question);
    let function = instance.get_typed_func::<(&O::Question,), (O::Answer,)>(&mut *store, function)?;
    function.call(store, (&question,)).map(|(answer,)| O::answer(answer))
}

fn call_waiting<'a, S: Slot, O: OlderSlot<S>>(
    store: &'a mut Store<Guest>,
    instance: &'a Instance,
    function: &'a ComponentExportIndex,
    question: &'a S::Question,
) -> BoxFuture<'a, wasmtime::Result<S::Answer>> {
    async move {
        let question = O::question(question);
        let function = instance.get_typed_func::<(&O::Question,), (O::Answer,)>(&mut *store, function)?;
        function.call_async(store, (&question,)).await.map(|(answer,)| O::answer(answer))
    }
    .boxed()
}

/// Which version of the contract a policy speaks with this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) version: &'static str,
    /// The place of its adapter in the slot's table. None: the newest version, which needs none.
    pub(crate) adapter: Option<usize>,
}

impl Spoken {
    /// A component is of one version: that of its `policy` interface. Its slots are of the same.
    ///
    /// # Errors
    /// [`Refusal::LacksExport`].
    pub(crate) fn of<S: Slot>(examination: &Examination) -> Result<Spoken, Refusal> {
        let version = version_of(examination, &versions::<S>())?;
        examination.export(S::NAME.interface(), version)?;
        Ok(Spoken { version, adapter: S::older().iter().position(|adapter| adapter.version == version) })
    }

    /// The slot's function in that version.
    pub(crate) fn function<S: Slot>(self) -> &'static str {
        self.adapter::<S>().map_or(S::FUNCTION, |adapter| adapter.function)
    }

    /// The adapter, where one is needed.
    pub(crate) fn adapter<S: Slot>(self) -> Option<&'static Adapter<S>> {
        self.adapter.and_then(|place| S::older().get(place))
    }
}

/// All versions that a slot's policies can have, the newest first.
pub(crate) fn versions<S: Slot>() -> Vec<&'static str> {
    std::iter::once(S::VERSION).chain(S::older().iter().map(|adapter| adapter.version)).collect()
}

/// The newest of these versions, which stand in that order, that a component is of.
///
/// # Errors
/// [`Refusal::LacksExport`], with what the newest version asks for.
pub(crate) fn version_of(examination: &Examination, versions: &[&'static str]) -> Result<&'static str, Refusal> {
    let exports = |version: &&&'static str| examination.export(POLICY_INTERFACE, version).is_ok();
    match versions.iter().find(exports) {
        Some(version) => Ok(version),
        None => {
            let newest = versions.first().copied().unwrap_or(CONTRACT_VERSION);
            examination.export(POLICY_INTERFACE, newest).map(|_| newest)
        }
    }
}

#[cfg(test)]
mod tests;
