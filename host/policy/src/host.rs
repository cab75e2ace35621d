//! The host: configures policies, hands them out, replaces them while they are used.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use parking_lot::{Condvar, Mutex};
use rand::Rng;
use tokio::sync::Semaphore;
use windlass_concurrency::{Generations, Health};
use windlass_distribution::files::read_bounded;
use windlass_distribution::{Fetch, RULES_MEDIA_TYPE, Signature, SignatureFile, Trust};

use crate::asker::Asker;
use crate::brake::Brake;
use crate::built_in;
use crate::cache::Cache;
use crate::capability::Capability;
use crate::chain::{ChainLink, Deciding, Generation, PinnedPolicies, Shadow};
use crate::class::Class;
use crate::compiler::Compiler;
use crate::configuration::{Link, Mode, Policies};
use crate::decision::{DecisionIds, PolicyIdentity, PolicyOrigin, now_ms};
use crate::decision_log::{self, DecisionLog, DecisionLogOptions, DecisionReader};
use crate::digest::Digest;
use crate::engine::{CONCURRENT_WAITING_DECISIONS, Engines};
use crate::error::{Error, Refusal};
use crate::host_status::{HostStatus, LinkStatus};
use crate::kept::{Kept, Restored, Unrestored};
use crate::limits::{ClassLimits, MAX_COMPONENT_BYTES};
use crate::load::{Loader, Made};
use crate::policy::LoadedPolicy;
use crate::policy_log::LineRoom;
use crate::rules::RulesFile;
use crate::scoped::{ScopedPolicies, Scopes};
use crate::shadow::{ShadowOptions, Shadows};
use crate::shares::Shares;
use crate::slots::SlotName;
use crate::slots::types::{Label, Program, Subject};
use crate::source::Source;
use crate::status::{RunningHost, StatusSignal, StatusWriter};

/// How a host is made.
#[non_exhaustive]
pub struct HostOptions {
    /// The folder for the compiled cache and its key, kept policies, the decision log and the
    /// [status](crate::running_hosts). Several processes may share it.
    pub state_dir: Dir,
    /// The folder for the compiled cache and its key, where that is not `state_dir`: a host for a trial then compiles
    /// nothing that another has compiled.
    pub cache_dir: Option<Dir>,
    /// Another state folder, of which the compiled cache is read and never written: a host for a trial then compiles
    /// nothing that this user's hosts have compiled.
    pub lending_dir: Option<Dir>,
    /// Whether policies are only tried here: none of them comes into force, so neither metrics nor events nor the
    /// [list of changes](crate::policy_changes) tell of them. Default false.
    pub is_trial: bool,
    /// Where relative paths of policies start. Default: the current folder.
    pub policy_folder: PathBuf,
    /// What policies can be granted. Default: nothing but the log.
    pub capabilities: Vec<Arc<dyn Capability>>,
    /// The limits of a policy whose link has none of its own.
    pub limits: ClassLimits,
    /// After so many failures in a row a policy is no longer asked until it is replaced; 0 means never. Default 5. A
    /// built-in default is always asked, and an operator's policy where tenants' questions are put to it.
    pub suspend_after: u32,
    /// How many running machines an answer may remove.
    pub brake: Brake,
    /// What shadows may cost.
    pub shadows: ShadowOptions,
    /// The bounds of the decision log.
    pub decision_log: DecisionLogOptions,
    /// How often [`Host::watch`] looks at the files. Default 500 ms. Polling, because a Kubernetes ConfigMap changes by
    /// swapping a symbolic link above the file, which file notifications miss.
    pub watch_interval: Duration,
    /// Who fetches policies from registries. Default: nobody.
    pub registries: Option<Arc<dyn Fetch>>,
    /// Which program this is: a policy for a slot that it never asks is refused. Absent: any slot may be asked.
    pub asker: Option<Asker>,
    /// Who compiles components that are not this host's own. Default: nobody, so that only rules and built-in policies
    /// are loaded; those are then compiled by this process, whose memory grows by some 25 MB for good.
    pub compiler: Option<Compiler>,
}

impl HostOptions {
    /// The defaults, with this state folder.
    pub fn new(state_dir: Dir) -> HostOptions {
        HostOptions {
            state_dir,
            cache_dir: None,
            lending_dir: None,
            is_trial: false,
            policy_folder: PathBuf::from("."),
            capabilities: Vec::new(),
            limits: ClassLimits::default(),
            suspend_after: 5,
            brake: Brake::default(),
            shadows: ShadowOptions::default(),
            decision_log: DecisionLogOptions::default(),
            watch_interval: Duration::from_millis(500),
            registries: None,
            asker: None,
            compiler: None,
        }
    }

    /// The same with one more capability.
    pub fn with_capability(mut self, capability: Arc<dyn Capability>) -> HostOptions {
        self.capabilities.push(capability);
        self
    }
}

/// Holds the policies of every slot. Cheap to clone; all clones are one host.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
    /// The account whose questions this handle puts. Absent: the host's own.
    capabilities: Option<Arc<[Arc<dyn Capability>]>>,
}

