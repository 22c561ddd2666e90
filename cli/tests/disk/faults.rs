//! Has writes, syncs and opens of the store fail while the real program works, and checks what the next one finds.

use std::collections::HashMap;
use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::client::{CWD, Client, From};
use rethread_testkit::kept;
use rethread_testkit::program::{Home, Program};
use serde_json::json;

use super::shim::{Fault, Shim};

/// The calls that fail first, counted from the beginning of the faults.
const FIRST_CALLS: [i32; 12] = [1, 2, 3, 4, 5, 6, 8, 11, 15, 21, 34, 55];
/// How many calls in a row fail; the last means all until the faults stop.
const IN_A_ROW: [i32; 3] = [1, 3, i32::MAX / 2];
/// The prompts while calls fail: more than are kept unfolded.
const PROMPTS: usize = 36;
/// A store that failed is tried again after a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// The error code of a failed store.
const INTERNAL: i64 = -32603;

/// What was checked.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The runs of the program.
    pub(crate) runs: usize,
    /// Those in which a call failed.
    pub(crate) with_faults: usize,
    pub(crate) failed_calls: i32,
    pub(crate) failed_requests: usize,
}

/// Checks all kinds of faults.
pub(crate) async fn check() -> Checked {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let library = Shim::build(folder.path());
    let mut checked = Checked::default();
    let kinds = [
        (Fault::Write, libc::EIO),
        (Fault::Write, libc::ENOSPC),
        (Fault::ShortWrite, libc::ENOSPC),
        (Fault::Sync, libc::EIO),
        (Fault::Open, libc::EIO),
    ];
    for (fault, error) in kinds {
        for first in FIRST_CALLS {
            for calls in IN_A_ROW {
                let version = [Version::V1, Version::V2][checked.runs % 2];
                let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
                let shim = Shim::new(&library, home.beside().join("orders"));
                let label = format!("{fault:?} with error {error}, {calls} from call {first}, {version:?}");
                FaultyRun { home, shim, version, label }.run(fault, error, first, calls, &mut checked).await;
            }
        }
    }
    checked
}

struct FaultyRun {
    home: Home,
    shim: Shim,
    version: Version,
    label: String,
}

impl FaultyRun {
    async fn run(&self, fault: Fault, error: i32, first: i32, calls: i32, checked: &mut Checked) {
        let mut command = self.home.acp(&self.home.scripted(Version::V2));
        self.shim.preload(&mut command, &self.home.path());
        let mut program = Program::start(command, self.version);
        program.client.set_deadline(PATIENCE);
        program.client.initialize().await;
        let other = program.client.new_session().await;
        assert_eq!(program.client.prompt(&other, "say kept").await.stop, "end_turn");
        program.client.close(&other).await.expect("it closes");
        let session = program.client.new_session().await;
        assert_eq!(program.client.prompt(&session, "say before").await.stop, "end_turn");

        self.shim.fail(fault, error, first, calls);
        checked.failed_requests += self.prompt_all(&program.client, &session).await;
        let created = self.open_sessions(&program.client, &other).await;
        let failed = self.shim.stop();
        checked.failed_calls += failed;
        checked.with_faults += usize::from(failed > 0);
        checked.runs += 1;

        self.assert_works_again(&program.client, &session).await;
        self.assert_opens_again(&program.client, &other).await;
        program.kill().await;
        self.check_answers(&program.client);
        let next = self.check_kept(&program.client, &session).await;
        for session in created {
            next.client.load(&session).await;
        }
        next.client.load(&other).await;
        assert_eq!(next.client.view(&other).agent(), ["kept"], "{}", self.label);
    }

    /// Creates sessions and opens a closed one. Returns the new ones that were answered.
    async fn open_sessions(&self, client: &Client, closed: &str) -> Vec<String> {
        let mut created = Vec::new();
        for _ in 0..3 {
            let made = client.request("session/new", json!({"cwd": CWD, "mcpServers": []})).await;
            created.extend(made.ok().and_then(|made| made["sessionId"].as_str().map(str::to_owned)));
            let (method, params) = client.load_params(closed);
            if client.request(method, params).await.is_ok() {
                // It may fail as well.
                let _ = client.close(closed).await;
            }
        }
        created
    }

