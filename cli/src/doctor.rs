//! What `rethread doctor` finds: a list of findings, each with a level and, if something is wrong, a remedy. `store` looks at
//! the store, `surroundings` at configuration, agents, models and the system, `agent` at one agent, `report` prints it all.

pub(crate) mod agent;
pub(crate) mod postgres;
pub(crate) mod report;
pub(crate) mod store;
pub(crate) mod surroundings;

use serde::Serialize;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Area {
    /// The stored sessions.
    Store,
    /// The configuration file.
    Configuration,
    /// The agents that have a name.
    Agents,
    /// The models of the assistant.
    Models,
    /// Logs, limits and disk space.
    System,
    /// The agent that was asked for.
    Agent,
}

impl Area {
    const ALL: [Self; 6] =
        [Self::Store, Self::Configuration, Self::Agents, Self::Models, Self::System, Self::Agent];

    /// The heading for people.
    fn heading(self) -> &'static str {
        match self {
            Self::Store => "Store",
            Self::Configuration => "Configuration",
            Self::Agents => "Agents",
            Self::Models => "Models",
            Self::System => "System",
            Self::Agent => "This agent",
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Something does not work, or may soon not.
    Warning,
    /// Something is broken.
    Broken,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it is about.
    pub(crate) area: Area,
    /// How bad it is.
    pub(crate) level: Level,
    /// What was found.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    pub(crate) fn new(area: Area, level: Level, message: impl Into<String>) -> Self {
        Self { area, level, message: message.into(), hint: None }
    }

    /// Adds the remedy.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