struct Inner {
    /// Says how the others are doing, so it ends before them.
    _status: StatusWriter,
    loader: Loader,
    kept: Kept,
    limits: ClassLimits,
    policy_folder: PathBuf,
    registries: Option<Arc<dyn Fetch>>,
    asker: Option<Asker>,
    watch_interval: Duration,
    state_dir: Dir,
    built_ins: BuiltIns,
    /// Held while policies are loaded, which may take minutes. Whoever only looks waits for nobody.
    loading: Mutex<()>,
    /// Never locked by a decision, nor while policies are loaded.
    generations: Arc<Generations<Configured, Generation>>,
    scopes: Arc<Scopes>,
    deciding: Arc<Deciding>,
    /// Policies that were loaded for operations of an earlier process.
    restored: Mutex<Vec<Weak<LoadedPolicy>>>,
    /// For warnings about those that could not be.
    unrestored: LineRoom,
}

/// The default of each slot that has one.
type BuiltIns = [Option<Arc<LoadedPolicy>>; SlotName::ALL.len()];

#[derive(Default)]
struct Configured {
    slots: [Vec<ConfiguredLink>; SlotName::ALL.len()],
    trust: Option<Arc<Trust>>,
    labels: Arc<[String]>,
    /// When the built-in defaults were put in place.
    since_ms: u64,
}

/// A configured link and how it is doing.
#[derive(Clone)]
struct ConfiguredLink {
    link: Link,
    policy: Arc<LoadedPolicy>,
    stamp: Option<FileStamp>,
    /// How the file was at the last look, where it is not what is loaded: it may be being written.
    unsettled: Option<FileStamp>,
    loaded_at_ms: u64,
    /// Why the newest file isn't in use, and since when.
    refused: Option<(String, u64)>,
}

impl ConfiguredLink {
    /// The same, of which the signer is not trusted any more.
    fn revoked(&self, error: &Error) -> ConfiguredLink {
        ConfiguredLink {
            link: self.link.clone(),
            policy: self.policy.clone(),
            stamp: None,
            unsettled: None,
            loaded_at_ms: self.loaded_at_ms,
            refused: Some((error.to_string(), now_ms())),
        }
    }
}

/// A link that was loaded, and what is kept of it.
struct Loaded {
    link: ConfiguredLink,
    effective: Link,
    /// The labels by whose names rules ask.
    label_names: Vec<String>,
    component: Arc<[u8]>,
}

impl Loaded {
    /// Warns of rules that never answer, of those that could not be tried, and of labels that no question has: a rule
    /// about one never applies.
    fn warn(&self, labels: &[String]) {
        let policy = &self.link.policy;
        for remark in &policy.remarks {
            tracing::warn!(policy = %policy.identity, remark, "a rule never answers");
        }
        if let Some(reason) = &policy.failed_example {
            tracing::warn!(policy = %policy.identity, reason, "its rules failed with the slot's example question");
        }
        for name in self.label_names.iter().filter(|name| !labels.contains(name)) {
            let policy = &self.link.policy.identity;
            tracing::warn!(%policy, "its rules ask for the label `{name}`, which no question has: name it in `labels` of \
                [policies]");
        }
    }

    /// Keeps it for the operations that begin under it. No operation ends under a shadow.
    fn keep_in(&self, kept: &Kept) -> Result<(), Error> {
        match self.link.link.mode {
            Mode::Decide => {
                let policy = &self.link.policy;
                kept.keep(&policy.identity, &self.effective, &self.component, policy.signed_by)
            }
            Mode::Shadow => Ok(()),
        }
    }
}

/// What tells that a file has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<cap_std::time::SystemTime>,
    changed: (i64, i64),
    bytes: u64,
    inode: u64,
}

/// A policy's file, and those of its signatures that are there: a new signature is a reason to look again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    contents: Stamp,
    signatures: [Option<Stamp>; SignatureFile::ALL.len()],
}

/// What an object brings beside its policy.
struct Brought {
    signatures: Vec<Signature>,
    origin: PolicyOrigin,
}

/// What a source held.
struct Contents {
    bytes: Arc<[u8]>,
    are_rules: bool,
    signatures: Vec<Signature>,
    stamp: Option<FileStamp>,
}

/// The bytes of what shadows answered.
const SHADOWS_BYTES: u64 = 16 << 20;

/// What a reload did.
#[derive(Debug, Default)]
pub struct Reload {
    /// Policies that are new.
    pub swapped: Vec<PolicyIdentity>,
    /// Why files could not be used. The last good policy of each stays.
    pub errors: Vec<Error>,
}

