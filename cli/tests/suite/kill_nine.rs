//! Promise 1 of docs/durability.md: what a client has been shown survives `kill -9`, at any instant, and nothing is there
//! twice. The real program is killed at random moments: in turns, in folds, with forks, and beside other processes.
//! `RETHREAD_KILLS` sets how many kills there are in all.

use std::time::Duration;

use rethread::edge::Version;
use rethread::store::ListQuery;
use rethread_core::Seq;
use rethread_testkit::client::CWD;
use rethread_testkit::kept::{self, nothing_is_doubled};
use rethread_testkit::moments::Moments;
use rethread_testkit::program::{Home, Program};
use rethread_testkit::view::View;
use serde_json::json;

/// Sets the number of kills of all tests together.
const KILLS: &str = "RETHREAD_KILLS";
const DEFAULT_KILLS: usize = 136;
/// The number of tests, each of which has both versions of agents.
const TESTS: usize = 8;
/// What the agent does in a turn: several kinds of things, for about a quarter of a second.
const SCRIPT: &str = "think hm; chunks 60; tool call_1; slow 25; plan a,b; usage 5/10; slow 15; say done";
/// A session is replaced after so many kills, so that a load stays short.
const KILLS_PER_SESSION: usize = 6;
/// Half of the entries of a long turn, which has more than are kept unfolded.
const LONG_TURN_PAIRS: usize = 1100;
/// Within this time after a long turn it is folded, usually.
const LONGEST_FOLD: Duration = Duration::from_millis(250);
const BOTH: [Version; 2] = [Version::V1, Version::V2];

