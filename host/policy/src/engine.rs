//! Every knob of wasmtime that this host sets, and why. Measurements: wasmtime 48.0.8, x86-64.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use wasmparser::WasmFeatures;
use wasmtime::{
    Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    RegallocAlgorithm,
};

use crate::class::{Class, SMALL, Structure};
use crate::error::Error;
use crate::limits::MAX_MEMORY_BYTES;

/// How often the clock ticks by which guests are stopped: the resolution of the time limits.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// A guest's stack, in bytes. wasmtime's default; a decision needs a few KiB of it.
const STACK_BYTES: usize = 512 << 10;

/// How much stack a thread that decides must have left, in bytes: a guest may use 512 KiB of it, whatever it means to,
/// and the engine and the log need some below that. Threads of std and of tokio have 2 MiB. A policy that was granted a
/// capability runs on a stack of its own.
pub const DECISION_STACK_BYTES: usize = 2 * STACK_BYTES;

/// The stack on which a policy runs that may wait for a capability: the guest's, and as much again and more for the
/// host functions that it calls. Reserved, and touched only as far as it is used.
const FIBER_STACK_BYTES: usize = 2 << 20;

/// Instances of small policies that can exist at once. A decision without I/O holds one for microseconds, so this is
/// about decisions that wait for a capability (see [`CONCURRENT_WAITING_DECISIONS`]) plus one for each thread.
const INSTANCES: u32 = 256;

/// Decisions that may wait for capabilities at once; more of them queue. Below [`INSTANCES`], so that waiting decisions
/// never take the last instance from those that don't wait.
pub(crate) const CONCURRENT_WAITING_DECISIONS: usize = 192;

/// Memory of a slot that is reset by copying when an instance goes, rather than given back by a system call. Guests
/// start with one or two pages, so this is their whole memory: 3.3 µs for a fresh instance instead of 9.
const KEEP_RESIDENT_BYTES: usize = 1 << 20;

/// Slots that stay warm for a policy when they aren't in use. Each can hold [`KEEP_RESIDENT_BYTES`].
const WARM_SLOTS: u32 = 16;

/// The size of an instance's own data structures. Policies need a few KiB.
const INSTANCE_BYTES: usize = 1 << 20;

/// Instances of scripts that can exist at once. Fewer: each has ten times the memory, and takes a thousand times as
/// long.
const SCRIPT_INSTANCES: u32 = 224;

/// Memory of a script that is reset by copying. A script's memory is megabytes, of which a decision touches some
/// hundred pages: the kernel is asked which, and only these are copied.
const SCRIPT_KEEP_RESIDENT_BYTES: usize = MAX_MEMORY_BYTES as usize;

/// Slots that stay warm for a script when they aren't in use.
const SCRIPT_WARM_SLOTS: u32 = 4;

/// What a script is made of at most: CPython comes as 38 core modules, stubbed QuickJS with three memories.
const SCRIPT: Structure =
    Structure { core_instances: 64, memories: 4, tables: 8, table_elements: 50_000, memory_bytes: MAX_MEMORY_BYTES };

/// What a memory gets ahead of its need, in bytes, when it grows without a reservation: each growth copies it.
const GROWTH_BYTES: u64 = 1 << 20;

/// What [`config`] leaves switched on: WebAssembly 2.0, and constants that are computed. A file is held to it before
/// the engine sees it, so that it is refused for what it uses.
pub(crate) fn features(class: Class) -> WasmFeatures {
    let both = WasmFeatures::WASM2.union(WasmFeatures::EXTENDED_CONST).union(WasmFeatures::COMPONENT_MODEL);
    match class {
        Class::Small => both,
        // QuickJS is compiled to tail calls.
        Class::Script => both.union(WasmFeatures::TAIL_CALL),
    }
}

/// The limit on the address space of this process (`ulimit -v`, systemd's `LimitAS=`), in bytes.
///
/// With one, a [`Host`](crate::Host) allocates the memory of a policy for each decision, since a pool would reserve
/// more than a terabyte. Decisions are the same, and slower.
#[must_use]
pub fn address_space_limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Where instances get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allocation {
    /// From a pool. It reserves address space for all instances at once: 4 GiB and guard pages for each memory.
    Pooled,
    /// From the system, for each instance, and no more than it uses. Loads and stores are checked by instructions.
    OnDemand,
}

/// What an engine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) class: Class,
    /// Whether it counts fuel.
    pub(crate) fuel: bool,
}

impl Purpose {
    const ALL: [Purpose; 4] = [
        Purpose { class: Class::Small, fuel: false },
        Purpose { class: Class::Small, fuel: true },
        Purpose { class: Class::Script, fuel: false },
        Purpose { class: Class::Script, fuel: true },
    ];
}