impl Host {
    /// Makes a host with the built-in defaults.
    ///
    /// # Errors
    /// The engine, a thread, the state folder, or a built-in default (a defect of this build) failed.
    pub fn new(options: HostOptions) -> Result<Host, Error> {
        let process = rand::rng().next_u32();
        let of_shadows = DecisionLogOptions { total_bytes: SHADOWS_BYTES, ..options.decision_log.clone() };
        let of_shadows = Arc::new(DecisionLog::open(&options.state_dir, decision_log::SHADOWS, process, of_shadows)?);
        let log = DecisionLog::open(&options.state_dir, decision_log::FOLDER, process, options.decision_log)?;
        let log = Arc::new(log);
        let status_signal = Arc::<StatusSignal>::default();
        let deciding = Arc::new(Deciding {
            shadows: Shadows::new(options.shadows, of_shadows, status_signal.clone()),
            log,
            ids: DecisionIds::new(process),
            waiting: Semaphore::new(CONCURRENT_WAITING_DECISIONS),
            shares: Shares::new(),
            lost_room: LineRoom::default(),
            status: status_signal,
            brake: options.brake,
        });
        let cache_dir = options.cache_dir.as_ref().unwrap_or(&options.state_dir);
        let compiler = match options.compiler {
            Some(compiler) => {
                let failed = |source| Error::StateFolder { what: "hold on to the folder".into(), source };
                Some((compiler, cache_dir.try_clone().map_err(failed)?))
            }
            None => None,
        };
        let cache = Cache::open(cache_dir)?;
        let loader = Loader {
            engines: Engines::new()?,
            cache: match &options.lending_dir {
                Some(lending) => cache.borrowing(lending),
                None => cache,
            },
            capabilities: options.capabilities,
            suspend_after: options.suspend_after,
            compiler,
        };
        let kept = Kept::open(&options.state_dir)?;
        let built_ins = load_built_ins(&loader, &kept, &options.limits)?;
        let configured = Configured { since_ms: now_ms(), ..Configured::default() };
        let generation = generation_of(&configured, &built_ins);
        let generations = Arc::new(Generations::new(configured, generation));
        let scopes = Arc::<Scopes>::default();
        let reported = (generations.clone(), scopes.clone(), deciding.clone());
        let tell = move || status(&reported.0, &reported.1, &reported.2);
        let inner = Inner {
            _status: StatusWriter::start(&options.state_dir, process, options.is_trial, deciding.status.clone(), tell)?,
            loader,
            kept,
            limits: options.limits,
            policy_folder: options.policy_folder,
            registries: options.registries,
            asker: options.asker,
            watch_interval: options.watch_interval,
            state_dir: options.state_dir,
            built_ins,
            loading: Mutex::default(),
            generations,
            scopes,
            deciding,
            restored: Mutex::default(),
            unrestored: LineRoom::default(),
        };
        Ok(Host { inner: Arc::new(inner), capabilities: None })
    }

    /// This host for the questions about another account: what policies were granted, they are granted of these
    /// capabilities, with the same arguments, and the host's own are not called. A capability that is not among these
    /// refuses every call.
    #[must_use]
    pub fn with_capabilities(&self, capabilities: Vec<Arc<dyn Capability>>) -> Host {
        Host { inner: self.inner.clone(), capabilities: Some(capabilities.into()) }
    }

    fn pinned_with(&self, generation: Arc<Generation>) -> PinnedPolicies {
        let (deciding, capabilities) = (self.inner.deciding.clone(), self.capabilities.clone());
        PinnedPolicies { generation, deciding, capabilities }
    }

    /// Puts other policies in place, all or none. What is unchanged stays as it is, with its suspension; pins that were
    /// handed out stay as they are. Takes some 100 ms for a policy that isn't in the cache: don't call it on a thread
    /// that decides.
    ///
    /// A policy in force whose signer is not trusted any more is suspended, and everything else put in place.
    ///
    /// # Errors
    /// Every other policy that can't be used, and why. Everything stays as it was.
    pub fn configure(&self, policies: &Policies) -> Result<(), Error> {
        policies.check().map_err(Error::Configuration)?;
        let _turn = self.inner.loading.lock();
        let (known, since_ms) = {
            let configured = self.inner.generations.lock();
            (configured.slots.clone(), configured.since_ms)
        };
        let (trust, labels) = (policies.trust().cloned(), policies.labels().into());
        let mut next = Configured { trust, labels, since_ms, ..Configured::default() };
        let (mut revoked, mut wrong) = (Vec::new(), Vec::new());
        for slot in SlotName::ALL {
            if !policies.chain(slot).is_empty()
                && let Err(error) = self.inner.check_asked(slot)
            {
                wrong.push(error);
                continue;
            }
            for link in policies.chain(slot) {
                let before = known[slot.index()].iter().find(|known| known.link == *link);
                let at = before.map(|known| (&known.policy, known.loaded_at_ms));
                match (self.inner.load_link(slot, link, at, next.trust.as_deref(), None), before) {
                    (Ok(loaded), _) => {
                        loaded.keep_in(&self.inner.kept)?;
                        loaded.warn(&next.labels);
                        loaded.link.policy.health.admit();
                        next.slots[slot.index()].push(loaded.link);
                    }
                    // Refusing the whole configuration would leave what is not trusted any more in force.
                    (Err(error @ Error::Refused { refusal: Refusal::Untrusted(_), .. }), Some(known)) => {
                        revoked.push((known.policy.clone(), error.to_string()));
                        next.slots[slot.index()].push(known.revoked(&error));
                    }
                    (Err(error), _) => wrong.push(error),
                }
            }
        }
        match wrong.len() {
            0 => {}
            1 => return Err(wrong.remove(0)),
            _ => return Err(Error::Several(wrong)),
        }
        for (policy, why) in revoked {
            tracing::error!(policy = %policy.identity, why, "a policy is no longer trusted: it is suspended");
            policy.health.bar(&why);
        }
        let mut configured = self.inner.generations.lock();
        configured.swap(generation_of(&next, &self.inner.built_ins));
        *configured = next;
        drop(configured);
        self.inner.deciding.status.configured();
        Ok(())
    }

    /// Looks at every configured file and puts changed ones in place, each by itself. One that can't be used changes
    /// nothing: the last good one stays, and [`Host::status`] says why.
    pub fn reload(&self) -> Reload {
        self.inner.reload(false)
    }

