//! `rethread doctor`: looks for what is wrong, and repairs what is safe to repair.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use rethread::store::embedded::EmbeddedPaths;
use rethread::store::embedded::inspect::InspectionDepth;
use serde_json::{Value, json};

use crate::agents::AgentChoice;
use crate::doctor::{self, Area, Finding, Level};
use crate::failure::{ExitCode, Failure};
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::output::target::OutputTarget;
use crate::paths::Paths;
use crate::store_choice::StoreChoice;

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Repair what is safe: settle what processes that have ended left behind, remove files that are not in use.
    #[arg(long)]
    repair: bool,
    /// Read the whole store. Without it a large one is read in part.
    #[arg(long)]
    full: bool,
    /// The number of seconds that the agent may take to start.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    start_seconds: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The name of an agent to look at: it is started for a moment, and opens no session.
    #[arg(value_name = "NAME")]
    agent: Option<String>,
    /// The agent's program and arguments.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "agent")]
    command: Vec<OsString>,
}

/// Looks for what is wrong.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut findings = Vec::new();
    let choice = StoreChoice::read(&paths)?;
    let repaired = match (&choice, args.repair) {
        (StoreChoice::Embedded(files), true) => runtime.block_on(repair(files, &mut findings)),
        // The hosts of a database settle what others left by themselves.
        (StoreChoice::Postgres(_), _) | (StoreChoice::Embedded(_), false) => Vec::new(),
    };
    let depth = if args.full { InspectionDepth::Full } else { InspectionDepth::Bounded };
    let store = match &choice {
        StoreChoice::Embedded(files) => doctor::store::examine(files, depth),
        StoreChoice::Postgres(address) => {
            runtime.block_on(doctor::postgres::examine(address, &paths.config()))
        }
    };
    findings.extend(store.findings);
    let (config, found, configuration) = doctor::surroundings::configuration(&paths);
    findings.extend(found);
    let (found, agents) = doctor::surroundings::agents(&config);
    findings.extend(found);
    let (found, models) = doctor::surroundings::models(&config);
    findings.extend(found);
    let (found, system) = doctor::surroundings::system(&paths);
    findings.extend(found);
    let agent = runtime.block_on(examine_agent(args, &paths, &mut findings))?;
    if args.json {
        let broken = findings.iter().any(|finding| finding.level == Level::Broken);
        print(&json_document(&json!({
            "ok": !broken, "findings": findings, "repaired": repaired, "store": store.json,
            "configuration": configuration, "agents": agents, "models": models, "system": system, "agent": agent,
        })))?;
    } else {
        print(&doctor::report::text(OutputTarget::stdout(), &findings, &repaired))?;
    }
    outcome(&findings)
}

/// Repairs the store. One that cannot be opened is reported by the inspection that follows.
async fn repair(files: &EmbeddedPaths, findings: &mut Vec<Finding>) -> Vec<String> {
    match doctor::store::repair(files).await {
        Ok(repaired) => repaired,
        Err(failure) => {
            let message = format!("nothing was repaired: {}", failure.message());
            findings.push(Finding::new(Area::Store, Level::Warning, message));
            Vec::new()
        }
    }
}

/// Looks at the agent that was named, if one was.
async fn examine_agent(
    args: &DoctorArgs,
    paths: &Paths,
    findings: &mut Vec<Finding>,
) -> Result<Option<Value>, Failure> {
    let agent = match (&args.agent, &args.command[..]) {
        (Some(name), _) => AgentChoice::named(name)?,
        (None, []) => return Ok(None),
        (None, words) => AgentChoice::command(words.to_vec()),
    };
    let limit = Duration::from_secs(args.start_seconds.max(1));
    let report = doctor::agent::examine(agent, paths, limit).await?;
    findings.extend(report.findings);
    Ok(Some(report.json))
}

/// Success, unless something is broken. What is broken has been printed.
fn outcome(findings: &[Finding]) -> Result<(), Failure> {
    let broken = |area: fn(Area) -> bool| {
        findings.iter().any(|finding| finding.level == Level::Broken && area(finding.area))
    };
    match (broken(|area| area == Area::Store), broken(|area| area != Area::Store)) {
        (true, _) => Err(Failure::new(ExitCode::Store, "")),
        (false, true) => Err(Failure::new(ExitCode::Error, "")),
        (false, false) => Ok(()),
    }
}
