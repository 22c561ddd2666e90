//! The options of a session: mode, model, thought level, temperature, tools. Builds the options for the client, and
//! decodes the choices into settings.

use rethread::author::{Choices, ConfigOption, OptionValue};
use serde::Deserialize;

use crate::model::{Effort, Model};
use crate::tools::{Access, FileAccess, TerminalAccess};

/// The mode of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Changes files and runs commands, and asks first.
    Code,
    /// Answers questions; only reads.
    Ask,
    /// Makes plans; only reads.
    Architect,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Code, Self::Ask, Self::Architect];

    /// The id of the option value.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Ask => "ask",
            Self::Architect => "architect",
        }
    }

    fn value(self) -> OptionValue {
        let (name, description) = match self {
            Self::Code => ("Code", "Reads, plans and changes; asks before it writes or runs anything"),
            Self::Ask => ("Ask", "Reads and answers; changes nothing"),
            Self::Architect => ("Architect", "Reads and makes plans; changes nothing"),
        };
        OptionValue::new(self.id(), name).described(description)
    }

    /// The mode with this id.
    pub(crate) fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }
}

/// The temperatures: id, name, value.
const TEMPERATURES: [(&str, &str, f64); 3] =
    [("medium", "Medium", 0.7), ("low", "Low", 0.2), ("high", "High", 1.0)];

/// The values of the option `tools`: id, access to files, access to commands.
const TOOLS: [(&str, FileAccess, TerminalAccess); 4] = [
    ("read-write+terminal", FileAccess::ReadWrite, TerminalAccess::Enabled),
    ("read-write", FileAccess::ReadWrite, TerminalAccess::Disabled),
    ("read-only+terminal", FileAccess::ReadOnly, TerminalAccess::Enabled),
    ("read-only", FileAccess::ReadOnly, TerminalAccess::Disabled),
];

/// The options of a session, given the models, the choices and the mode that new sessions have.
pub(crate) fn options(models: &[Model], chosen: &Choices, default_mode: Option<Mode>) -> Vec<ConfigOption> {
    // The first value is the default.
    let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != default_mode);
    let modes = default_mode.into_iter().chain(others).map(Mode::value).collect();
    let mut options =
        vec![ConfigOption::select("mode", "Mode", modes).in_category("mode").described("What it may do")];
    if let Some(model) = model(models, chosen) {
        options.push(
            ConfigOption::select("model", "Model", models.iter().map(model_value).collect())
                .in_category("model"),
        );
        options.extend(thinking(model));
        options.extend(temperature(model));
    }
    options.push(tools());
    options.push(
        ConfigOption::boolean("project_instructions", "Project instructions", true)
            .described("Follow the AGENTS.md files of the project"),
    );
    options
}

fn model_value(model: &Model) -> OptionValue {
    let provider = model.id.split_once('/').map_or("", |(provider, _)| provider);
    OptionValue::new(&model.id, &model.name).in_group(provider, provider)
}

fn thinking(model: &Model) -> Option<ConfigOption> {
    if model.efforts.is_empty() {
        return None;
    }
    let standard = OptionValue::new("standard", "Standard").described("The default of the provider");
    let values = model.efforts.iter().map(|effort| OptionValue::new(effort.name(), effort.name()));
    let values = std::iter::once(standard).chain(values).collect();
    Some(ConfigOption::select("thought_level", "Thinking", values).in_category("thought_level"))
}

fn temperature(model: &Model) -> Option<ConfigOption> {
    if !model.takes_temperature {
        return None;
    }
    let values = TEMPERATURES.iter().map(|(id, name, _)| OptionValue::new(id, name)).collect();
    Some(ConfigOption::select("temperature", "Temperature", values).described("How much the answers vary"))
}

fn tools() -> ConfigOption {
    let value = |(id, files, terminal): &(&str, FileAccess, TerminalAccess)| {
        let (group, heading) = match files {
            FileAccess::ReadWrite => ("read-write", "Filesystem read-write"),
            FileAccess::ReadOnly => ("read-only", "Filesystem read-only"),
        };
        let name = match terminal {
            TerminalAccess::Enabled => "Terminal enabled",
            TerminalAccess::Disabled => "Terminal disabled",
        };
        OptionValue::new(id, name).in_group(group, heading)
    };
    ConfigOption::select("tools", "Tools", TOOLS.iter().map(value).collect())
        .described("What the tools may do in any mode")
}

/// The settings of a session, read from its choices.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) access: Access,
    pub(crate) effort: Option<Effort>,
    pub(crate) temperature: Option<f64>,
    pub(crate) project_instructions: bool,
}

impl Settings {
    /// Decodes the choices; missing ones get their defaults.
    pub(crate) fn of(choices: &Choices) -> Self {
        let mode = choices.get("mode").and_then(Mode::named).unwrap_or(Mode::Code);
        let tools = TOOLS.iter().find(|(id, ..)| Some(*id) == choices.get("tools"));
        let access = match (mode, tools) {
            (Mode::Ask | Mode::Architect, _) => Access::READ_ONLY,
            (Mode::Code, Some((_, files, terminal))) => Access { files: *files, terminal: *terminal },
            (Mode::Code, None) => Access::FULL,
        };
        let temperature = TEMPERATURES.iter().find(|(id, ..)| Some(*id) == choices.get("temperature"));
        Self {
            mode,
            access,
            effort: choices.get("thought_level").and_then(Effort::named),
            temperature: temperature.map(|(.., value)| *value),
            project_instructions: choices.is_on("project_instructions").unwrap_or(true),
        }
    }
}

impl Settings {
    /// Whether tools of MCP servers may be used that do more than read.
    pub(crate) fn may_change(&self) -> bool {
        self.access.files == FileAccess::ReadWrite
    }

    /// Whether the model has the tool `plan`.
    pub(crate) fn may_plan(&self) -> bool {
        match self.mode {
            Mode::Code | Mode::Architect => true,
            Mode::Ask => false,
        }
    }
}

/// The chosen model, or the first one.
pub(crate) fn model<'a>(models: &'a [Model], chosen: &Choices) -> Option<&'a Model> {
    let named = models.iter().find(|model| Some(model.id.as_str()) == chosen.get("model"));
    named.or_else(|| models.first())
}