    /// Reloads changed files by itself from now on, each when it has stayed as it is for one interval. Does so in a
    /// thread of its own, until the returned guard is dropped.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn watch(&self) -> Result<Watch, Error> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (host, interval, stopped) = (Arc::downgrade(&self.inner), self.inner.watch_interval, stop.clone());
        let watch = move || {
            let (stop, wake) = &*stopped;
            let mut stop = stop.lock();
            while !*stop {
                wake.wait_for(&mut stop, interval);
                if *stop {
                    return;
                }
                let Some(host) = host.upgrade() else { return };
                parking_lot::MutexGuard::unlocked(&mut stop, || {
                    host.reload(true);
                });
            }
        };
        std::thread::Builder::new().name("policy-watch".into()).spawn(watch).map_err(Error::Thread)?;
        Ok(Watch { stop })
    }

    /// The policies as they are now, for the operator's own questions. Cheap: a chain is made once.
    pub fn pin(&self) -> PinnedPolicies {
        self.pin_of(None)
    }

    /// The policies as they are now, for a tenant's questions; without one, for the operator's own.
    pub fn pin_of(&self, tenant: Option<&str>) -> PinnedPolicies {
        self.pinned_with(self.inner.scopes.generation(self.inner.generations.current(), tenant))
    }

    /// Loads a policy that an object brings, as a configured one: signed by who is trusted, and kept for the operations
    /// that begin under it. `before`: what the object brought last, which stays where it is the same.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn load_scoped(
        &self,
        slot: SlotName,
        link: &Link,
        signatures: Vec<Signature>,
        origin: PolicyOrigin,
        before: Option<&Arc<LoadedPolicy>>,
    ) -> Result<Arc<LoadedPolicy>, Error> {
        self.inner.check_asked(slot)?;
        let trust = self.inner.generations.current().trust.clone();
        let brought = Brought { signatures, origin };
        let before = before.map(|policy| (policy, 0));
        let loaded = self.inner.load_link(slot, link, before, trust.as_deref(), Some(brought))?;
        loaded.keep_in(&self.inner.kept)?;
        loaded.warn(&self.inner.generations.current().labels);
        Ok(loaded.link.policy)
    }

    /// How often the policies of objects were put in place.
    pub fn scoped_version(&self) -> u64 {
        self.inner.scopes.version()
    }

    /// Puts the policies that objects bring in place, all at once. Pins that were handed out stay as they are.
    pub fn set_scoped(&self, policies: ScopedPolicies) {
        self.inner.scopes.set(policies);
        self.inner.deciding.status.configured();
    }

    /// The subject of a question about something of this owner's, with what the operator lets through of these labels.
    pub fn subject<'a>(&self, owner: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Subject {
        let program = self.inner.asker.map_or(Program::Other, Asker::program);
        Subject { labels: self.labels(labels), ..Subject::of_owner(program, owner) }
    }

    /// What the operator lets policies see of these names and values, in the operator's order. Where a name is there
    /// twice, the first one counts.
    pub fn labels<'a>(&self, given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Label> {
        let wanted = self.inner.generations.current().labels.clone();
        let mut labels = vec![None; wanted.len()];
        for (name, value) in given {
            if let Some(position) = wanted.iter().position(|wanted| wanted == name) {
                labels[position].get_or_insert_with(|| Label::new(name, value));
            }
        }
        labels.into_iter().flatten().collect()
    }

    /// The policies with which an operation began, after a restart: those in use where they are the same, the rest from
    /// the state folder. One that can't be restored counts as failed in each decision, which says why, and the next
    /// link decides, at last this host's built-in default; [`PinnedPolicies::lost`] tells of those that are not there
    /// any more. A slot that isn't named has the built-in default.
    ///
    /// May compile, so don't call it on a thread that decides.
    pub fn pinned(&self, identities: &[PolicyIdentity]) -> PinnedPolicies {
        let mut generation = Generation::default();
        for slot in SlotName::ALL {
            let chain = &mut generation.chains[slot.index()];
            for identity in identities.iter().filter(|identity| identity.slot == slot) {
                chain.push(match self.inner.restore(identity) {
                    Ok(policy) => ChainLink::Policy(policy),
                    Err(unrestored) => {
                        // Who asks names what is to be restored, and may name anything.
                        if let Some(left_out) = self.inner.unrestored.take(Instant::now()) {
                            tracing::warn!(policy = %identity, ?unrestored, left_out, "an operation began with a policy \
                                that can't be restored");
                        }
                        match unrestored {
                            Unrestored::Untrusted(why) => ChainLink::Unavailable(identity.clone().into(), why.into()),
                            Unrestored::Lost(why) => ChainLink::Lost(identity.clone().into(), why.into()),
                        }
                    }
                });
            }
            end_chain(slot, chain, &self.inner.built_ins);
        }
        self.pinned_with(Arc::new(generation))
    }

    /// Loads a policy and tries it, without putting it in place: to check a file, to run it by hand, to replay against
    /// it. Nobody need have signed it.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn load(&self, slot: SlotName, link: &Link) -> Result<Arc<LoadedPolicy>, Error> {
        Ok(self.inner.load_link(slot, link, None, None, None)?.link.policy)
    }

    /// A chain of this policy and the built-in default; the other slots have their built-in defaults.
    pub fn pin_only(&self, policy: Arc<LoadedPolicy>) -> PinnedPolicies {
        let mut generation = Generation::default();
        generation.chains[policy.identity.slot.index()].push(ChainLink::Policy(policy));
        for slot in SlotName::ALL {
            end_chain(slot, &mut generation.chains[slot.index()], &self.inner.built_ins);
        }
        self.pinned_with(Arc::new(generation))
    }

    /// Removes kept policies that no open operation, of any process that shares the state folder, began with and that
    /// aren't in use here. One that was kept or reloaded within `grace` stays in any case, for processes that have
    /// configured it and not yet begun an operation; a day is a good value. Returns how many were removed.
    ///
    /// # Errors
    /// The state folder can't be read or written.
    pub fn retain_policies(&self, in_use: &[PolicyIdentity], grace: Duration) -> Result<usize, Error> {
        let mut all: HashSet<PolicyIdentity> = in_use.iter().cloned().collect();
        all.extend(self.inner.generations.current().policies().map(|policy| PolicyIdentity::clone(&policy.identity)));
        all.extend(self.inner.scopes.policies().loaded().map(|(policy, _)| PolicyIdentity::clone(&policy.identity)));
        all.extend(self.inner.built_ins.iter().flatten().map(|policy| PolicyIdentity::clone(&policy.identity)));
        self.inner
            .kept
            .retain(&all, grace)
            .map_err(|source| Error::StateFolder { what: "remove unused policies".into(), source })
    }

    /// How every link of every chain is doing. Waits for nobody who loads a policy.
    pub fn status(&self) -> HostStatus {
        status(&self.inner.generations, &self.inner.scopes, &self.inner.deciding)
    }

    /// Calls this with how the host is doing, soon and after each change, until it returns false. It is called on the
    /// thread that writes the [status](crate::running_hosts), and must not hold that up.
    pub fn follow_status(&self, told: impl Fn(&RunningHost) -> bool + Send + 'static) {
        self.inner.deciding.status.follow(Box::new(told));
    }

    /// Waits until all decisions up to now are written to the log, with what their shadows answered. Blocks for
    /// milliseconds, and until their shadows were asked, where they have any.
    pub fn flush_decisions(&self) {
        self.inner.deciding.shadows.flush();
        self.flush_records();
    }

    /// Waits until all decisions up to now are written to the log, without what their shadows answer. Blocks for
    /// milliseconds.
    pub fn flush_records(&self) {
        self.inner.deciding.log.flush();
    }

    /// The decision log of this host's state folder, with the decisions up to now.
    ///
    /// # Errors
    /// The folder can't be opened.
    pub fn decisions(&self) -> Result<DecisionReader, Error> {
        self.flush_decisions();
        DecisionReader::open(&self.inner.state_dir)
    }
}