/// One test for each version of the client.
macro_rules! for_both_clients {
    ($($scene:ident: $one:ident, $two:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $one() {
            $scene(Version::V1).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $two() {
            $scene(Version::V2).await;
        }
    )*};
}

for_both_clients! {
    kills_in_turns: what_a_v1_client_was_shown_survives, what_a_v2_client_was_shown_survives;
    kills_in_folds: folds_for_a_v1_client_lose_nothing, folds_for_a_v2_client_lose_nothing;
    kills_with_forks: forks_of_a_v1_client_survive, forks_of_a_v2_client_survive;
    kills_beside_others: a_v1_client_beside_another_loses_nothing, a_v2_client_beside_another_loses_nothing;
}

/// One turn after the other is cut short.
async fn kills_in_turns(client: Version) {
    let mut moments = Moments::new(client.number());
    let (mut cut_short, mut in_a_message) = (0, 0);
    for agent in BOTH {
        let scene = Scene::new(client, agent);
        let mut running = scene.start().await;
        let session = running.client.new_session().await;
        for kill in 0..kills() {
            running.client.begin_prompt(&session, &numbered(kill, SCRIPT)).await;
            tokio::time::sleep(in_a_turn(&mut moments)).await;
            let shown = killed(&mut running, &session).await;
            cut_short += usize::from(shown.agent().last().is_none_or(|text| text != "done"));
            in_a_message += usize::from(shown.agent().last().is_some_and(|text| text.starts_with("c1")));
            running = scene.reopened(&session, &shown, &moments.label(kill), kill).await;
        }
        assert_eq!(running.client.prompt(&session, "say still here").await.stop, "end_turn");
    }
    let all = 2 * kills();
    assert!(cut_short > all / 2, "only {cut_short} of {all} turns were cut short");
    assert!(in_a_message > all / 10, "only {in_a_message} of {all} kills came while text was shown");
}

/// Many short turns, and turns with more entries than are kept unfolded. Half of the long ones are cut short; the others end, and
/// the kill comes while they are folded.
async fn kills_in_folds(client: Version) {
    let mut moments = Moments::new(10 + client.number());
    for agent in BOTH {
        let scene = Scene::new(client, agent);
        let mut running = scene.start().await;
        let (mut session, mut long_turns) = (running.client.new_session().await, Vec::new());
        for kill in 0..kills() {
            if kill % KILLS_PER_SESSION == KILLS_PER_SESSION - 1 {
                session = running.client.new_session().await;
            }
            let pairs = "say a; think b; ".repeat(LONG_TURN_PAIRS);
            match kill % 4 {
                1 => {
                    running.client.begin_prompt(&session, &numbered(kill, &pairs)).await;
                    tokio::time::sleep(moments.up_to(Duration::from_millis(800))).await;
                }
                3 => {
                    let turn = running.client.prompt(&session, &numbered(kill, &pairs)).await;
                    assert_eq!(turn.stop, "end_turn");
                    long_turns.push(session.clone());
                    tokio::time::sleep(moments.up_to(LONGEST_FOLD)).await;
                }
                _ => {
                    let prompting = short_turns(&running, &session, kill);
                    let _ = tokio::time::timeout(moments.up_to(Duration::from_millis(900)), prompting).await;
                }
            }
            let shown = killed(&mut running, &session).await;
            running = scene.reopened(&session, &shown, &moments.label(kill), kill).await;
        }
        running.kill().await;
        long_turns.dedup();
        let folded = scene.folded(&long_turns).await;
        assert!(folded > 0, "none of {} sessions with long turns was folded", long_turns.len());
    }
}

/// A session is forked, and both are prompted.
async fn kills_with_forks(client: Version) {
    let mut moments = Moments::new(20 + client.number());
    for agent in BOTH {
        let scene = Scene::new(client, agent);
        let mut running = scene.start().await;
        let mut session = running.client.new_session().await;
        running.client.prompt(&session, &numbered(1000, "say before all forks")).await;
        for kill in 0..kills() {
            let params = json!({"sessionId": session, "cwd": CWD, "mcpServers": []});
            let made = running.client.ask("session/fork", params).await;
            let fork = made["sessionId"].as_str().expect("a fork has an id").to_owned();
            let inherited = running.client.view(&session).items;
            running.client.begin_prompt(&fork, &numbered(2000 + kill, SCRIPT)).await;
            running.client.begin_prompt(&session, &numbered(kill, SCRIPT)).await;
            tokio::time::sleep(in_a_turn(&mut moments)).await;
            running.kill().await;
            let [shown, mut of_fork] = [&session, &fork].map(|session| kept::shown(&running.client, session));
            // A client that forks has seen the parent.
            of_fork.items.splice(0..0, inherited);
            let label = moments.label(kill);
            let mut forked = scene.reopened(&fork, &of_fork, &label, kill).await;
            let user = forked.client.view(&fork).user();
            let foreign = user.iter().any(|text| text.contains(&number_of(kill)));
            assert!(!foreign, "{label}: the fork has a later prompt of its parent: {user:?}");
            forked.kill().await;
            running = scene.reopened(&session, &shown, &label, kill).await;
            // The next one is a fork of a fork, now and then.
            if kill % KILLS_PER_SESSION == 3 {
                running.client.close(&session).await.expect("it closes");
                running.client.load(&fork).await;
                session = fork;
            }
        }
    }
}

/// Two programs on one store, killed one at a time while the other works, and both at once.
async fn kills_beside_others(client: Version) {
    let mut moments = Moments::new(30 + client.number());
    for agent in BOTH {
        let scene = Scene::new(client, agent);
        let mut running = [scene.start().await, scene.start().await];
        let mut sessions = Vec::new();
        for program in &running {
            sessions.push(program.client.new_session().await);
        }
        let mut kill = 0;
        while kill < kills() {
            let label = moments.label(kill);
            let mut requests = Vec::new();
            for (program, session) in running.iter().zip(&sessions) {
                requests.push(program.client.begin_prompt(session, &numbered(kill, SCRIPT)).await);
            }
            tokio::time::sleep(in_a_turn(&mut moments)).await;
            let victim = kill % 2;
            let shown = killed(&mut running[victim], &sessions[victim]).await;
            if kill % 4 == 3 {
                // Each of the next two opens what the other one had.
                let other = 1 - victim;
                let shown_too = killed(&mut running[other], &sessions[other]).await;
                running[other] = scene.reopened(&sessions[victim], &shown, &label, kill).await;
                running[victim] = scene.reopened(&sessions[other], &shown_too, &label, kill).await;
                sessions.swap(0, 1);
                kill += 2;
            } else {
                running[victim] = scene.reopened(&sessions[victim], &shown, &label, kill).await;
                let survivor = 1 - victim;
                let turn = running[survivor].client.finish(&sessions[survivor], &requests[survivor]).await;
                assert_eq!(turn.stop, "end_turn", "{label}");
                kill += 1;
            }
        }
    }
}

/// A data folder, and the versions of client and agent.
struct Scene {
    home: Home,
    client: Version,
    agent: Version,
}

impl Scene {
    fn new(client: Version, agent: Version) -> Self {
        Self { home: Home::new(env!("CARGO_BIN_EXE_rethread")), client, agent }
    }

    async fn start(&self) -> Program {
        self.home.ready(self.client, self.agent).await
    }

    /// How many of these sessions were folded.
    async fn folded(&self, sessions: &[String]) -> usize {
        let store = self.home.open_store();
        let query = ListQuery { limit: 1000, ..ListQuery::default() };
        // In lists, the head is the last folded entry.
        let rows = store.list(&query).await.expect("the store can be read").rows;
        rows.iter().filter(|row| row.head > Seq(0) && sessions.iter().any(|id| row.id.as_str() == id)).count()
    }

    /// Starts the next program with the session, which must have what was shown, once. A client of the other version
    /// must be shown it too.
    async fn reopened(&self, session: &str, shown: &View, label: &str, kill: usize) -> Program {
        let same = kill % 3 != 2;
        let reader = if same { self.client } else { other(self.client) };
        let mut next = self.home.ready(reader, self.agent).await;
        next.client.load(session).await;
        let loaded = next.client.view(session);
        if let Err(missing) = kept::check(shown, &loaded).and_then(|()| nothing_is_doubled(&loaded)) {
            panic!("{label}: {missing}\nshown:\n{shown}\nloaded:\n{loaded}");
        }
        if same {
            return next;
        }
        next.kill().await;
        let again = self.start().await;
        again.client.load(session).await;
        again
    }
}

async fn killed(program: &mut Program, session: &str) -> View {
    program.kill().await;
    kept::shown(&program.client, session)
}

/// Prompts again and again.
async fn short_turns(program: &Program, session: &str, kill: usize) {
    for turn in 0.. {
        let text = numbered(10_000 * (kill + 1) + turn, "say short");
        assert_eq!(program.client.prompt(session, &text).await.stop, "end_turn");
    }
}

/// A prompt that occurs only once.
fn numbered(number: usize, script: &str) -> String {
    format!("think {}; {script}", number_of(number))
}

fn number_of(number: usize) -> String {
    format!("<{number}>")
}

fn other(version: Version) -> Version {
    match version {
        Version::V1 => Version::V2,
        Version::V2 => Version::V1,
    }
}

/// The kills of one test with one agent.
fn kills() -> usize {
    let all = std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(DEFAULT_KILLS);
    all.div_ceil(2 * TESTS)
}

/// A moment inside the turn of [`SCRIPT`]: half of them in its first tenth, where most happens at once.
fn in_a_turn(moments: &mut Moments) -> Duration {
    let longest = if moments.below(2) == 0 { 25 } else { 250 };
    moments.up_to(Duration::from_millis(longest))
}
