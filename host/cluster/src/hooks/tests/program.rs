//! Programs, run for real.

use super::*;

/// A shell script as a program.
fn script(folder: &Path, body: &str) -> ProgramHook {
    let name = format!("hook-{}.sh", std::fs::read_dir(folder).unwrap().count());
    let file = private_file(folder, &name, format!("#!/bin/sh\n{body}\n"));
    ProgramHook { working_directory: Some(folder.to_owned()), ..ProgramHook::new(file.to_str().unwrap()) }
}

async fn run(hook: Hook) -> Result<HookOutput, Box<HookFailure>> {
    HookRunner.run(&hook, &input(2)).await
}

/// Whether a process has ended: gone, or a zombie that nobody has waited for.
fn has_ended(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// The number that a script has written.
async fn written(path: &Path) -> String {
    until(|| std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))).await;
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_program_reads_its_nodes_as_json_and_says_by_its_exit_code_how_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "cat > seen.json; pwd; echo careful >&2");
    let output = run(hook(HookAction::Program(program))).await.unwrap();
    assert_eq!(output.stdout.text.trim_end(), folder.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(output.stderr.text, "careful\n");
    assert_eq!(std::fs::read(folder.path().join("seen.json")).unwrap(), input(2).json());
    for (body, problem) in [
        ("exit 3", HookProblem::ExitCode(3)),
        ("exit 75", HookProblem::ExitCode(75)),
        ("kill -9 $$", HookProblem::Signal("9".into())),
    ] {
        let failure = run(hook(HookAction::Program(script(folder.path(), body)))).await.unwrap_err();
        assert_eq!(failure.problem, problem);
    }
}

#[tokio::test]
async fn a_failure_says_what_the_program_said_last() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "echo working; echo 'disk full' >&2; exit 1");
    let failure = run(hook(HookAction::Program(program))).await.unwrap_err();
    let words = failure.to_string();
    assert!(words.ends_with("ended with exit code 1; it said: disk full"), "{words}");
    assert_eq!(failure.output.stdout.text, "working\n");
}

#[tokio::test]
async fn nothing_of_our_environment_reaches_a_program_but_what_is_listed() {
    // Cargo sets both for every test: they stand for a secret of windlass's own environment.
    let (hidden, passed) = ("CARGO_PKG_NAME", "CARGO_PKG_VERSION");
    assert!(std::env::var_os(hidden).is_some() && std::env::var_os(passed).is_some());
    let folder = tempfile::tempdir().unwrap();
    let mut program = script(folder.path(), "env");
    program.environment = [("MINE".to_owned(), "of $HOME".to_owned())].into();
    program.pass_environment = vec![passed.to_owned(), "NOT_SET_ANYWHERE".to_owned()];
    let output = run(hook(HookAction::Program(program))).await.unwrap();
    let mut names: Vec<_> = output.stdout.text.lines().filter_map(|line| line.split_once('=')).collect();
    names.retain(|(name, _)| !crate::hooks::program::INHERITED.contains(name));
    // The shell adds some of its own.
    names.retain(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(
        names,
        [
            ("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION")),
            ("MINE", "of $HOME"),
            ("WINDLASS_ATTEMPT", "1"),
            ("WINDLASS_CLUSTER", "farm"),
            ("WINDLASS_HOOK_VERSION", "1"),
            ("WINDLASS_OPERATION", "scale"),
            ("WINDLASS_OPERATION_ID", "0a1b2c"),
            ("WINDLASS_STAGE", "configure"),
            ("WINDLASS_ZONE", "fr-par-1"),
        ]
    );
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_ended_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        script(folder.path(), "sleep 3600 & echo $! > child; echo begun; sleep 3600 & echo $! > second; wait");
    let failure = run(soon(HookAction::Program(program))).await.unwrap_err();
    assert_eq!(failure.problem, HookProblem::TimedOut(SOON));
    assert_eq!(failure.output.stdout.text, "begun\n");
    for child in ["child", "second"] {
        let pid = written(&folder.path().join(child)).await;
        until(|| has_ended(&pid)).await;
    }
}

#[tokio::test]
async fn a_program_is_asked_to_end_before_it_is_ended_and_its_last_words_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let polite = script(folder.path(), "trap 'echo tidied; exit 0' TERM; while :; do sleep 0.05; done");
    let failure = run(soon(HookAction::Program(polite))).await.unwrap_err();
    assert_eq!(failure.output.stdout.text, "tidied\n");
    // Ending with 0 after the time is over doesn't make it timely.
    assert!(failure.problem.is_time_out(), "{failure}");

    let stubborn = script(folder.path(), "trap '' TERM; echo $$ > stubborn; while :; do sleep 0.05; done");
    let failure = run(soon(HookAction::Program(stubborn))).await.unwrap_err();
    assert!(failure.problem.is_time_out(), "{failure}");
    let pid = written(&folder.path().join("stubborn")).await;
    until(|| has_ended(&pid)).await;
}

