//! Maps the names of tools to names that providers accept (letters, digits, `_` and `-`) and back. Avoids names that
//! providers reserve for their own tools.

use std::collections::HashMap;

use super::request::ToolDefinition;

/// The maximum length of a name that all providers accept.
const LONGEST: usize = 64;
/// Names that providers reserve for their own tools.
const TAKEN: [&str; 5] =
    ["web_search", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// The names of the tools of one request, in both directions.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    there: HashMap<String, String>,
    back: HashMap<String, String>,
}

impl ToolNames {
    pub(super) fn of(tools: &[ToolDefinition]) -> Self {
        let mut names = Self::default();
        for tool in tools {
            let wire = names.free(&plain(&tool.name));
            names.back.insert(wire.clone(), tool.name.clone());
            names.there.insert(tool.name.clone(), wire);
        }
        names
    }

    /// The name for the provider. Also covers tools that are only in the conversation.
    pub(super) fn wire(&self, name: &str) -> String {
        self.there.get(name).cloned().unwrap_or_else(|| plain(name))
    }

    /// The real name of a tool, or the same name if a model made it up.
    pub(super) fn real(&self, wire: &str) -> String {
        self.back.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }

    fn free(&self, wanted: &str) -> String {
        let numbered = (2..).map(|number| {
            let number = format!("_{number}");
            format!("{}{number}", &wanted[..wanted.len().min(LONGEST - number.len())])
        });
        let mut all = std::iter::once(wanted.to_owned()).chain(numbered);
        all.find(|name| !self.back.contains_key(name)).expect("numbers do not end")
    }
}

fn plain(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let mut plain: String = name.chars().map(allowed).collect();
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        plain.insert(0, '_');
    }
    if TAKEN.contains(&plain.as_str()) {
        plain.push('_');
    }
    plain.truncate(LONGEST);
    plain
}

#[cfg(test)]
mod tests {
    use super::super::request::ToolDefinition;
    use super::ToolNames;

    #[test]
    fn every_name_is_mapped_back() {
        let long = "server.".repeat(20);
        let real = ["files.read", "files_read", "web_search", "7up", &long, &format!("{long}x"), "läuft"];
        let tool = |name: &&str| ToolDefinition {
            name: (*name).to_owned(),
            description: String::new(),
            schema: serde_json::json!({"type": "object"}),
        };
        let names = ToolNames::of(&real.iter().map(tool).collect::<Vec<_>>());
        let wire: Vec<String> = real.iter().map(|name| names.wire(name)).collect();
        assert_eq!(wire[..4], ["files_read", "files_read_2", "web_search_", "_7up"]);
        for (real, wire) in real.iter().zip(&wire) {
            assert!(wire.len() <= 64 && wire.is_ascii(), "{wire}");
            assert_eq!(names.real(wire), *real);
        }
        assert_eq!(names.wire("gone.tool"), "gone_tool");
        assert_eq!(names.real("made_up"), "made_up");
    }
}