/// Watches until it is dropped. See [`Host::watch`].
#[must_use = "watching ends when this is dropped"]
pub struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Not waited for: it may be loading a policy, and a process that was asked to stop must stop.
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
    }
}

impl Inner {
    /// Refuses a policy for a slot that this program never asks.
    fn check_asked(&self, slot: SlotName) -> Result<(), Error> {
        match self.asker {
            Some(asker) if !asker.slots().contains(&slot) => {
                Err(Error::Configuration(format!("policies.{slot}: {}", asker.never_asks(slot))))
            }
            _ => Ok(()),
        }
    }

    /// Loads a configured link, unless the policy that was there before is the same.
    fn load_link(
        &self,
        slot: SlotName,
        link: &Link,
        before: Option<(&Arc<LoadedPolicy>, u64)>,
        trust: Option<&Trust>,
        brought: Option<Brought>,
    ) -> Result<Loaded, Error> {
        let refused = |refusal| Error::Refused { slot, policy: link.source.clone(), refusal };
        let limits = |class: Class| {
            self.limits.of(class).with(&link.limits, "limits").map_err(|wrong| Error::Configuration(wrong.join("; ")))
        };
        // To which class it belongs is known when it has been read.
        let most = Class::ALL
            .into_iter()
            .map(|class| Ok(limits(class)?.component_bytes))
            .try_fold(0, |most, next| next.map(|next: u64| next.max(most)))?;
        let mut contents = self.read(slot, &link.source, most).map_err(refused)?;
        let origin = brought.map(|Brought { signatures, origin }| {
            contents.signatures.extend(signatures);
            origin
        });
        // Before anything looks into the bytes.
        let trust = trust.filter(|_| link.source != Source::BuiltIn);
        let signed_by = trust.map(|trust| trust.verify(&contents.bytes, &contents.signatures)).transpose();
        let signed_by = signed_by.map_err(|untrusted| refused(untrusted.into()))?.map(|signed_by| signed_by.key);
        let rules = contents.are_rules.then(|| rules_for(slot, link, &contents.bytes));
        let rules = rules.transpose().map_err(refused)?;
        let made = if rules.is_some() { Made::OfRules } else { Made::OfCode };
        // Rules are the settings of the component that evaluates them.
        let (component, effective) = match &rules {
            Some(rules) => (built_in::rules().into(), Link { settings: rules.settings().clone(), ..link.clone() }),
            None => (contents.bytes, link.clone()),
        };
        let limits = limits(Class::of(&component))?;
        let digest = Digest::of(&component);
        let has_problems = rules.as_ref().is_some_and(RulesFile::has_problems);
        let same = before.filter(|(policy, _)| {
            !has_problems
                && policy.identity.slot == slot
                && policy.identity.component == digest
                && policy.link == effective
                && policy.limits == limits
                && policy.signed_by == signed_by
        });
        let (policy, loaded_at_ms) = match same {
            Some((policy, loaded_at_ms)) => (policy.clone(), loaded_at_ms),
            None => {
                let loaded = self.loader.load(slot, &effective, made, component.clone(), limits);
                let mut loaded = match (loaded, &rules) {
                    (Err(Refusal::Configure(words) | Refusal::Settings(words)), Some(rules)) => {
                        return Err(refused(Refusal::Rules(rules.explain(words.lines()))));
                    }
                    // The rest of the file has no mistakes, or could not be checked.
                    (_, Some(rules)) if has_problems => return Err(refused(Refusal::Rules(rules.explain([])))),
                    (loaded, _) => loaded.map_err(refused)?,
                };
                if let Some(rules) = &rules {
                    Arc::make_mut(&mut loaded.identity).name = link.source.rules_name();
                    loaded.remarks = rules.explain(loaded.remarks.iter().map(String::as_str));
                }
                self.bring(&mut loaded, origin);
                loaded.signed_by = signed_by;
                (Arc::new(loaded), now_ms())
            }
        };
        if let Some(trust) = trust {
            let checked = trust.check_version(&policy.identity.name, &policy.identity.version);
            checked.map_err(|untrusted| refused(untrusted.into()))?;
        }
        let (stamp, unsettled) = (contents.stamp, None);
        let link = ConfiguredLink { link: link.clone(), policy, stamp, unsettled, loaded_at_ms, refused: None };
        let label_names = rules.iter().flat_map(RulesFile::label_names).map(str::to_owned).collect();
        Ok(Loaded { link, effective, label_names, component })
    }

