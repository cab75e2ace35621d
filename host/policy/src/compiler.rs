//! Compiling in a process of its own. The code generator needs some 25 MB while it works, which the allocator doesn't
//! give back; a process that runs for months and compiles for half a second should not keep them.
//!
//! The child gets the state folder as its current folder and one request on standard input; it puts what it compiled
//! into the cache, under the cache's key, and ends. The host then reads the cache as if the entry had always been
//! there: nothing is trusted that would not be trusted otherwise. Why it refuses a policy it writes on standard output.
//! Where it takes too long, or a signal ends it (as when it takes more memory than it may), the policy is refused: the
//! same bytes would do the same to the host. Where it can't be started, or fails for a reason of its own, the host
//! compiles its own components for itself, and no others. A child ends with its host.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cache::{Cache, CacheKey};
use crate::class::Class;
use crate::engine::{Engines, Purpose};
use crate::error::{Error, Refusal};
use crate::limits::{Limits, MAX_COMPONENT_BYTES};
use crate::load::snapshot::compile;

/// How long a child may take. One policy takes a few hundred milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a script, whose interpreter is megabytes of code: 10 to 20 s on two idle cores.
const PATIENCE_WITH_SCRIPTS: Duration = Duration::from_secs(300);
/// How much memory a child may have. A policy takes some 50 MB, a script one to two GB.
const MEMORY: u64 = 1 << 30;
const MEMORY_WITH_SCRIPTS: u64 = 6 << 30;
/// The most bytes of a refusal.
const MAX_REFUSAL_BYTES: u64 = 16 << 10;
/// How often it is looked whether a child has ended.
const LOOK: Duration = Duration::from_millis(2);
/// The longest first line of a request, in bytes: the settings are bounded below that.
const MAX_HEAD_BYTES: u64 = 256 << 10;

/// Who compiles components that are not this host's own.
#[derive(Clone, Debug)]
pub struct Compiler(pub(crate) CompileIn);

#[derive(Clone, Debug)]
pub(crate) enum CompileIn {
    Child(Program),
    ThisProcess,
}

/// A command that calls [`compile_for_host`] and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// How long a child may take, with a policy of each class.
    patience: fn(Class) -> Duration,
}

/// The first line on the child's standard input. The component follows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    settings: Map<String, Value>,
    limits: Limits,
}

/// What a child writes on standard output where it refuses a policy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Refused {
    /// [`Refusal::Configure`].
    Configure(String),
    /// [`Refusal::Settings`].
    Settings(String),
    /// Any other, in words.
    Other(String),
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Configure(words) => Refused::Configure(words.clone()),
            Refusal::Settings(words) => Refused::Settings(words.clone()),
            other => Refused::Other(other.to_string()),
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Configure(words) => Refusal::Configure(words),
            Refused::Settings(words) => Refusal::Settings(words),
            Refused::Other(words) => Refusal::Message(words),
        }
    }
}

/// Why a child compiled nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Standard input isn't what a host writes.
    #[error("standard input does not hold a request of a host: {0}")]
    Request(String),
    /// The engine, or the state folder.
    #[error(transparent)]
    Host(#[from] Error),
    /// The policy.
    #[error("the policy is refused: {0}")]
    Refused(#[from] Refusal),
}

/// Why a child put nothing into the cache, as the host sees it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("compiling it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Signal 9 is how a system ends what takes too much memory, 6 how a process ends itself that gets none.
    #[error("the process that compiled it was ended by signal {0}, as happens if it needs too much memory")]
    Killed(i32),
    /// It refuses the policy.
    #[error("{0}")]
    Refused(Refusal),
    #[error("the compiling process ended with {0}")]
    Failed(ExitStatus),
    #[error("cannot run the compiling process: {0}")]
    Run(#[from] io::Error),
}

impl ChildError {
    /// Whether these bytes may have been too much for the child, and would be for any other process.
    pub(crate) fn was_stopped(&self) -> bool {
        matches!(self, ChildError::TimedOut(_) | ChildError::Killed(_))
    }
}

fn patience(class: Class) -> Duration {
    match class {
        Class::Small => PATIENCE,
        Class::Script => PATIENCE_WITH_SCRIPTS,
    }
}

impl Compiler {
    /// A child for each component, with bounds on its time and memory: this program with these arguments, which must
    /// lead it to [`compile_for_host`] at once. It is the program that runs now, also when its file has been replaced
    /// since.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub fn this_program<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Compiler> {
        // What the kernel started, even if another file stands at its path by now: compiled code fits one version only.
        let program = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe()?,
        };
        let arguments = arguments.into_iter().map(Into::into).collect();
        Ok(Compiler(CompileIn::Child(Program { program, arguments, patience })))
    }

    /// This process, without bounds: a component that is made for it takes minutes and gigabytes. For components that
    /// are trusted as the program itself is.
    pub fn this_process() -> Compiler {
        Compiler(CompileIn::ThisProcess)
    }
}