/// The engine of small policies, and others, each made when it is first asked for: most hosts never need them.
pub(crate) struct Engines {
    engines: [OnceLock<Engine>; Purpose::ALL.len()],
    /// For what a policy does once only, in `configure`: for small ones, and for scripts.
    quick: [OnceLock<Engine>; 2],
    allocation: Allocation,
    /// Held while one is made, so that none is made twice.
    making: parking_lot::Mutex<()>,
    /// Every policy that was loaded holds it, too: whoever can ask one must be able to end it.
    pub(crate) ticker: Arc<Ticker>,
}

impl Engines {
    pub(crate) fn new() -> Result<Engines, Error> {
        // A pool could be had below a high limit, too, and would leave nothing to the rest of the process.
        let allocation = match address_space_limit() {
            None => Allocation::Pooled,
            Some(bytes) => {
                tracing::warn!(
                    limit_bytes = bytes,
                    "the address space of this process is limited: each decision allocates its policy's memory, \
                        which is slower; remove the limit with `ulimit -v unlimited`, in a systemd unit with \
                        LimitAS=infinity"
                );
                Allocation::OnDemand
            }
        };
        let engines = Engines {
            engines: [const { OnceLock::new() }; Purpose::ALL.len()],
            quick: [const { OnceLock::new() }; 2],
            allocation,
            making: parking_lot::Mutex::new(()),
            ticker: Ticker::start()?,
        };
        // Every host needs it, and is to say at once where it can't be had.
        engines.get(Purpose { class: Class::Small, fuel: false })?;
        Ok(engines)
    }

    /// The engine for policies of this class, with or without fuel.
    pub(crate) fn get(&self, purpose: Purpose) -> Result<&Engine, Error> {
        let index = 2 * usize::from(purpose.class == Class::Script) + usize::from(purpose.fuel);
        self.get_or_make(&self.engines[index], || new_engine(purpose, self.allocation))
    }

    /// The engine in which a policy takes its settings. A policy is compiled for that alone, before its snapshot is
    /// compiled for deciding: quickly, therefore, and not well. Fuel is not counted there.
    pub(crate) fn configuring(&self, class: Class) -> Result<&Engine, Error> {
        let quick = || Engine::new(&quick_config(class, self.allocation)).map_err(Error::Engine);
        self.get_or_make(&self.quick[usize::from(class == Class::Script)], quick)
    }

    fn get_or_make<'e>(
        &self,
        place: &'e OnceLock<Engine>,
        make: impl FnOnce() -> Result<Engine, Error>,
    ) -> Result<&'e Engine, Error> {
        if let Some(engine) = place.get() {
            return Ok(engine);
        }
        let _making = self.making.lock();
        if let Some(engine) = place.get() {
            return Ok(engine);
        }
        let engine = make()?;
        self.ticker.add(&engine);
        Ok(place.get_or_init(|| engine))
    }
}

fn new_engine(purpose: Purpose, allocation: Allocation) -> Result<Engine, Error> {
    let made = Engine::new(&config(purpose, allocation));
    match (made, allocation) {
        (Ok(engine), _) => Ok(engine),
        // Some sandboxes and emulators have little address space, and set no limit.
        (Err(error), Allocation::Pooled) => {
            tracing::warn!(
                error = %format!("{error:#}"),
                "no address space for a pool: each decision allocates its policy's memory, which is slower"
            );
            Engine::new(&config(purpose, Allocation::OnDemand)).map_err(Error::Engine)
        }
        (Err(error), Allocation::OnDemand) => Err(Error::Engine(error)),
    }
}

fn quick_config(class: Class, allocation: Allocation) -> Config {
    let mut config = config(Purpose { class, fuel: false }, allocation);
    compile_quickly(&mut config);
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    config
}

fn compile_quickly(config: &mut Config) {
    config.cranelift_opt_level(OptLevel::None);
    config.cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
}

