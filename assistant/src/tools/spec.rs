//! The specification of a tool: name, description, JSON schema, kind and effect. Also builders for schemas.

use serde_json::{Map, Value, json};

/// The specification of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The unique name.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// The JSON schema of the arguments.
    pub schema: Value,
    /// The kind of tool, for users.
    pub kind: Kind,
    /// What the tool may change.
    pub effect: Effect,
}

/// The kind of a tool, as in the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads files.
    Read,
    /// Searches files.
    Search,
    /// Changes files.
    Edit,
    /// Runs a command.
    Execute,
}

impl Kind {
    /// The name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Edit => "edit",
            Self::Execute => "execute",
        }
    }
}

/// What a tool may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only reads.
    Reads,
    /// Changes files.
    Writes,
    /// Anything: it runs a command.
    Executes,
}

/// The schema of an object with these members; those in `required` are required.
pub(super) fn object<const N: usize>(members: [(&str, Value); N], required: &[&str]) -> Value {
    let members: Map<String, Value> =
        members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "properties": members, "required": required, "additionalProperties": false})
}

/// The schema of a string.
pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// The schema of an integer within these bounds.
pub(super) fn number(lowest: u64, highest: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": lowest, "maximum": highest, "description": description})
}

/// The schema of a boolean.
pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}
