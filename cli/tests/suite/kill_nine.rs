//! Promise 1 of docs/durability.md: what a client has been shown survives `kill -9`, at any instant. The real
//! program streams, is killed at a random moment, and the next one shows at least what was shown before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rethread::edge::Version;
use rethread_testkit::kept;
use rethread_testkit::program::{Home, Program};
use rethread_testkit::view::View;

/// How often each test kills; there are two.
const KILLS: usize = 60;
/// Sets the random numbers, to have the same moments again.
const SEED: &str = "RETHREAD_TEST_SEED";
/// What the agent is told to do: several kinds of things, for about a quarter of a second.
const SCRIPT: &str = "think hm; chunks 60; tool call_1; slow 25; plan a,b; usage 5/10; slow 15; say done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_v1_client_was_shown_survives() {
    kill_many(Version::V1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_v2_client_was_shown_survives() {
    kill_many(Version::V2).await;
}

async fn kill_many(client: Version) {
    let mut moments = Moments::new(client.number());
    let (mut cut_short, mut in_a_message) = (0, 0);
    for agent in [Version::V1, Version::V2] {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let program = home.ready(client, agent).await;
        let session = program.client.new_session().await;
        let mut running = program;
        for kill in 0..KILLS / 2 {
            let seed = format!("kill {kill}, {SEED}={}", moments.seed);
            let (shown, over) = shown_until_killed(&mut running, &session, &mut moments).await;
            cut_short += usize::from(!over);
            in_a_message += usize::from(shown.agent().last().is_some_and(|text| text.starts_with("c1")));
            // The other version must show it too.
            let reader = if kill % 3 == 2 { other(client) } else { client };
            let mut next = home.ready(reader, agent).await;
            next.client.load(&session).await;
            let loaded = next.client.view(&session);
            if let Err(missing) = kept::check(&shown, &loaded) {
                panic!("{seed}: {missing}\nshown:\n{shown}\nloaded:\n{loaded}");
            }
            running = if reader == client {
                next
            } else {
                next.kill().await;
                let again = home.ready(client, agent).await;
                again.client.load(&session).await;
                again
            };
        }
        let turn = running.client.prompt(&session, "say still here").await;
        assert_eq!(turn.stop, "end_turn");
    }
    assert!(cut_short > KILLS / 2, "only {cut_short} of {KILLS} turns were cut short");
    assert!(in_a_message > KILLS / 10, "only {in_a_message} of {KILLS} kills came while text was shown");
}

/// Prompts, kills after a while, and gives everything that the client was shown, and whether it was the whole turn.
async fn shown_until_killed(program: &mut Program, session: &str, moments: &mut Moments) -> (View, bool) {
    program.client.begin_prompt(session, SCRIPT).await;
    tokio::time::sleep(moments.next()).await;
    program.kill().await;
    let shown = kept::shown(&program.client, session);
    let over = shown.agent().last().is_some_and(|text| text == "done");
    (shown, over)
}

fn other(version: Version) -> Version {
    match version {
        Version::V1 => Version::V2,
        Version::V2 => Version::V1,
    }
}

/// Random moments inside a turn: half of them in its first tenth, where most happens at once.
struct Moments {
    seed: u64,
    state: u64,
}

impl Moments {
    fn new(salt: u64) -> Self {
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        let now =
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| u64::from(time.subsec_nanos()));
        let seed = given.unwrap_or_else(now);
        Self { seed, state: (seed + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn next(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let longest = if self.state.is_multiple_of(2) { 25_000 } else { 250_000 };
        Duration::from_micros((self.state >> 8) % longest)
    }
}