    fn read(&self, slot: SlotName, source: &Source, most: u64) -> Result<Contents, Refusal> {
        let unsigned = |bytes: Arc<[u8]>| Contents {
            bytes,
            are_rules: RulesFile::is_source(source),
            signatures: Vec::new(),
            stamp: None,
        };
        match source {
            Source::BuiltIn => built_in::component(slot).map(|bytes| unsigned(bytes.into())).ok_or(Refusal::NoBuiltIn),
            Source::Bytes(bytes) | Source::Rules { contents: bytes, .. } => Ok(unsigned(bytes.clone())),
            Source::Registry(reference) => {
                let registries = self.registries.as_ref().ok_or(windlass_distribution::Error::NoRegistries)?;
                let artifact = registries.fetch(reference, most)?;
                Ok(Contents {
                    bytes: artifact.contents,
                    are_rules: artifact.media_type == RULES_MEDIA_TYPE,
                    signatures: artifact.signatures,
                    stamp: None,
                })
            }
            Source::File(path) => {
                let (folder, name) = self.open_folder(path)?;
                // The stamp first: what changes while it is read is read again at the next look.
                let stamp = file_stamp(&folder, name)?;
                if stamp.contents.bytes > most {
                    return Err(Refusal::TooLarge { bytes: stamp.contents.bytes, limit: most });
                }
                let bytes = read_bounded(&folder, name, MAX_COMPONENT_BYTES)?.into();
                let mut signatures = Vec::new();
                for (kind, _) in
                    SignatureFile::ALL.into_iter().zip(stamp.signatures).filter(|(_, stamp)| stamp.is_some())
                {
                    let file = signature_of(name, kind);
                    signatures.push(kind.read(&read_bounded(&folder, file, kind.most_bytes())?));
                }
                Ok(Contents { signatures, stamp: Some(stamp), ..unsigned(bytes) })
            }
        }
    }

