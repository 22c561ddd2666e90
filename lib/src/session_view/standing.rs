//! Reads what a view has of the session as a whole: title, options with mode and model, commands, usage; and the choices
//! of a permission question.

use rethread_core::Subject;
use serde_json::Value;

use super::{SessionView, ViewItem, ViewQuestion};

/// An option of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is about: `mode`, `model`, `thought_level`, …
    pub category: Option<String>,
    /// The current value: a string, or a boolean.
    pub value: Value,
    /// The values to choose from; empty for an option that is on or off.
    pub choices: Vec<OptionChoice>,
}

impl OptionInfo {
    /// The current value as text.
    #[must_use]
    pub fn value_text(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChoice {
    /// The value.
    pub value: String,
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The name of the group that it is in.
    pub group: Option<String>,
}

/// A slash command of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to type after it.
    pub hint: Option<String>,
}

/// The tokens that a session has used.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenUsage {
    /// The tokens in the context.
    pub used: u64,
    /// The size of the context.
    pub size: u64,
    /// What the session has cost.
    pub cost: Option<SessionCost>,
}

/// The cost of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionCost {
    /// The amount.
    pub amount: f64,
    /// The currency: `USD`.
    pub currency: String,
}

/// An answer that a permission question offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionChoice {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

impl SessionView {
    /// The title.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.info.text_member("title")
    }

    /// The options, with mode and model.
    #[must_use]
    pub fn options(&self) -> Vec<OptionInfo> {
        list(&self.options["configOptions"]).map(option).collect()
    }

    /// The first option of a category: `mode` or `model`.
    #[must_use]
    pub fn option_of(&self, category: &str) -> Option<OptionInfo> {
        self.options().into_iter().find(|option| option.category.as_deref() == Some(category))
    }

    /// The slash commands.
    #[must_use]
    pub fn commands(&self) -> Vec<SlashCommand> {
        let command = |command: &Value| SlashCommand {
            name: text(&command["name"]),
            description: text(&command["description"]),
            hint: command["input"]["hint"].as_str().map(str::to_owned),
        };
        list(&self.commands["availableCommands"]).map(command).collect()
    }

    /// The used tokens and the cost.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        let (used, size) = (self.usage["used"].as_u64()?, self.usage["size"].as_u64()?);
        let cost = &self.usage["cost"];
        let cost = cost["amount"].as_f64().map(|amount| {
            let currency = cost["currency"].as_str().unwrap_or("USD").to_owned();
            SessionCost { amount, currency }
        });
        Some(TokenUsage { used, size, cost })
    }

    /// The plan that was announced last.
    #[must_use]
    pub fn plan(&self) -> Option<&ViewItem> {
        self.items().iter().rfind(|item| item.subject == Subject::Plan)
    }
}

impl ViewQuestion {
    /// The answers that a permission question offers.
    #[must_use]
    pub fn choices(&self) -> Vec<PermissionChoice> {
        let choice = |choice: &Value| PermissionChoice {
            id: text(&choice["optionId"]),
            name: text(&choice["name"]),
            kind: text(&choice["kind"]),
        };
        list(&self.body["options"]).map(choice).collect()
    }
}

fn option(option: &Value) -> OptionInfo {
    let choices = list(&option["options"]).flat_map(|entry| match entry["options"].as_array() {
        Some(values) => values.iter().map(|value| choice(value, entry["name"].as_str())).collect(),
        None => vec![choice(entry, None)],
    });
    OptionInfo {
        id: text(&option["configId"]),
        name: text(&option["name"]),
        category: option["category"].as_str().map(str::to_owned),
        value: option["currentValue"].clone(),
        choices: choices.collect(),
    }
}

fn choice(value: &Value, group: Option<&str>) -> OptionChoice {
    OptionChoice {
        value: text(&value["value"]),
        name: text(&value["name"]),
        description: value["description"].as_str().map(str::to_owned),
        group: group.map(str::to_owned),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
