//! What is said of a tool to a model and to a user. What it does is in its own file.

use serde_json::{Map, Value, json};

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does and how it is used.
    pub description: &'static str,
    /// The JSON Schema of its arguments.
    pub schema: Value,
    /// What kind of tool it is to users.
    pub kind: Kind,
    /// What it does to the world.
    pub effect: Effect,
}

/// The kinds of tools that there are here, as the protocol names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It searches.
    Search,
    /// It changes files.
    Edit,
    /// It runs a command.
    Execute,
}

impl Kind {
    /// The protocol's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Edit => "edit",
            Self::Execute => "execute",
        }
    }
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only looks.
    Reads,
    /// It changes files.
    Writes,
    /// It runs a command, which may do anything.
    Executes,
}

/// The schema of an object with these members; those of them that are named in `required` must be there.
pub(super) fn object<const N: usize>(members: [(&str, Value); N], required: &[&str]) -> Value {
    let members: Map<String, Value> =
        members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "properties": members, "required": required, "additionalProperties": false})
}

/// The schema of a text.
pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// The schema of a whole number within these bounds.
pub(super) fn number(lowest: u64, highest: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": lowest, "maximum": highest, "description": description})
}

/// The schema of a yes or no.
pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}
