//! `rethread agents`: the agents that can be used by name.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::agents::known::KNOWN_AGENTS;
use crate::agents::search_path::find_program;
use crate::config::{self, ASSISTANT, ConfigFile, without_keys};
use crate::failure::Failure;
use crate::output::json::json_document;
use crate::output::paragraph::paragraph;
use crate::output::stream::print;
use crate::output::table::{Cell, Column, Cut, table};
use crate::output::target::{OutputTarget, Paint};
use crate::output::width::padded;
use crate::paths::Paths;

/// Options of `agents`.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// List also well-known agents that are not installed.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The agents that were found.
#[derive(Debug, Serialize)]
pub(crate) struct AgentList {
    /// The agents, configured ones first.
    pub(crate) agents: Vec<ListedAgent>,
}

/// An agent that has a name.
#[derive(Debug, Serialize)]
pub(crate) struct ListedAgent {
    /// The name on the command line.
    pub(crate) name: String,
    /// The name for people, if there is another one.
    pub(crate) title: Option<String>,
    /// Where it is from.
    pub(crate) source: AgentOrigin,
    /// The program and its arguments; empty for the assistant.
    pub(crate) command: Vec<String>,
    /// The file of the program.
    pub(crate) program: Option<PathBuf>,
    /// Whether it can be started.
    pub(crate) installed: bool,
    /// The command that installs it, if that is known.
    pub(crate) install: Option<String>,
    /// Whether it is used if none is named.
    pub(crate) default: bool,
}

/// Where an agent is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AgentOrigin {
    /// From the configuration file.
    Configured,
    /// From the list of well-known agents.
    Known,
    /// The assistant.
    BuiltIn,
}

/// Lists the agents.
pub(crate) fn run(args: &AgentsArgs) -> Result<(), Failure> {
    let list = find_agents(&config::read(&Paths::from_environment()?.config())?);
    let (agents, missing): (Vec<_>, Vec<_>) =
        list.agents.into_iter().partition(|agent| agent.installed || agent.source != AgentOrigin::Known);
    if args.json {
        let missing = missing.into_iter().filter(|_| args.all);
        return print(&json_document(&AgentList { agents: agents.into_iter().chain(missing).collect() }));
    }
    let target = OutputTarget::stdout();
    let missing = if args.all { installing(target, &missing) } else { missing_names(target, &missing) };
    print(&(text(target, &agents) + &missing))
}

/// The agents of the configuration, the well-known ones and the assistant.
pub(crate) fn find_agents(config: &ConfigFile) -> AgentList {
    let default = config.default_agent.as_deref().unwrap_or(ASSISTANT);
    let configured = config.agents.iter().map(|(name, agent)| ListedAgent {
        name: name.clone(),
        title: None,
        source: AgentOrigin::Configured,
        command: without_keys(&agent.command),
        program: agent.found(),
        installed: agent.found().is_some(),
        install: None,
        default: name == default,
    });
    let known = KNOWN_AGENTS.iter().filter(|known| !config.agents.contains_key(known.name));
    let known = known.map(|known| {
        let program = find_program(known.command[0], None);
        ListedAgent {
            name: known.name.to_owned(),
            title: Some(known.title.to_owned()),
            source: AgentOrigin::Known,
            command: known.command.iter().map(|word| (*word).to_owned()).collect(),
            installed: program.is_some(),
            program,
            install: Some(known.install.to_owned()),
            default: known.name == default,
        }
    });
    let mut known: Vec<_> = known.collect();
    known.sort_by_key(|agent| !agent.installed);
    let agents = configured.chain([assistant(default)]).chain(known).collect();
    AgentList { agents }
}

fn assistant(default: &str) -> ListedAgent {
    ListedAgent {
        name: ASSISTANT.to_owned(),
        title: Some("Rethread's assistant".to_owned()),
        source: AgentOrigin::BuiltIn,
        command: Vec::new(),
        program: None,
        installed: true,
        install: None,
        default: default == ASSISTANT,
    }
}

/// The names of agents that are not installed, in a sentence.
fn missing_names(target: OutputTarget, missing: &[ListedAgent]) -> String {
    let names: Vec<&str> = missing.iter().map(|agent| agent.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let sentence = format!("Not installed: {}; --all shows how to install them.", names.join(", "));
    target.paint(Paint::Dim, &paragraph(target, &sentence, 0)) + "\n"
}

/// How to install agents, one line each.
fn installing(target: OutputTarget, missing: &[ListedAgent]) -> String {
    let longest = missing.iter().map(|agent| agent.name.len()).max().unwrap_or(0);
    let line = |agent: &ListedAgent| {
        let name = target.paint(Paint::Cyan, &padded(&agent.name, longest));
        format!("  {name}  {}\n", agent.install.as_deref().unwrap_or_default())
    };
    let lines: String = missing.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nNot installed:\n{lines}") }
}

fn text(target: OutputTarget, agents: &[ListedAgent]) -> String {
    let columns = [
        Column { header: "name", cut: Cut::Nothing },
        Column { header: "", cut: Cut::Nothing },
        Column { header: "from", cut: Cut::Nothing },
        Column { header: "command", cut: Cut::End(16) },
        Column { header: "found at", cut: Cut::Start(16) },
    ];
    let rows: Vec<Vec<Cell>> = agents.iter().map(row).collect();
    table(target, &columns, &rows)
}

fn row(agent: &ListedAgent) -> Vec<Cell> {
    let origin = match agent.source {
        AgentOrigin::Configured => "configuration",
        AgentOrigin::Known => "well known",
        AgentOrigin::BuiltIn => "built in",
    };
    let place = match &agent.program {
        Some(program) => Cell::painted(&program.display().to_string(), Paint::Dim),
        None if agent.installed => Cell::new(""),
        None => Cell::painted("not found", Paint::Red),
    };
    vec![
        Cell::painted(&agent.name, Paint::Cyan),
        Cell::painted(if agent.default { "default" } else { "" }, Paint::Green),
        Cell::painted(origin, Paint::Dim),
        Cell::new(&agent.command.join(" ")),
        place,
    ]
}