    /// Opens a session until that works.
    async fn assert_opens_again(&self, client: &Client, session: &str) {
        let (method, params) = client.load_params(session);
        let trying = async {
            while let Err(error) = client.request(method, params.clone()).await {
                assert_eq!(error["code"], INTERNAL, "{}: {error}", self.label);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let opened = tokio::time::timeout(PATIENCE, trying).await;
        assert!(opened.is_ok(), "{}: {session} does not open again", self.label);
    }

    /// Prompts again and again. Returns how many prompts failed.
    async fn prompt_all(&self, client: &Client, session: &str) -> usize {
        let mut failed = 0;
        for prompt in 0..PROMPTS {
            let text = format!("think <{prompt}>; chunks 3; say end {prompt}");
            let request = client.begin_prompt(session, &text).await;
            // In version 2 a turn that cannot be stored may end only when the disk works again.
            let ended =
                tokio::time::timeout(Duration::from_millis(400), client.finish(session, &request)).await;
            let fine = ended.is_ok_and(|turn| turn.stop == "end_turn");
            failed += usize::from(!fine);
            if failed > 2 {
                break;
            }
        }
        failed
    }

    /// Prompts until one is accepted.
    async fn assert_works_again(&self, client: &Client, session: &str) {
        let trying = async {
            loop {
                let turn = client.prompt(session, "say after the faults").await;
                if turn.stop == "end_turn" {
                    return;
                }
                let refused = turn.stop == format!("error {INTERNAL}") || turn.stop == "error";
                assert!(refused, "{}: {}", self.label, turn.stop);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, trying).await.is_err() {
            let said = client.said();
            let last: Vec<_> =
                said.iter().rev().take(40).rev().map(|said| said.message.to_string()).collect();
            panic!("{}: it does not work again:\n{}", self.label, last.join("\n"));
        }
    }

    /// Each request has exactly one answer.
    fn check_answers(&self, client: &Client) {
        let mut answers: HashMap<String, usize> = HashMap::new();
        for said in client.said() {
            let message = &said.message;
            match (said.from, message.get("method")) {
                (From::Client, Some(_)) if message.get("id").is_some() => {
                    answers.entry(message["id"].to_string()).or_default();
                }
                (From::Server, None) => *answers.entry(message["id"].to_string()).or_default() += 1,
                (From::Client | From::Server, _) => {}
            }
        }
        let wrong: Vec<_> = answers.iter().filter(|(_, count)| **count != 1).collect();
        assert!(wrong.is_empty(), "{}: requests with another number of answers: {wrong:?}", self.label);
    }

    /// The next program has all that was shown.
    async fn check_kept(&self, client: &Client, session: &str) -> Program {
        let shown = kept::shown(client, session);
        let next = self.home.ready(self.version, Version::V2).await;
        next.client.load(session).await;
        let loaded = next.client.view(session);
        // A version 1 client shows its own prompts, also those that were refused.
        for who in ["agent", "thought"] {
            let (shown, loaded) = (shown.texts(who), loaded.texts(who));
            let whole = loaded.len() >= shown.len()
                && shown.iter().zip(&loaded).all(|(shown, loaded)| loaded.starts_with(shown.as_str()));
            assert!(whole, "{}: shown {shown:?}\nloaded {loaded:?}", self.label);
        }
        if self.version == Version::V2
            && let Err(missing) = kept::check(&shown, &loaded)
        {
            panic!("{}: {missing}\nshown:\n{shown}\nloaded:\n{loaded}", self.label);
        }
        let twice = |texts: Vec<String>| (1..texts.len()).any(|at| texts[..at].contains(&texts[at]));
        assert!(!twice(loaded.texts("thought")), "{}: doubled in\n{loaded}", self.label);
        let last = loaded.agent().last().cloned().unwrap_or_default();
        assert_eq!(last, "after the faults", "{}", self.label);
        next
    }
}
