//! The promises of the README with real agents behind the shipped program, each with a model server on loopback. Runs
//! with those that `RETHREAD_REAL_AGENTS` names; `.ci/real-agents` installs them and says which there are, and
//! `.ci/real-agents test codex claude` runs this.
#![cfg(target_os = "linux")]

mod real;

use std::future::Future;
use std::time::Instant;

use real::agents::Agent;
use real::{imported, killed, speed, translated};
use rethread::edge::Version;

/// Names the agents, separated by spaces.
const NAMES: &str = "RETHREAD_REAL_AGENTS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_agents() {
    let names = std::env::var(NAMES).unwrap_or_default();
    if names.trim().is_empty() {
        println!("SKIPPED: {NAMES} names no agent");
        return;
    }
    let mut table = Table::default();
    let agents: Vec<Agent> = names.split_whitespace().map(Agent::named).collect();
    let (here, missing): (Vec<Agent>, _) = agents.into_iter().partition(|agent| agent.is_installed());
    for agent in missing {
        table.skip(agent, "everything", "it is not installed: .ci/real-agents install");
    }
    for agent in &here {
        table.run_all(*agent, &here).await;
    }
    println!("\n{}", table.text());
    assert!(table.failed() == 0, "{} failed", table.failed());
}

/// What ran, and how it went.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

struct Row {
    agent: &'static str,
    scene: String,
    outcome: String,
}

impl Table {
    async fn run_all(&mut self, agent: Agent, all: &[Agent]) {
        let next = all.iter().cycle().skip_while(|other| **other != agent).nth(1);
        match next.filter(|other| **other != agent) {
            Some(other) => {
                for client in [Version::V1, Version::V2] {
                    let scene = format!("killed in mid-text, then {} takes over, {client:?}", other.name());
                    self.run(agent, &scene, killed::killed_and_taken_over(agent, *other, client)).await;
                }
            }
            None => {
                self.run(agent, "killed in mid-text, V1", killed::killed(agent, Version::V1)).await;
                self.skip(agent, "another agent takes over", "no other is here");
            }
        }
        self.run(agent, "a tool call, in the other version", translated::conversation(agent)).await;
        if agent.is_imported() {
            let other = next.filter(|other| **other != agent).copied();
            self.run(agent, "its own files, imported", imported::imported(agent, other)).await;
        }
        if agent == Agent::Codex {
            self.run(agent, "load of 100 turns", speed::load_is_fast(agent)).await;
        }
    }

    /// Runs a scene by itself: one that fails leaves the others be.
    async fn run(
        &mut self,
        agent: Agent,
        scene: &str,
        running: impl Future<Output = String> + Send + 'static,
    ) {
        let start = Instant::now();
        let outcome = match tokio::spawn(running).await {
            Ok(said) => format!("ok in {:.1} s{said}", start.elapsed().as_secs_f64()),
            Err(_) => FAILED.to_owned(),
        };
        self.add(agent, scene, outcome);
    }

    fn skip(&mut self, agent: Agent, scene: &str, why: &str) {
        self.add(agent, scene, format!("SKIPPED: {why}"));
    }

    fn add(&mut self, agent: Agent, scene: &str, outcome: String) {
        let row = Row { agent: agent.name(), scene: scene.to_owned(), outcome };
        // As it goes; the whole table is printed at the end.
        eprintln!("{}", row.text());
        self.rows.push(row);
    }

    fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.outcome == FAILED).count()
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.text() + "\n").collect()
    }
}

impl Row {
    fn text(&self) -> String {
        format!("{:9} {:55} {}", self.agent, self.scene, self.outcome)
    }
}

const FAILED: &str = "FAILED";
