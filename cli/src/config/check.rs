//! Finds what is wrong with a file that can be read: names that name nothing, programs that are missing, keys that others
//! can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rethread_assistant::model::ProviderConfig;
use serde::Serialize;

use super::file::ASSISTANT;
use super::{ConfigFile, Mistake, nearest, read, with_environment};
use crate::agents::known::KNOWN_AGENTS;
use crate::agents::search_path::find_program;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The file cannot be used.
    Error,
    /// Something named in it does not work now.
    Warning,
}

/// A problem of the configuration.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    /// How bad it is.
    pub(crate) severity: Severity,
    /// The line, if it is known.
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

impl Problem {
    fn warning(message: String, hint: &str) -> Self {
        Self { severity: Severity::Warning, line: None, message, hint: Some(hint.to_owned()) }
    }
}

impl From<Mistake> for Problem {
    fn from(mistake: Mistake) -> Self {
        Self { severity: Severity::Error, line: mistake.line, message: mistake.what, hint: None }
    }
}

/// Checks the file; also returns its contents, if it can be read.
pub(crate) fn check(file: &Path) -> (Option<ConfigFile>, Vec<Problem>) {
    match read(file) {
        Err(mistake) => (None, vec![mistake.into()]),
        Ok(config) => {
            let mut problems = Vec::new();
            problems.extend(default_agent(&config));
            problems.extend(missing_programs(&config));
            problems.extend(default_model(&config));
            problems.extend(readable_secrets(file, &config));
            (Some(config), problems)
        }
    }
}

fn default_agent(config: &ConfigFile) -> Option<Problem> {
    let name = config.default_agent.as_deref()?;
    let known = |name: &str| KNOWN_AGENTS.iter().any(|agent| agent.name == name);
    if name == ASSISTANT
        || config.agents.contains_key(name)
        || known(name)
        || find_program(name, None).is_some()
    {
        return None;
    }
    let names: Vec<&str> = config.agents.keys().map(String::as_str).chain([ASSISTANT]).collect();
    let hint = match nearest(name, &names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("add [agents.{name}], or choose one of `rethread agents`"),
    };
    Some(Problem::warning(format!("key `default_agent`: no agent is called {name}"), &hint))
}

fn missing_programs(config: &ConfigFile) -> Vec<Problem> {
    let missing = config.agents.iter().filter(|(_, agent)| agent.found().is_none());
    let problem = |(name, agent): (&String, &super::AgentConfig)| {
        let message = format!("agent {name}: program {} was not found", agent.program());
        Problem::warning(message, "install it, or give its full path")
    };
    missing.map(problem).collect()
}

fn default_model(config: &ConfigFile) -> Option<Problem> {
    let model = config.assistant.model.as_deref()?;
    let name = model.split_once('/').map_or(model, |(provider, _)| provider);
    let providers = with_environment(config.providers.clone());
    let Some(provider) = providers.iter().find(|provider| provider.name == name) else {
        let names: Vec<&str> = providers.iter().map(|provider| provider.name.as_str()).collect();
        let hint = nearest(name, &names).map_or_else(
            || "add a [[provider]] with that name, or set its key in the environment".to_owned(),
            |meant| format!("did you mean `{meant}`?"),
        );
        return Some(Problem::warning(format!("key `model`: no provider is called {name}"), &hint));
    };
    let hint = format!("set {}", provider.key_place());
    provider.lacks_key().then(|| Problem::warning(format!("key `model`: provider {name} has no key"), &hint))
}

fn readable_secrets(file: &Path, config: &ConfigFile) -> Option<Problem> {
    let has_key = |provider: &ProviderConfig| provider.key().is_some();
    let agents = config.agents.values().any(|agent| !agent.env.is_empty());
    let secret = agents
        || config.cluster_key.is_some()
        || config.providers.iter().any(has_key)
        || !config.assistant.servers.is_empty();
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    let message = format!("others can read {}, which may have secrets in it", file.display());
    (secret && mode & 0o077 != 0)
        .then(|| Problem::warning(message, &format!("run `chmod 600 {}`", file.display())))
}
