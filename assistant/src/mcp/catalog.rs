//! What a server offers: tools, prompts, resources, read from its lists with patience for lies and within bounds.
//! Asks for nothing.

use rethread_core::{Fields, Json};
use serde_json::Value;

use super::content::cut;
use super::limits::Limits;
use super::schema;
use super::scrub::Scrub;

/// The longest description and the longest name that are passed on, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;
const LONGEST_NAME: usize = 1024;
/// The most arguments of a prompt.
const MOST_ARGUMENTS: usize = 32;

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    /// The name that people see: `server.tool`.
    pub shown_name: String,
    /// The name for model providers, of letters, digits, `_` and `-`, at most 64 of them.
    pub provider_name: String,
    /// What people call the server.
    pub server: String,
    /// The server's own name for it.
    pub name: String,
    /// What people call it, if the server says.
    pub title: Option<String>,
    /// What it does, in the server's words.
    pub description: String,
    /// What its arguments must be: always the schema of an object.
    pub schema: Value,
    /// What is wrong with it, if anything.
    pub note: Option<String>,
    /// The server says that it changes nothing. It may be lying.
    pub claims_read_only: bool,
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The name that people see: `server.prompt`.
    pub shown_name: String,
    /// What people call the server.
    pub server: String,
    /// The server's own name for it.
    pub name: String,
    /// What it is for, in the server's words.
    pub description: String,
    /// What it wants to know.
    pub arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// What it is, in the server's words.
    pub description: String,
    /// It cannot do without.
    pub is_required: bool,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What people call the server.
    pub server: String,
    /// Its name for reading it.
    pub uri: String,
    /// What people call it.
    pub title: String,
    /// What it is, in the server's words.
    pub description: String,
    /// Its format, if the server says.
    pub mime_type: Option<String>,
}

/// All that one server offers. Names are given when several are put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Catalog {
    pub(super) tools: Vec<McpTool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Resource>,
    /// What is wrong with it, for people.
    pub(super) notes: Vec<String>,
}

/// Reads the lists of one server.
pub(super) struct CatalogReader<'a> {
    pub(super) server: &'a str,
    pub(super) limits: &'a Limits,
    pub(super) scrub: &'a Scrub,
}

impl CatalogReader<'_> {
    /// A tool; `None` if it has no name.
    pub(super) fn tool(&self, item: &Json) -> Option<McpTool> {
        let fields = item.fields();
        let name = name_in(&fields, "name")?;
        let (schema, note) = schema::usable(fields.get("inputSchema"), self.limits.schema);
        let hints = fields.get("annotations").map(Json::fields).unwrap_or_default();
        Some(McpTool {
            shown_name: String::new(),
            provider_name: String::new(),
            server: self.server.to_owned(),
            name,
            title: fields.text("title").or_else(|| hints.text("title")).map(|title| self.text(&title)),
            description: self.description(&fields),
            schema,
            note: note.map(|note| format!("{note}, so its arguments are not checked")),
            claims_read_only: is_true(&hints, "readOnlyHint"),
        })
    }

    /// A prompt; `None` if it has no name.
    pub(super) fn prompt(&self, item: &Json) -> Option<Prompt> {
        let fields = item.fields();
        let argument = |item: &Json| {
            let fields = item.fields();
            let is_required = is_true(&fields, "required");
            Some(Argument {
                name: name_in(&fields, "name")?,
                description: self.description(&fields),
                is_required,
            })
        };
        let arguments = fields.get("arguments").and_then(Json::items).unwrap_or_default();
        Some(Prompt {
            shown_name: String::new(),
            server: self.server.to_owned(),
            name: name_in(&fields, "name")?,
            description: self.description(&fields),
            arguments: arguments.iter().take(MOST_ARGUMENTS).filter_map(argument).collect(),
        })
    }

    /// A resource; `None` if it cannot be named.
    pub(super) fn resource(&self, item: &Json) -> Option<Resource> {
        let fields = item.fields();
        let uri = name_in(&fields, "uri")?;
        let title = fields.text("title").or_else(|| fields.text("name")).unwrap_or_else(|| uri.clone());
        Some(Resource {
            server: self.server.to_owned(),
            uri,
            title: self.text(&title),
            description: self.description(&fields),
            mime_type: fields.text("mimeType").map(|kind| self.text(&kind)),
        })
    }

    fn description(&self, fields: &Fields) -> String {
        self.text(&fields.text("description").unwrap_or_default())
    }

    fn text(&self, text: &str) -> String {
        // Struck out first: a cut may go through the middle of a secret.
        cut(&self.scrub.result(text), LONGEST_TEXT).to_owned()
    }
}

fn name_in(fields: &Fields, member: &str) -> Option<String> {
    fields.text(member).filter(|name| !name.trim().is_empty() && name.len() <= LONGEST_NAME)
}

fn is_true(fields: &Fields, member: &str) -> bool {
    fields.get(member).is_some_and(|value| value.text() == "true")
}
