//! What hooks say.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex};

use super::super::failure::EXIT_TRY_AGAIN;
use super::super::output::Tail;
use super::super::webhook;
use super::*;

/// A failure's words: a name, what went wrong and the last lines that were said.
const MAX_WORDS_LEN: usize = 8 * 1024;
/// The contract's bound.
const MAX_MESSAGE_LEN: usize = 1024;

/// What people and policies are told of a failure stays in its bounds, in one line that no terminal obeys.
fn is_fit_to_tell(failure: &HookFailure) {
    let words = failure.to_string();
    assert!(words.len() <= MAX_WORDS_LEN, "{} bytes: {words}", words.len());
    assert!(!words.contains(char::is_control), "{words:?}");
    for reported in [failure.for_retry(), failure.for_provisioning()] {
        assert!(reported.message.len() <= MAX_MESSAGE_LEN);
    }
}

fn failure(problem: HookProblem, output: HookOutput) -> HookFailure {
    HookFailure { hook: "program ./configure".into(), problem, output }
}

/// An input is the bytes of a stream. It is read in pieces whose length is its first byte.
#[test]
fn whatever_a_program_says_is_kept_and_told_within_bounds() {
    windlass_test_fuzz::check("hook-output", |input| {
        let (piece, stream) =
            input.split_first().map_or((1, input), |(first, rest)| (usize::from(*first).max(1), rest));
        for limit in [7, 1_024, CAPTURED_BYTES] {
            let mut tail = Tail::new(limit);
            stream.chunks(piece).for_each(|piece| tail.push(piece));
            let captured = tail.finish();
            assert!(captured.dropped as usize + limit + 3 >= stream.len() && captured.dropped as usize <= stream.len());
            // A byte that is no text becomes a mark of three.
            assert!(captured.text.len() <= 3 * limit && !captured.text.contains('\0'));
            let output = HookOutput { stderr: captured.clone(), ..HookOutput::default() };
            is_fit_to_tell(&failure(HookProblem::ExitCode(EXIT_TRY_AGAIN), output));
            let node = NodeOutput {
                node: "farm-workers-1".into(),
                succeeded: false,
                stdout: captured,
                stderr: Captured::default(),
                host_key: None,
            };
            let failed = vec![NodeFailure { node: node.node.clone(), problem: HookProblem::ExitCode(1) }];
            let output = HookOutput { nodes: vec![node], ..HookOutput::default() };
            is_fit_to_tell(&failure(HookProblem::Nodes { failed, of: 2 }, output));
        }
        if let Ok(text) = std::str::from_utf8(stream)
            && let Err(problem) = super::super::hook::check_public_key(text)
        {
            assert!(problem.len() <= MAX_WORDS_LEN);
        }
    });
}

/// Whether a request has all of the body that its head announces.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// Answers each connection with what was last put here, and closes it.
static SERVER: LazyLock<(String, &'static Mutex<Vec<u8>>)> = LazyLock::new(|| {
    let answer: &'static Mutex<Vec<u8>> = Box::leak(Box::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let serve = |mut connection: TcpStream| -> std::io::Result<()> {
            // The whole request: what is closed before it is read takes the answer with it.
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut piece = [0; 8 * 1024];
                match connection.read(&mut piece)? {
                    0 => break,
                    more => request.extend_from_slice(&piece[..more]),
                }
            }
            let answer = answer.lock().unwrap().clone();
            connection.write_all(&answer)
        };
        for connection in listener.incoming() {
            let _ = connection.and_then(serve);
        }
    });
    (url, answer)
});

/// An input is all that comes back on the connection.
#[test]
fn whatever_answers_a_webhook_ends_it_within_bounds() {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    }
    windlass_test_fuzz::check("webhook", |input| {
        let (url, answer) = &*SERVER;
        input.clone_into(&mut answer.lock().unwrap());
        let hook = WebhookHook { url: url.parse().unwrap(), secret_file: None, secret_env: None, plain_http: false };
        let secret = WebhookSecret::new(b"whsec-0123456789-not-a-real-one").unwrap();
        let mut output = HookOutput::default();
        let ended = RUNTIME
            .with(|runtime| runtime.block_on(webhook::run(&hook, &secret, None, &super::input(1), LIMIT, &mut output)));
        assert!(output.stdout.text.len() <= 3 * CAPTURED_BYTES);
        if let Err(problem) = ended {
            is_fit_to_tell(&failure(problem, output));
        }
    });
}