impl Program {
    /// Lets a child put the compiled policy into the cache of this state folder.
    pub(crate) fn run(
        &self,
        state: &Dir,
        component: &[u8],
        settings: &Map<String, Value>,
        limits: &Limits,
    ) -> Result<(), ChildError> {
        let request = serde_json::to_vec(&Request { settings: settings.clone(), limits: limits.clone() });
        let mut request = request.map_err(io::Error::from)?;
        request.push(b'\n');
        // No variable of this process is the child's business, least of all credentials.
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .current_dir(format!("/proc/self/fd/{}", state.as_raw_fd()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take();
        std::thread::scope(|scope| {
            let written = scope.spawn(move || -> io::Result<()> {
                let mut input = input.ok_or(io::ErrorKind::BrokenPipe)?;
                input.write_all(&request)?;
                input.write_all(component)
            });
            let ended = self.wait(&mut child, (self.patience)(Class::of(component)));
            let ended = match (ended, child.stdout.take()) {
                (Err(ChildError::Failed(status)), Some(output)) => {
                    Err(refusal(output).unwrap_or(ChildError::Failed(status)))
                }
                (ended, _) => ended,
            };
            // With the child gone, nothing keeps the writer.
            let written = written.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")));
            ended.and(written.map_err(ChildError::from))
        })
    }

    /// Waits for the end of a child, and ends it where it takes too long.
    fn wait(&self, child: &mut Child, patience: Duration) -> Result<(), ChildError> {
        let latest = Instant::now() + patience;
        loop {
            if let Some(status) = child.try_wait()? {
                return match (status.success(), status.signal()) {
                    (true, _) => Ok(()),
                    (false, Some(signal)) => Err(ChildError::Killed(signal)),
                    (false, None) => Err(ChildError::Failed(status)),
                };
            }
            if Instant::now() >= latest {
                child.kill()?;
                child.wait()?;
                return Err(ChildError::TimedOut(patience));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Why a child refuses a policy, where it said so. What it writes fits into the pipe.
fn refusal(output: impl Read) -> Option<ChildError> {
    let mut json = Vec::new();
    output.take(MAX_REFUSAL_BYTES).read_to_end(&mut json).ok()?;
    serde_json::from_slice::<Refused>(&json).ok().map(|refused| ChildError::Refused(refused.into()))
}

/// What a process does that a host has started as its [`Compiler`]: reads one request from standard input, and puts the
/// compiled policy into the cache of the current folder, or writes on standard output why it refuses it. It ends when
/// its parent does, and takes no more memory than a policy needs.
///
/// # Errors
/// Why nothing was compiled.
pub fn compile_for_host() -> Result<(), CompileError> {
    let compiled = compile_for_parent();
    if let Err(CompileError::Refused(refusal)) = &compiled {
        let mut json = serde_json::to_vec(&Refused::from(refusal)).unwrap_or_default();
        json.truncate(MAX_REFUSAL_BYTES as usize);
        // The host finds the words by itself where it does not get them.
        let _ = io::stdout().write_all(&json);
    }
    compiled
}

fn compile_for_parent() -> Result<(), CompileError> {
    // Where the kernel has no such signal, the child ends by itself within its time.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let state = Dir::open_ambient_dir(".", ambient_authority())
        .map_err(|source| Error::StateFolder { what: "open the current folder".into(), source })?;
    compile_request(&state, io::stdin().lock())
}

fn compile_request(state: &Dir, mut input: impl Read) -> Result<(), CompileError> {
    let wrong = |problem: &dyn std::fmt::Display| CompileError::Request(problem.to_string());
    let mut bytes = Vec::new();
    let most = MAX_HEAD_BYTES + MAX_COMPONENT_BYTES;
    input.by_ref().take(most + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > most {
        return Err(wrong(&format!("more than {most} bytes")));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| wrong(&"no line"))?;
    let (head, component) = (&bytes[..end], &bytes[end + 1..]);
    let Request { settings, limits } = serde_json::from_slice(head).map_err(|error| wrong(&error))?;
    let engines = Engines::new()?;
    let purpose = Purpose { class: Class::of(component), fuel: limits.fuel.is_some() };
    // What the engines reserve for instances counts, too, and is no policy's doing.
    engines.get(purpose)?;
    engines.configuring(purpose.class)?;
    limit_memory(match purpose.class {
        Class::Small => MEMORY,
        Class::Script => MEMORY_WITH_SCRIPTS,
    });
    let cache = Cache::open(state)?;
    let compiled = compile(&engines, &cache, purpose, component, &settings, &limits)?;
    cache.put(engines.get(purpose)?, CacheKey::of(component, &settings), &compiled);
    Ok(())
}

/// Has the kernel refuse this process so much more memory than it has now.
fn limit_memory(more: u64) {
    let maximum = getrlimit(Resource::Data).maximum;
    let bytes = memory_now().saturating_add(more);
    let bytes = maximum.map_or(bytes, |maximum| bytes.min(maximum));
    if let Err(error) = setrlimit(Resource::Data, Rlimit { current: Some(bytes), maximum }) {
        tracing::warn!(%error, "the memory of the compiling process cannot be bounded");
    }
}

/// The bytes that count against the limit, as Linux says (`VmData` of proc_pid_status(5)).
fn memory_now() -> u64 {
    let status = Dir::open_ambient_dir("/proc/self", ambient_authority()).and_then(|it| it.read_to_string("status"));
    let status = status.unwrap_or_default();
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmData:")?.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(0_u64).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::built_in;
    use crate::configuration::{Link, Policies};
    use crate::slots::SlotName;
    use crate::source::Source;
    use crate::{Host, HostOptions};

    /// The child of the tests below: this test program, told to run nothing but this.
    #[test]
    #[ignore = "the compiling process of other tests"]
    fn the_compiling_process() {
        compile_for_host().unwrap();
    }

    fn compiler() -> Compiler {
        Compiler::this_program(["--ignored", "--exact", "compiler::tests::the_compiling_process"]).unwrap()
    }

    fn shell(line: &str) -> Compiler {
        child("/bin/sh", &["-c", line], patience)
    }

    fn child(program: &str, arguments: &[&str], patience: fn(Class) -> Duration) -> Compiler {
        let arguments = arguments.iter().map(Into::into).collect();
        Compiler(CompileIn::Child(Program { program: program.into(), arguments, patience }))
    }

    fn state() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, state)
    }

    /// A component that is not the host's own.
    fn foreign() -> Vec<u8> {
        // A section that only has a name, `x`.
        [component(), &[0, 2, 1, b'x']].concat()
    }

    fn component() -> &'static [u8] {
        built_in::component(SlotName::Retry).unwrap()
    }

    #[test]
    fn a_child_fills_the_cache_with_what_this_process_trusts() {
        let (_folder, state) = state();
        for (settings, fuel) in [(json!({}), None), (json!({"attempts": 3}), None), (json!({}), Some(1 << 40))] {
            let settings = settings.as_object().unwrap();
            let limits = Limits { fuel, ..Limits::default() };
            let engines = Engines::new().unwrap();
            let engine = engines.get(Purpose { class: Class::Small, fuel: fuel.is_some() }).unwrap();
            let cache = Cache::open(&state).unwrap();
            let key = CacheKey::of(component(), settings);
            assert!(cache.get(engine, key).is_none());
            let Compiler(CompileIn::Child(program)) = compiler() else { unreachable!() };
            program.run(&state, component(), settings, &limits).unwrap();
            assert!(cache.get(engine, key).is_some(), "{settings:?} {fuel:?}");
        }
    }

    #[test]
    fn a_host_compiles_its_own_components_for_itself_and_no_others() {
        let compilers =
            [None, Some(child("/bin/false", &[], patience)), Some(child("/nonexistent/program", &[], patience))];
        for (compiler, words) in compilers.into_iter().zip([
            "was started without a compiler for components",
            "the compiling process ended with exit status: 1; so it is refused",
            "cannot run the compiling process: No such file",
        ]) {
            let (_folder, state) = state();
            let mut options = HostOptions::new(state.try_clone().unwrap());
            options.compiler = compiler;
            let host = Host::new(options).unwrap();
            assert_eq!(host.status().links.len(), SlotName::ALL.len(), "{words}");
            let rules = b"slot = 'retry'\n[[rules]]\nwhen = 'true'\nanswer = 'give-up'\n".to_vec();
            host.load(SlotName::Retry, &Link::contents("own.rules.toml".as_ref(), rules)).unwrap();
            let link = Link { source: Source::Bytes(foreign().into()), ..Link::default() };
            let error = host.load(SlotName::Retry, &link).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            let mut options = HostOptions::new(state);
            options.compiler = Some(Compiler::this_process());
            Host::new(options).unwrap().load(SlotName::Retry, &link).unwrap();
        }
    }

    #[test]
    fn what_a_child_could_not_compile_within_its_time_or_memory_is_refused_and_not_compiled_here() {
        let (_folder, state) = state();
        for (line, patience, words) in [
            (
                "kill -9 $$",
                patience as fn(Class) -> Duration,
                "was ended by signal 9, as happens if it needs too much memory",
            ),
            ("kill -6 $$", patience, "by signal 6"),
            ("exec sleep 600", |_| Duration::ZERO, "compiling it took longer than 0 s"),
        ] {
            let mut options = HostOptions::new(state.try_clone().unwrap());
            options.compiler = Some(child("/bin/sh", &["-c", line], patience));
            // The built-in defaults are this host's own, so they are compiled here the first time.
            let host = Host::new(options).unwrap();
            let compiled = || state.read_dir("cache").unwrap().count();
            assert_eq!(compiled(), SlotName::ALL.len(), "{line}");
            let settings = json!({"attempts": 3}).as_object().unwrap().clone();
            let link = Link { source: Source::Bytes(component().into()), settings, ..Link::default() };
            let error = host.load(SlotName::Retry, &link).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("so it is refused"), "{line}: {error}");
            assert_eq!(compiled(), SlotName::ALL.len(), "{line}");
        }
    }

    #[test]
    fn nobody_who_looks_waits_for_a_policy_that_is_being_compiled() {
        let (_folder, state) = state();
        let options = || HostOptions::new(state.try_clone().unwrap());
        // The built-in defaults are compiled by then.
        drop(Host::new(options()).unwrap());
        let mut with_compiler = options();
        with_compiler.compiler = Some(shell("touch begun; until [ -e go ]; do sleep 0.01; done; kill -9 $$"));
        let host = Host::new(with_compiler).unwrap();
        let settings = json!({"attempts": 3}).as_object().unwrap().clone();
        let link = Link { source: Source::Bytes(component().into()), settings, ..Link::default() };
        let (loading, policies) = (host.clone(), Policies::built_in().with(SlotName::Retry, link));
        let loading = std::thread::spawn(move || loading.configure(&policies).unwrap_err().to_string());
        while !state.exists("begun") {
            std::thread::sleep(LOOK);
        }
        assert_eq!(host.status().links.len(), SlotName::ALL.len());
        assert_eq!(host.pin().chain(SlotName::Retry).len(), 1);
        state.write("go", "").unwrap();
        assert!(loading.join().unwrap().contains("signal 9"));
    }

    /// The child of the test below.
    #[test]
    #[ignore = "a process of another test"]
    fn the_process_that_takes_too_much() {
        limit_memory(256 << 20);
        let taken = vec![1_u8; 1 << 30];
        println!("it has {} bytes", taken.len());
    }

    #[test]
    fn a_child_gets_no_more_memory_than_it_may() {
        let child = "compiler::tests::the_process_that_takes_too_much";
        let ended =
            Command::new(std::env::current_exe().unwrap()).args(["--ignored", "--exact", child]).output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    }

    #[test]
    fn what_a_child_refuses_is_refused_in_its_words_and_not_compiled_again() {
        let (_folder, state) = state();
        drop(Host::new(HostOptions::new(state.try_clone().unwrap())).unwrap());
        let outcome = |line: &str| {
            let mut options = HostOptions::new(state.try_clone().unwrap());
            options.compiler = Some(shell(line));
            let host = Host::new(options).unwrap();
            let settings = json!({"attempts": 4}).as_object().unwrap().clone();
            let link = Link { source: Source::Bytes(component().into()), settings, ..Link::default() };
            host.load(SlotName::Retry, &link).map(drop).map_err(|error| error.to_string())
        };
        let refused = outcome(r#"cat > /dev/null; echo '{"other": "it is not to our taste"}'; exit 1"#).unwrap_err();
        assert!(refused.ends_with("it is not to our taste"), "{refused}");
        assert_eq!(outcome("cat > /dev/null; echo no words; exit 1"), Ok(()));
    }

    #[test]
    fn a_refused_policy_is_refused_in_the_same_words_wherever_it_is_compiled() {
        let words = |compiler: Option<Compiler>| {
            let (_folder, state) = state();
            let mut options = HostOptions::new(state);
            options.compiler = compiler;
            let host = Host::new(options).unwrap();
            let settings = json!({"attempts": "many"}).as_object().unwrap().clone();
            let link = Link { source: Source::BuiltIn, settings, ..Link::default() };
            host.load(SlotName::Retry, &link).unwrap_err().to_string()
        };
        assert_eq!(words(Some(compiler())), words(None));
    }

    #[test]
    fn a_child_gets_the_state_folder_and_none_of_the_variables_of_its_parent() {
        let (_folder, state) = state();
        let run = |line: &str| {
            let Compiler(CompileIn::Child(program)) = shell(line) else { unreachable!() };
            program.run(&state, component(), &Map::new(), &Limits::default())
        };
        // Cargo sets both for every test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        run("cat > request; test -z \"$CARGO_MANIFEST_DIR$CARGO\"").unwrap();
        assert!(run("cat > /dev/null; exit 3").unwrap_err().to_string().contains('3'));
        let request = state.read("request").unwrap();
        assert!(request.ends_with(component()));
    }

    #[test]
    fn what_no_host_writes_is_no_request() {
        let (_folder, state) = state();
        for input in ["", "{}", "{\"settings\": {}}\n", "{\"settings\": {}, \"limits\": {}, \"x\": 1}\n", "\u{0}\n"] {
            let error = compile_request(&state, input.as_bytes()).unwrap_err();
            assert!(matches!(error, CompileError::Request(_)), "{input:?}: {error}");
        }
        let error = compile_request(&state, &b"{\"settings\": {}, \"limits\": {}}\nno component"[..]).unwrap_err();
        assert!(matches!(error, CompileError::Refused(_)), "{error}");
    }
}
