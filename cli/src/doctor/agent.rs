//! One agent: starts it for a moment, reads what it says of itself, and ends it. Opens no session, so that nothing is left at
//! the agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::agent::host::{AgentProtocol, AgentSource};
use rethread::client::{
    AcpClient, AskedQuestion, ClientConfig, ClientError, ClientHandler, Introduction, SessionEvent,
};
use rethread::edge::Version;
use rethread::edge::capabilities::AgentProfile;
use rethread::secret::Secrets;
use rethread_core::SessionId;
use serde_json::{Value, json};

use super::{Area, Finding, Level};
use crate::agents::AgentChoice;
use crate::failure::Failure;
use crate::paths::Paths;

/// What Rethread offers to every client, whatever the agent has.
const OFFERED: [&str; 9] =
    ["list", "load", "resume", "close", "delete", "fork", "archive", "status", "title"];

/// From here on a start is slow.
const SLOW: Duration = Duration::from_secs(10);

/// How much of what an agent printed is shown.
const MAX_PRINTED: usize = 200;

/// What is said of an agent.
pub(crate) struct AgentReport {
    /// The findings.
    pub(crate) findings: Vec<Finding>,
    /// The same for programs.
    pub(crate) json: Value,
}

/// Starts an agent and reports what it says of itself. It may take this long to start.
pub(crate) async fn examine(
    agent: AgentChoice,
    paths: &Paths,
    limit: Duration,
) -> Result<AgentReport, Failure> {
    let secrets = Secrets::default();
    if let AgentChoice::Command(invocation) = &agent {
        secrets.add_variables(&invocation.env);
    }
    let source = agent.source_with_log(paths, None)?;
    let name = source.name();
    let begun = Instant::now();
    match contact(&source, AgentProtocol::First(Version::NEWEST), limit, &secrets).await {
        Ok(contact) => {
            let took = begun.elapsed();
            let others = other_version(&source, &contact.profile, limit, &secrets).await;
            Ok(report(&name, &contact, took, others))
        }
        Err(error) => {
            let why = secrets.redact(&error.to_string());
            let broken = Finding::new(Area::Agent, Level::Broken, format!("{name} does not work: {why}"));
            let hint =
                error.hint().unwrap_or_else(|| "run its command by hand to see what it says".to_owned());
            let json = json!({"command": name, "works": false, "error": why});
            Ok(AgentReport { findings: vec![broken.hint(hint)], json })
        }
    }
}

/// What one connection to an agent showed.
struct Contact {
    profile: AgentProfile,
    /// What it printed that is no message.
    printed: String,
}

async fn contact(
    source: &Arc<dyn AgentSource>,
    protocol: AgentProtocol,
    limit: Duration,
    secrets: &Secrets,
) -> Result<Contact, ClientError> {
    let introduction = Introduction {
        name: "rethread-doctor".to_owned(),
        title: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        services: Vec::new(),
    };
    let config =
        ClientConfig { protocol, start_limit: limit, secrets: secrets.clone(), ..ClientConfig::default() };
    let client = AcpClient::connect(source.clone(), &introduction, config, Deaf).await?;
    let contact = Contact { profile: client.profile().clone(), printed: client.printed() };
    client.close().await;
    Ok(contact)
}

/// Whether an agent of version 2 speaks version 1 as well. One that answered with 1 was offered 2.
async fn other_version(
    source: &Arc<dyn AgentSource>,
    profile: &AgentProfile,
    limit: Duration,
    secrets: &Secrets,
) -> Vec<u16> {
    let newest = profile.version == Version::NEWEST;
    if newest && contact(source, AgentProtocol::Only(Version::V1), limit, secrets).await.is_ok() {
        vec![1, 2]
    } else {
        vec![if newest { 2 } else { 1 }]
    }
}

fn report(name: &str, contact: &Contact, took: Duration, versions: Vec<u16>) -> AgentReport {
    let profile = &contact.profile;
    let ok = |message: String| Finding::new(Area::Agent, Level::Ok, message);
    let info = |member: &str| profile.info.as_ref().and_then(|info| info.fields().text(member));
    let numbers = versions.iter().map(u16::to_string).collect::<Vec<_>>().join(" and ");
    let called = info("title").or_else(|| info("name")).unwrap_or_else(|| name.to_owned());
    let version = info("version").map_or_else(String::new, |version| format!(" {version}"));
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mut findings = vec![
        ok(format!("{called}{version} speaks protocol version {numbers}; it answered after {millis} ms")),
        ok(format!("its own: {}", listed(&profile.native))),
        ok(format!("rethread adds: {}", listed(&added(profile)))),
        ok(format!("a lost session is restored by {}", restored_by(profile))),
        ok(format!("prompts may contain text, links{}", more(&profile.content))),
        ok(format!("MCP servers: {}", listed(&profile.transports))),
    ];
    findings.extend(quirks(contact, took));
    let logins: Vec<_> = profile.auth_methods.iter().filter_map(|login| login.text("name")).collect();
    if !logins.is_empty() {
        findings.push(Finding::new(
            Area::Agent,
            Level::Note,
            format!("it may ask for a login: {}", logins.join(", ")),
        ));
    }
    let json = json!({
        "command": name, "works": true, "name": info("name"), "version": info("version"), "protocol": versions,
        "startMillis": millis, "native": profile.native, "added": added(profile), "content": profile.content,
        "mcp": profile.transports, "logins": logins,
    });
    AgentReport { findings, json }
}

fn listed(words: &[&str]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

fn more(words: &[&str]) -> String {
    words.iter().map(|word| format!(", {word}")).collect()
}

fn added(profile: &AgentProfile) -> Vec<&'static str> {
    OFFERED.into_iter().filter(|name| !profile.has(name)).collect()
}

fn restored_by(profile: &AgentProfile) -> &'static str {
    match (profile.has("history"), profile.has("resume"), profile.has("load")) {
        (true, ..) => "giving it the whole conversation",
        (false, true, _) => "its own resume, else from the stored transcript",
        (false, false, true) => "its own load, else from the stored transcript",
        (false, false, false) => "the stored transcript",
    }
}

/// What the agent does otherwise than the protocol says, and Rethread puts up with.
fn quirks(contact: &Contact, took: Duration) -> Vec<Finding> {
    let note = |message: String| Finding::new(Area::Agent, Level::Note, message);
    let mut found = Vec::new();
    if contact.profile.repeats_offered_version() {
        found.push(note("it answers with the version that it is offered, but speaks version 1".to_owned()));
    }
    if contact.profile.info.is_none() {
        found.push(note("it does not say its name and version".to_owned()));
    }
    if !contact.printed.is_empty() {
        let printed: String = contact.printed.chars().take(MAX_PRINTED).collect();
        found.push(note(format!("it prints text that is no message: {}", printed.replace('\n', " "))));
    }
    if took > SLOW {
        found.push(note("it starts slowly; rethread answers from what it said the last time".to_owned()));
    }
    found
}

/// A client that wants nothing.
struct Deaf;

impl ClientHandler for Deaf {
    async fn event(&self, _session: &SessionId, _event: &SessionEvent) {}

    async fn question(&self, _question: AskedQuestion) {}
}