    /// Opens the folder of a file. From there on, symbolic links lead nowhere outside of it.
    fn open_folder<'p>(&self, path: &'p Path) -> std::io::Result<(Dir, &'p Path)> {
        let name = path.file_name().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path does not end in the name of a file")
        })?;
        let folder = self.policy_folder.join(path);
        let folder = folder.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((Dir::open_ambient_dir(folder, ambient_authority())?, Path::new(name)))
    }

    fn reload(&self, only_changed: bool) -> Reload {
        let mut outcome = Reload::default();
        let mut changed = false;
        let mut unsettled = false;
        let _turn = self.loading.lock();
        let (mut slots, trust, labels) = {
            let configured = self.generations.lock();
            (configured.slots.clone(), configured.trust.clone(), Arc::clone(&configured.labels))
        };
        for slot in SlotName::ALL {
            for known in &mut slots[slot.index()] {
                let Source::File(path) = &known.link.source else { continue };
                let now = self.open_folder(path).and_then(|(folder, name)| file_stamp(&folder, name)).ok();
                if only_changed && now == known.stamp {
                    continue;
                }
                // A file that is half copied may be valid: it counts when it stays as it is from one look to the next.
                if only_changed && now.is_some() && now != known.unsettled {
                    (known.unsettled, unsettled) = (now, true);
                    continue;
                }
                known.unsettled = None;
                changed = true;
                let before = Some((&known.policy, known.loaded_at_ms));
                let loaded = self.load_link(slot, &known.link, before, trust.as_deref(), None);
                match loaded.and_then(|loaded| loaded.keep_in(&self.kept).map(|()| loaded)) {
                    Ok(loaded) if Arc::ptr_eq(&loaded.link.policy, &known.policy) => {
                        known.policy.health.admit();
                        known.stamp = loaded.link.stamp;
                        known.refused = None;
                    }
                    Ok(loaded) => {
                        tracing::info!(%slot, old = %known.policy.identity, new = %loaded.link.policy.identity,
                            "a policy was replaced");
                        loaded.warn(&labels);
                        outcome.swapped.push(PolicyIdentity::clone(&loaded.link.policy.identity));
                        *known = loaded.link;
                    }
                    Err(error) => {
                        // Until the file changes once more there is no use in trying again.
                        known.stamp = now;
                        let text = error.to_string();
                        if known.refused.as_ref().is_none_or(|(known, _)| *known != text) {
                            tracing::warn!(%slot, %error, in_use = %known.policy.identity, "a policy can't be \
                                replaced; the last good one stays");
                        }
                        known.refused = Some((text, now_ms()));
                        outcome.errors.push(error);
                    }
                }
            }
        }
        if changed || unsettled {
            let mut configured = self.generations.lock();
            configured.slots = slots;
            if !outcome.swapped.is_empty() {
                configured.swap(generation_of(&configured, &self.built_ins));
            }
        }
        if changed {
            self.deciding.status.changed();
        }
        outcome
    }

    /// Notes which object brought a policy. An operator's is never suspended where tenants' questions are put to it:
    /// any tenant could have it suspended for all.
    fn bring(&self, policy: &mut LoadedPolicy, origin: Option<PolicyOrigin>) {
        let serves_tenants = self.asker == Some(Asker::Controller);
        if origin.as_ref().map_or(serves_tenants, |origin| origin.tenant.is_none()) {
            policy.health = Health::new(0);
        }
        Arc::make_mut(&mut policy.identity).origin = origin;
    }

    /// A policy by identity: from those in use, or from the state folder.
    fn restore(&self, identity: &PolicyIdentity) -> Result<Arc<LoadedPolicy>, Unrestored> {
        let built_ins = self.built_ins.iter().flatten();
        let scoped = self.scopes.policies();
        let configured = self.generations.current();
        let in_use = configured.policies().chain(built_ins).chain(scoped.loaded().map(|(policy, _)| policy));
        if let Some(policy) = in_use.into_iter().find(|policy| *policy.identity == *identity) {
            return Ok(policy.clone());
        }
        let mut restored = self.restored.lock();
        restored.retain(|policy| policy.strong_count() > 0);
        if let Some(policy) = restored.iter().filter_map(Weak::upgrade).find(|policy| *policy.identity == *identity) {
            return Ok(policy);
        }
        let trust = self.generations.current().trust.clone();
        let Restored { link, component, signed_by } = self.kept.read(identity, trust.as_deref())?;
        let limits = self.limits.of(Class::of(&component)).with(&link.limits, "limits");
        let limits = limits.map_err(|wrong| Unrestored::Lost(wrong.join("; ")))?;
        let made = if identity.are_rules() { Made::OfRules } else { Made::OfCode };
        let loaded = self.loader.load(identity.slot, &link, made, component, limits);
        let mut policy = loaded.map_err(|refusal| Unrestored::Lost(refusal.to_string()))?;
        self.bring(&mut policy, identity.origin.clone());
        policy.signed_by = signed_by;
        if identity.are_rules() {
            Arc::make_mut(&mut policy.identity).name = identity.name.clone();
        }
        if *policy.identity != *identity {
            return Err(Unrestored::Lost(format!("what is kept of it is {}, configured otherwise", policy.identity)));
        }
        let policy = Arc::new(policy);
        restored.push(Arc::downgrade(&policy));
        Ok(policy)
    }
}

/// The rules of a link.
fn rules_for(slot: SlotName, link: &Link, contents: &[u8]) -> Result<RulesFile, Refusal> {
    if !link.settings.is_empty() {
        return Err(Refusal::Settings(
            "a file of rules takes no settings: remove `settings`, and change the rules in the file".into(),
        ));
    }
    let rules = RulesFile::read_all(contents).map_err(Refusal::Rules)?;
    rules.check_slot(slot).map_err(|problem| Refusal::Rules(vec![problem]))?;
    Ok(rules)
}

fn status(generations: &Generations<Configured, Generation>, scopes: &Scopes, deciding: &Deciding) -> HostStatus {
    let scoped = scopes.policies();
    let configured = generations.lock();
    let current = generations.current();
    let mut links = Vec::new();
    for slot in SlotName::ALL {
        let known = &configured.slots[slot.index()];
        for (position, link) in known.iter().enumerate() {
            let mut status = link_status(&link.policy, position, link.loaded_at_ms);
            if let Some((error, at_ms)) = &link.refused {
                (status.error, status.refused_at_ms) = (Some(error.clone()), Some(*at_ms));
            }
            links.push(status);
        }
        let deciding = known.iter().filter(|link| link.link.mode == Mode::Decide).count();
        // What ends the chain without being configured.
        for link in current.chain(slot).iter().skip(deciding) {
            let ChainLink::Policy(policy) = link else { continue };
            links.push(link_status(policy, known.len(), configured.since_ms));
        }
    }
    for (policy, mode) in scoped.loaded() {
        let origin = policy.identity.origin.as_ref().map(|origin| format!("the object {origin}"));
        let position = links.iter().filter(|link| link.slot == policy.identity.slot).count();
        let link = link_status(policy, position, 0);
        links.push(LinkStatus { mode, source: origin.unwrap_or(link.source), ..link });
    }
    let log = &deciding.log;
    HostStatus { links, lost_records: log.lost_in_all(), dropped_records: log.dropped_in_all() }
}