fn config(purpose: Purpose, allocation: Allocation) -> Config {
    let Purpose { class, fuel } = purpose;
    let mut config = Config::new();

    // Calls: nothing here uses the component model's own concurrency, and without it a call costs 240 ns instead of
    // 917.
    config.concurrency_support(false);
    // Time limits. Epochs cost nothing measurable; fuel is deterministic and costs some 10 % in loops.
    config.epoch_interruption(true);
    config.consume_fuel(fuel);
    config.max_wasm_stack(STACK_BYTES);
    config.async_stack_size(FIBER_STACK_BYTES);

    // Determinism: the same question gets the same answer on every machine, so NaNs have one bit pattern.
    config.cranelift_nan_canonicalization(true);
    config.relaxed_simd_deterministic(true);

    // Proposals that no policy needs are less to get wrong. What Rust's wasm32 target emits by default stays: mutable
    // globals, sign extension, bulk memory, reference types, multi-value, saturating conversions, SIMD.
    config.wasm_relaxed_simd(false);
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config.wasm_tail_call(class == Class::Script);
    config.wasm_custom_page_sizes(false);
    config.wasm_wide_arithmetic(false);
    config.shared_memory(false);

    // Compiling: off the hot path, so it may take its time. Address maps and unwind tables serve wasm backtraces and
    // native profilers; policies are stripped, and both cost memory for each one loaded.
    config.cranelift_opt_level(OptLevel::Speed);
    config.cranelift_regalloc_algorithm(RegallocAlgorithm::Backtracking);
    // The compiler of a development build is slow itself, and tests load more policies than they ask.
    if cfg!(debug_assertions) {
        compile_quickly(&mut config);
    }
    config.parallel_compilation(true);
    config.generate_address_map(false);
    config.native_unwind_info(false);
    config.wasm_backtrace_max_frames(None);

    // Instances: from a pool, so that a fresh one for each decision costs about 3 µs.
    config.memory_init_cow(true);
    config.table_lazy_init(true);
    if class == Class::Script {
        // Above this size an image with holes would not be shared, and each instance would copy it.
        config.memory_guaranteed_dense_image_size(MAX_MEMORY_BYTES);
    }
    if allocation == Allocation::OnDemand {
        config.memory_reservation(0);
        config.memory_guard_size(0);
        config.memory_reservation_for_growth(GROWTH_BYTES);
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        return config;
    }
    let per_component = |most: u64| u32::try_from(most).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.max_memories_per_module(1)
        .max_memory_size(usize::try_from(MAX_MEMORY_BYTES).unwrap_or(usize::MAX))
        .async_stack_keep_resident(0);
    let (instances, core_instances, most) = match class {
        Class::Small => {
            pool.max_component_instance_size(INSTANCE_BYTES)
                .max_core_instance_size(INSTANCE_BYTES)
                .max_tables_per_module(2)
                .max_unused_warm_slots(WARM_SLOTS)
                .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
                .table_keep_resident(KEEP_RESIDENT_BYTES)
                .pagemap_scan(Enabled::No);
            (INSTANCES, INSTANCES * per_component(SMALL.core_instances) / 2, SMALL)
        }
        Class::Script => {
            pool.max_component_instance_size(4 * INSTANCE_BYTES)
                .max_core_instance_size(4 * INSTANCE_BYTES)
                .max_tables_per_module(4)
                .max_unused_warm_slots(SCRIPT_WARM_SLOTS)
                .linear_memory_keep_resident(SCRIPT_KEEP_RESIDENT_BYTES)
                .table_keep_resident(KEEP_RESIDENT_BYTES)
                .pagemap_scan(Enabled::Auto);
            (SCRIPT_INSTANCES, SCRIPT_INSTANCES * 40, SCRIPT)
        }
    };
    pool.total_component_instances(instances)
        .total_core_instances(core_instances)
        .total_memories(instances)
        .total_tables(instances * 4)
        .total_stacks(instances)
        .max_core_instances_per_component(per_component(most.core_instances))
        .max_memories_per_component(per_component(most.memories))
        .max_tables_per_component(per_component(most.tables))
        .table_elements(usize::try_from(most.table_elements).unwrap_or(usize::MAX));
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// How many ticks a guest gets for so much time. One more than the division says, since the first may come at once.
pub(crate) fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).map_or(u64::MAX / 2, |ticks| ticks + 1)
}

/// A thread that advances the epoch of its engines, without which no guest is ever stopped. Ends when it is dropped.
pub(crate) struct Ticker {
    engines: Arc<parking_lot::Mutex<Vec<EngineWeak>>>,
}

impl Ticker {
    fn start() -> Result<Arc<Ticker>, Error> {
        let engines = Arc::new(parking_lot::Mutex::new(Vec::<EngineWeak>::new()));
        let weak = Arc::downgrade(&engines);
        let tick = move || {
            while let Some(engines) = weak.upgrade() {
                for engine in engines.lock().iter().filter_map(EngineWeak::upgrade) {
                    engine.increment_epoch();
                }
                drop(engines);
                thread::sleep(TICK);
            }
        };
        thread::Builder::new().name("policy-ticker".into()).spawn(tick).map_err(Error::Thread)?;
        Ok(Arc::new(Ticker { engines }))
    }

    fn add(&self, engine: &Engine) {
        self.engines.lock().push(engine.weak());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_can_be_made_with_and_without_a_pool() {
        for allocation in [Allocation::Pooled, Allocation::OnDemand] {
            for purpose in Purpose::ALL {
                Engine::new(&config(purpose, allocation)).unwrap();
            }
            for class in [Class::Small, Class::Script] {
                Engine::new(&quick_config(class, allocation)).unwrap();
            }
        }
    }

    #[test]
    fn a_time_limit_is_never_shorter_than_it_says() {
        for (ms, expected) in [(1, 2), (10, 2), (11, 3), (500, 51)] {
            assert_eq!(ticks(Duration::from_millis(ms)), expected, "{ms} ms");
        }
    }
}