#[tokio::test]
async fn what_a_program_leaves_in_the_background_neither_holds_the_hook_nor_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    // The child holds the program's streams open.
    let program = script(folder.path(), "sleep 3600 & echo $! > child; echo done");
    let output = run(hook(HookAction::Program(program))).await.unwrap();
    assert_eq!(output.stdout.text, "done\n");
    let pid = written(&folder.path().join("child")).await;
    until(|| has_ended(&pid)).await;
}

#[tokio::test]
async fn a_hook_that_is_dropped_is_ended_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "sleep 3600 & echo $! > child; wait");
    let run = tokio::spawn(run(hook(HookAction::Program(program))));
    let pid = written(&folder.path().join("child")).await;
    assert!(!has_ended(&pid));
    run.abort();
    until(|| has_ended(&pid)).await;
}

#[tokio::test]
async fn a_flood_of_output_is_read_to_its_end_and_its_end_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "head -c 1000000 /dev/zero | tr '\\0' x; echo end");
    let output = run(hook(HookAction::Program(program))).await.unwrap();
    assert_eq!(output.stdout.text.len(), CAPTURED_BYTES);
    assert!(output.stdout.text.ends_with("xend\n"));
    assert_eq!(output.stdout.dropped, 1_000_004 - CAPTURED_BYTES as u64);
}

#[tokio::test]
async fn a_program_that_never_reads_its_input_ends_well_however_long_that_is() {
    // 20,000 nodes are some megabytes: far more than a pipe holds.
    let folder = tempfile::tempdir().unwrap();
    let mut input = input(1);
    input.others = vec![node(2); 20_000];
    let hook = hook(HookAction::Program(script(folder.path(), "exit 0")));
    HookRunner.run(&hook, &input).await.unwrap();
    // And one that reads all of it gets all of it.
    let counts = super::hook(HookAction::Program(script(folder.path(), "wc -c")));
    let output = HookRunner.run(&counts, &input).await.unwrap();
    assert_eq!(output.stdout.text.trim().parse::<usize>().unwrap(), input.json().len());
}

#[tokio::test]
async fn a_program_that_is_not_there_or_cannot_run_is_named_with_the_remedy_before_anything_happens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plain"), "text").unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (command, words) in [
        (place("nowhere"), "No such file"),
        (place("plain"), "chmod +x"),
        (folder.path().to_str().unwrap().to_owned(), "no executable file"),
        ("windlass-has-no-such-program".to_owned(), "in PATH; write ./windlass-has-no-such-program"),
    ] {
        let hook = hook(HookAction::Program(ProgramHook::new(command)));
        let early = hook.preflight().unwrap_err();
        let failure = run(hook).await.unwrap_err();
        assert_eq!(failure.problem, early);
        assert!(early.to_string().contains(words), "{early}");
    }
    let lost = ProgramHook { working_directory: Some("/no/such/folder".into()), ..ProgramHook::new("true") };
    let lost = hook(HookAction::Program(lost));
    assert!(lost.preflight().unwrap_err().to_string().contains("there is no folder /no/such/folder"));
    let failure = run(lost).await.unwrap_err();
    assert!(failure.to_string().contains("in /no/such/folder"), "{failure}");
}

#[tokio::test]
async fn without_nodes_nothing_is_run() {
    let nothing = hook(HookAction::Program(ProgramHook::new("/no/such/program")));
    assert_eq!(HookRunner.run(&nothing, &input(0)).await, Ok(HookOutput::default()));
}

#[tokio::test]
async fn a_dry_run_says_everything_and_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = script(folder.path(), "touch ran");
    program.arguments = vec!["-x".into()];
    program.environment = [("MINE".to_owned(), "value".to_owned())].into();
    let plan = HookRunner.plan(&hook(HookAction::Program(program.clone())), &input(2));
    let PlannedRun::Program { file, arguments, environment, .. } = &plan.run else { panic!("{plan:?}") };
    assert_eq!(file.as_deref().and_then(Path::to_str), Some(program.command.as_str()));
    assert_eq!(arguments, &["-x"]);
    assert!(environment.contains(&"MINE".to_owned()) && environment.contains(&"WINDLASS_STAGE".to_owned()));
    assert_eq!((plan.input, plan.problem), (input(2), None));
    let missing = HookRunner.plan(&hook(HookAction::Program(ProgramHook::new("/no/such"))), &input(1));
    assert!(missing.problem.unwrap().contains("/no/such"));
    assert!(!folder.path().join("ran").exists());
}