fn link_status(policy: &LoadedPolicy, position: usize, loaded_at_ms: u64) -> LinkStatus {
    LinkStatus {
        slot: policy.identity.slot,
        position,
        mode: policy.link.mode,
        policy: PolicyIdentity::clone(&policy.identity),
        summary: policy.description.summary.clone(),
        source: policy.link.source.to_string(),
        loaded_at_ms,
        suspended: policy.is_suspended(),
        failures_in_a_row: policy.health.failures_in_a_row(),
        last_failure: policy.health.last_failure(),
        error: None,
        refused_at_ms: None,
    }
}

/// The generation of these links, each chain ended by the built-in default.
fn generation_of(configured: &Configured, built_ins: &BuiltIns) -> Generation {
    let mut generation =
        Generation { trust: configured.trust.clone(), labels: configured.labels.clone(), ..Generation::default() };
    for slot in SlotName::ALL {
        let chain = &mut generation.chains[slot.index()];
        for link in &configured.slots[slot.index()] {
            let policy = link.policy.clone();
            match link.link.mode {
                Mode::Decide => chain.push(ChainLink::Policy(policy)),
                Mode::Shadow => generation.shadows[slot.index()].push(Shadow { before: chain.len(), policy }),
            }
        }
        end_chain(slot, chain, built_ins);
    }
    generation
}

fn end_chain(slot: SlotName, chain: &mut Vec<ChainLink>, built_ins: &BuiltIns) {
    let Some(built_in) = &built_ins[slot.index()] else { return };
    let ended = matches!(chain.last(), Some(ChainLink::Policy(last)) if last.identity == built_in.identity);
    if !ended {
        chain.push(ChainLink::Policy(built_in.clone()));
    }
}

/// Loads the built-in defaults, side by side: on a first start each has to be compiled.
fn load_built_ins(loader: &Loader, kept: &Kept, limits: &ClassLimits) -> Result<BuiltIns, Error> {
    let load = |slot: SlotName| -> Result<Option<Arc<LoadedPolicy>>, Error> {
        let Some(component) = built_in::component(slot) else { return Ok(None) };
        let link = Link::default();
        let policy = loader
            .load(slot, &link, Made::OfCode, component.into(), limits.small.clone())
            .map_err(|refusal| Error::Refused { slot, policy: Source::BuiltIn, refusal })?;
        // Kept as well: after an upgrade, an operation that began before ends under the default that it began with.
        kept.keep(&policy.identity, &link, component, None)?;
        Ok(Some(Arc::new(policy)))
    };
    let mut loaded = std::thread::scope(|scope| {
        let threads = SlotName::ALL.map(|slot| scope.spawn(move || load(slot)));
        threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let mut built_ins = [const { None }; SlotName::ALL.len()];
    for (place, loaded) in built_ins.iter_mut().zip(&mut loaded) {
        *place = std::mem::replace(loaded, Ok(None))?;
    }
    Ok(built_ins)
}

fn signature_of(name: &Path, kind: SignatureFile) -> PathBuf {
    let mut signature = name.as_os_str().to_owned();
    signature.push(kind.suffix());
    signature.into()
}

fn file_stamp(folder: &Dir, name: &Path) -> std::io::Result<FileStamp> {
    let signatures = SignatureFile::ALL.map(|kind| stamp(folder, &signature_of(name, kind)).ok());
    Ok(FileStamp { contents: stamp(folder, name)?, signatures })
}

fn stamp(folder: &Dir, name: &Path) -> std::io::Result<Stamp> {
    let metadata = folder.metadata(name)?;
    Ok(Stamp {
        modified: metadata.modified().ok(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
        bytes: metadata.len(),
        inode: metadata.ino(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> String {
        format!("[[rules]]\nname = \"{name}\"\nwhen = \"step == '{name}'\"\nanswer = \"give-up\"\n\n")
    }

    #[test]
    fn a_file_that_is_being_written_is_not_loaded_before_it_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let mut options = HostOptions::new(state);
        options.policy_folder = folder.path().into();
        let host = Host::new(options).unwrap();
        let write = |rules: &[&str]| {
            let rules: String = rules.iter().map(|name| rule(name)).collect();
            std::fs::write(folder.path().join("the.rules.toml"), format!("slot = \"retry\"\n\n{rules}")).unwrap();
        };
        let rules = || {
            let pin = host.pin();
            let first = pin.generation.policies().find(|policy| policy.identity.slot == SlotName::Retry);
            first.map_or(0, |policy| crate::rules::names_in(policy.settings()).len())
        };
        write(&["a"]);
        host.configure(&Policies::built_in().with(SlotName::Retry, Link::file("the.rules.toml"))).unwrap();
        assert_eq!(rules(), 1);

        // A copy that takes longer than a look, with whole rules at each.
        for copied in [&["a", "b"][..], &["a", "b", "c"]] {
            write(copied);
            assert!(host.inner.reload(true).swapped.is_empty() && rules() == 1, "{copied:?}");
        }
        write(&["a", "b", "c", "d"]);
        assert!(host.inner.reload(true).swapped.is_empty());
        assert_eq!((host.inner.reload(true).swapped.len(), rules()), (1, 4));
        assert!(host.inner.reload(true).swapped.is_empty());

        // An explicit reload takes the file as it is.
        write(&["a"]);
        assert_eq!((host.reload().swapped.len(), rules()), (1, 1));
        std::fs::remove_file(folder.path().join("the.rules.toml")).unwrap();
        assert_eq!((host.inner.reload(true).errors.len(), rules()), (1, 1), "the last good one stays");
    }
}
