//! Asks the user for permission to run a call: the text of the question, what "always" and "never" cover, and settings that
//! forbid the call.

use rethread::author::{Decision, Permission, Tool};
use serde_json::{Map, Value, json};

use crate::call_context::{CallContext, CallResult, cancelled, failed};
use crate::choice::Settings;
use crate::memory::{self, Rule};
use crate::model;
use crate::tools::visible::{has_hidden, visible, visible_json, visible_line};
use crate::tools::{Effect, ToolError};

/// The maximum length of the details in a description, in bytes. Every command is shorter.
const LONGEST_DESCRIBED: usize = 256 * 1024;

/// A question to the user.
pub(crate) struct PermissionRequest {
    /// The short question.
    pub(crate) title: String,
    /// Where and how the call runs.
    pub(crate) facts: String,
    /// The complete details, as Markdown.
    pub(crate) whole: String,
    /// The complete details, as content of the tool call.
    pub(crate) content: Value,
    /// The effect that the settings must allow.
    pub(crate) effect: Effect,
    /// What "always" and "never" cover.
    pub(crate) scope: RuleScope,
}

/// What a permanent answer covers.
pub(crate) struct RuleScope {
    /// The key of the stored rule.
    pub(crate) key: String,
    /// What is allowed, to follow "Always allow".
    pub(crate) allowed: String,
    /// What is rejected, to follow "Never allow".
    pub(crate) refused: String,
    /// A sentence that explains what "always" covers.
    pub(crate) sentence: String,
    /// Whether "always" is possible.
    pub(crate) always: AlwaysAllow,
}

/// Whether a call can be allowed permanently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlwaysAllow {
    /// The user can choose "always".
    Possible,
    /// The user is asked each time. A permanent rejection still applies.
    NotPossible,
}

impl CallContext<'_> {
    /// Asks for permission, unless a rule exists or the settings forbid the call.
    pub(crate) async fn permitted(
        &self,
        call: &model::ToolCall,
        arguments: &Value,
        tool: &Tool,
        ask: PermissionRequest,
    ) -> Result<(), CallResult> {
        let rule = memory::rule(&self.turn.history(), &ask.scope.key);
        let answer = match rule {
            _ if !self.allows(ask.effect) => None,
            Some(Rule::Allow) if ask.scope.always == AlwaysAllow::Possible => Some("allow".to_owned()),
            Some(Rule::Reject) => None,
            Some(Rule::Allow) | None => Some(self.ask(call, arguments, tool, &ask).await),
        };
        match answer.as_deref() {
            _ if self.turn.is_cancelled() => {
                tool.stopped().await;
                Err(cancelled())
            }
            // The settings may have changed while the question was open.
            _ if !self.allows(ask.effect) => Err(failed(tool, &not_allowed(&call.name)).await),
            Some("allow" | "allow_always") => Ok(()),
            Some(_) | None => {
                Err(failed(tool, "the user rejected this call; do not try to do the same in another way")
                    .await)
            }
        }
    }

    /// Whether the current settings allow this effect.
    pub(crate) fn allows(&self, effect: Effect) -> bool {
        self.settings().access.allows(effect)
    }

    async fn ask(
        &self,
        call: &model::ToolCall,
        arguments: &Value,
        tool: &Tool,
        ask: &PermissionRequest,
    ) -> String {
        let forbidden = self.turn.wait_for_choice(|choices| !Settings::of(choices).access.allows(ask.effect));
        let question = question(ask, arguments);
        let Decision::Chosen(answer) = self.turn.permission_until(tool, &question, forbidden).await else {
            return String::new();
        };
        let rule = match answer.as_str() {
            "allow_always" => Some(Rule::Allow),
            "reject_always" => Some(Rule::Reject),
            _ => None,
        };
        if let Some(rule) = rule {
            let mut meta = memory::written_call(call, self.round);
            meta["rethread"]["rule"] = memory::written_rule(&ask.scope.key, rule);
            tool.update(json!({"_meta": meta})).await;
        }
        answer
    }
}

/// The error for a tool that the settings do not allow.
pub(crate) fn not_allowed(tool: &str) -> String {
    ToolError::NotAllowed { name: tool.to_owned() }.text_for_model()
}

fn question(ask: &PermissionRequest, arguments: &Value) -> Permission {
    let mut shown = Map::new();
    shown.insert("content".to_owned(), ask.content.clone());
    shown.insert("rawInput".to_owned(), visible_json(arguments));
    let option = |id: &str, name: String, kind| (id.to_owned(), name, kind);
    let RuleScope { allowed, refused, always, .. } = &ask.scope;
    let mut options = vec![option("allow", "Allow".to_owned(), "allow_once")];
    if *always == AlwaysAllow::Possible {
        options.push(option("allow_always", format!("Always allow {allowed}"), "allow_always"));
    }
    options.push(option("reject", "Reject".to_owned(), "reject_once"));
    if *always == AlwaysAllow::Possible {
        options.push(option("reject_always", format!("Never allow {refused}"), "reject_always"));
    }
    Permission { title: ask.title.clone(), description: Some(description(ask, arguments)), shown, options }
}

fn description(ask: &PermissionRequest, arguments: &Value) -> String {
    let mut facts = vec![ask.facts.as_str(), ask.scope.sentence.as_str()];
    if is_hiding(arguments) {
        facts.push("Invisible characters are written as escapes such as \\u{1b}.");
    }
    let facts = facts.join(" ");
    if ask.whole.len() > LONGEST_DESCRIBED {
        return format!("{facts} It is {} bytes long: all of it is in the content.", ask.whole.len());
    }
    format!("{facts}\n\n{}", ask.whole)
}

fn is_hiding(value: &Value) -> bool {
    match value {
        Value::String(text) => has_hidden(text),
        Value::Array(items) => items.iter().any(is_hiding),
        Value::Object(members) => members.iter().any(|(name, value)| has_hidden(name) || is_hiding(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A text as a Markdown code block with invisible characters escaped; outside a code block, Markdown can hide text.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let text = visible(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// A text on one line as Markdown code with invisible characters escaped.
pub(crate) fn code(text: &str) -> String {
    let text = visible_line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    let space = if text.contains('`') { " " } else { "" };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A text as content of a tool call.
pub(crate) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

#[cfg(test)]
mod tests {
    use super::{code, fenced};

    #[test]
    fn a_text_cannot_end_its_code_block() {
        assert_eq!(fenced("sh", "ls"), "```sh\nls\n```");
        assert_eq!(fenced("sh", "a\n```\n<!-- rm -->\n"), "````sh\na\n```\n<!-- rm -->\n````");
        assert_eq!(fenced("sh", "a\u{1b}b"), "```sh\na\\u{1b}b\n```");
        assert_eq!(code("/a\n<!--"), "`/a\\n<!--`");
        assert_eq!(code("/a`b``c"), "``` /a`b``c ```");
    }
}
