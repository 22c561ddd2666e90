//! The tools, prompts and resources of a server, decoded from its lists with length limits. Tolerates invalid members.
//! Sends no requests.

use rethread_core::{Fields, Json};
use serde_json::Value;

use super::content::cut;
use super::limits::Limits;
use super::schema;
use super::scrub::Scrub;

/// The maximum lengths of a description and of a name, in bytes.
const LONGEST_TEXT: usize = 8 * 1024;
const LONGEST_NAME: usize = 1024;
/// The maximum number of arguments of a prompt.
const MOST_ARGUMENTS: usize = 32;

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    /// The name for users: `server.tool`.
    pub shown_name: String,
    /// The name for model providers: at most 64 letters, digits, `_` and `-`.
    pub provider_name: String,
    /// The configured name of the server.
    pub server: String,
    /// The name at the server.
    pub name: String,
    /// The title, if the server has one.
    pub title: Option<String>,
    /// The server's description.
    pub description: String,
    /// The schema of the arguments, always of an object.
    pub schema: Value,
    /// A problem with the tool, if there is one.
    pub note: Option<String>,
    /// Whether the server claims that the tool changes nothing. This is not verified.
    pub claims_read_only: bool,
}

/// A prompt of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The name for users: `server.prompt`.
    pub shown_name: String,
    /// The configured name of the server.
    pub server: String,
    /// The name at the server.
    pub name: String,
    /// The server's description.
    pub description: String,
    /// The arguments.
    pub arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The unique name.
    pub name: String,
    /// The server's description.
    pub description: String,
    /// Whether it is required.
    pub is_required: bool,
}

/// A resource of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The configured name of the server.
    pub server: String,
    /// The URI.
    pub uri: String,
    /// The title.
    pub title: String,
    /// The server's description.
    pub description: String,
    /// The media type, if the server has one.
    pub mime_type: Option<String>,
}

/// The lists of one server. Unique names are assigned later, when all servers are combined.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Catalog {
    pub(super) tools: Vec<McpTool>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) resources: Vec<Resource>,
    /// Problems with the lists, for users.
    pub(super) notes: Vec<String>,
}

/// Decodes the lists of one server.
pub(super) struct CatalogReader<'a> {
    pub(super) server: &'a str,
    pub(super) limits: &'a Limits,
    pub(super) scrub: &'a Scrub,
}

impl CatalogReader<'_> {
    /// Decodes a tool; `None` if it has no name.
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

    /// Decodes a prompt; `None` if it has no name.
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

    /// Decodes a resource; `None` if it has no URI.
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
        // Secrets are removed first: the cut may split one.
        cut(&self.scrub.result(text), LONGEST_TEXT).to_owned()
    }
}

fn name_in(fields: &Fields, member: &str) -> Option<String> {
    fields.text(member).filter(|name| !name.trim().is_empty() && name.len() <= LONGEST_NAME)
}

fn is_true(fields: &Fields, member: &str) -> bool {
    fields.get(member).is_some_and(|value| value.text() == "true")
}
