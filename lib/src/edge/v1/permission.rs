//! Converts permission requests and their outcomes. Version 1 asks about a tool call; the canonical form has a title
//! and a subject. Does not track which requests are open.

use rethread_core::{Fields, Json};

use super::content::{describe, text_block};
use super::meta::{each, set_own_meta};
use super::tool_call::{Announced, Form, TerminalText, call_from_v1, call_to_v1, default_title};

const KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];
const ALLOW_PREFIXES: [&str; 6] = ["allow", "yes", "accept", "approve", "always", "ok"];

/// Converts a v1 request to a canonical question without session id.
#[must_use]
pub fn from_v1(mut params: Fields, fallback_title: &str) -> Json {
    params.take("sessionId");
    let call =
        params.take("toolCall").map(|call| call_from_v1(call.fields(), Form::Patch)).unwrap_or_default();
    let title = call.text("title").filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| fallback_title.to_owned());
    let subject: Fields = [("type", Json::of("tool_call")), ("toolCall", call.json())].into_iter().collect();
    let mut question: Fields =
        [("title", Json::of(&title)), ("subject", subject.json())].into_iter().collect();
    for (name, value) in params.iter() {
        question.set(name, value.clone());
    }
    question.json()
}

/// Converts a canonical question to a v1 request without session id. `minted` is the tool call id to use if the
/// question is not about a tool call.
#[must_use]
pub fn to_v1(question: &Json, minted: &str, terminals: &dyn TerminalText) -> Fields {
    let mut params = question.fields();
    params.take("sessionId");
    let title = params.take("title").and_then(|title| title.as_string()).unwrap_or_default();
    let description = params.take("description").and_then(|text| text.as_string());
    let subject = params.take("subject").map(|subject| subject.fields()).unwrap_or_default();
    let text = QuestionText { title, description };
    let call = match subject.text("type").as_deref() {
        Some("tool_call") => call_from_tool_call(subject, &text, terminals),
        Some("command") => call_from_command(subject, &text, minted),
        _ => call_from_unknown(subject, &text, minted),
    };
    params.set("toolCall", call.json());
    if let Some(options) = params.get("options") {
        let options = each(options, option_to_v1);
        params.set("options", options);
    }
    params
}

/// Converts a canonical answer to a v1 outcome. An unknown outcome becomes `cancelled`, which approves nothing.
#[must_use]
pub fn answer_to_v1(answer: &Json) -> Json {
    let mut fields = answer.fields();
    let outcome = fields.get("outcome").map(Json::fields).unwrap_or_default();
    if matches!(outcome.text("outcome").as_deref(), Some("selected" | "cancelled")) {
        return answer.clone();
    }
    let cancelled: Fields = [("outcome", Json::of("cancelled"))].into_iter().collect();
    set_own_meta(&mut fields, "outcome", outcome.json());
    fields.set("outcome", cancelled.json());
    fields.json()
}

struct QuestionText {
    title: String,
    description: Option<String>,
}

fn call_from_tool_call(subject: Fields, text: &QuestionText, terminals: &dyn TerminalText) -> Fields {
    let call = subject.get("toolCall").map(Json::fields).unwrap_or_default();
    let description = text.description.as_deref().and_then(|text| description_beyond_content(&call, text));
    let mut call = call_to_v1(call, Announced::Known, terminals);
    let own = call.text("title").filter(|title| !title.is_empty());
    let mut missing = Vec::new();
    match own {
        Some(own) if own != text.title => missing.push(text.title.clone()),
        Some(_) => {}
        None => call.set("title", Json::of(&title_or_default(text, &call))),
    }
    missing.extend(description);
    add_missing(&mut call, &missing);
    call
}

/// The part of a description that the content of the call does not show anyway: a description may end with the text of
/// the content, or with its diff as a Markdown block.
fn description_beyond_content(call: &Fields, description: &str) -> Option<String> {
    let mut left = description;
    for item in call.get("content").and_then(Json::items).unwrap_or_default() {
        let item = item.fields();
        left = match item.text("type").as_deref() {
            Some("content") => {
                let text = item.get("content").and_then(|block| block.fields().text("text"));
                text.and_then(|text| left.strip_suffix(text.as_str())).unwrap_or(left)
            }
            Some("diff") => before_diff(left),
            Some(_) | None => left,
        };
    }
    let left = left.trim_end();
    (!left.is_empty()).then(|| left.to_owned())
}

/// The text before its first Markdown block that is a diff.
fn before_diff(text: &str) -> &str {
    let is_diff = |at: &usize| text[*at..].trim_start_matches(['\n', '`']).starts_with("diff\n");
    text.match_indices("\n\n```").map(|(at, _)| at).find(is_diff).map_or(text, |at| &text[..at])
}

fn title_or_default(text: &QuestionText, call: &Fields) -> String {
    if text.title.is_empty() { default_title(call) } else { text.title.clone() }
}

/// Adds the texts that the tool call does not contain. Clients merge this call into the one they display, so a call
/// without content must not get any: that would overwrite what is displayed.
fn add_missing(call: &mut Fields, missing: &[String]) {
    if missing.is_empty() {
        return;
    }
    if let Some(mut items) = call.get("content").and_then(Json::items) {
        items.extend(missing.iter().map(|text| text_item(text)));
        call.set("content", Json::of(&items));
    } else {
        let title = call.text("title").unwrap_or_default();
        call.set("title", Json::of(&format!("{title}: {}", missing.join(": "))));
    }
}

fn call_from_command(subject: Fields, text: &QuestionText, minted: &str) -> Fields {
    let command = subject.text("command").unwrap_or_default();
    let input: Fields =
        ["command", "cwd"].into_iter().filter_map(|name| Some((name, subject.get(name)?.clone()))).collect();
    let id = subject.text("toolCallId");
    let mut call = new_call(id.as_deref().unwrap_or(minted), &command, "execute");
    call.set("rawInput", input.json());
    let title = Some(text.title.clone()).filter(|title| !title.is_empty() && *title != command);
    let missing: Vec<String> = title.into_iter().chain(text.description.clone()).collect();
    if id.is_none() {
        call.set("content", Json::of::<[Json]>(&[]));
    }
    add_missing(&mut call, &missing);
    set_own_meta(&mut call, "subject", subject.json());
    call
}

fn call_from_unknown(subject: Fields, text: &QuestionText, minted: &str) -> Fields {
    let mut call = new_call(minted, &text.title, "other");
    let mut items: Vec<Json> = text.description.iter().map(|text| text_item(text)).collect();
    if !subject.is_empty() {
        items.push(text_item(&describe(&subject.json(), "subject")));
        set_own_meta(&mut call, "subject", subject.json());
    }
    call.set("content", Json::of(&items));
    call
}

fn new_call(id: &str, title: &str, kind: &str) -> Fields {
    let members = [("toolCallId", id), ("title", title), ("kind", kind), ("status", "pending")];
    members.into_iter().map(|(name, value)| (name, Json::of(value))).collect()
}

fn text_item(text: &str) -> Json {
    [("type", Json::of("content")), ("content", text_block(text))].into_iter().collect::<Fields>().json()
}

fn option_to_v1(option: &Json) -> Json {
    let mut fields = option.fields();
    let kind = fields.text("kind").unwrap_or_default();
    if KINDS.contains(&kind.as_str()) {
        return option.clone();
    }
    let name = fields.text("name").unwrap_or_default();
    let nearest =
        if allows(&kind) || (!refuses(&kind) && allows(&name)) { "allow_once" } else { "reject_once" };
    fields.set("kind", Json::of(nearest));
    set_own_meta(&mut fields, "kind", Json::of(&kind));
    fields.json()
}

fn allows(word: &str) -> bool {
    let word = word.trim_start_matches('_').to_lowercase();
    ALLOW_PREFIXES.iter().any(|yes| word.starts_with(yes))
}

fn refuses(word: &str) -> bool {
    let word = word.trim_start_matches('_').to_lowercase();
    ["reject", "deny", "no", "never"].iter().any(|no| word.starts_with(no))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};
    use crate::edge::v1::tool_call::TerminalView;

    struct Own;

    impl TerminalText for Own {
        fn render(&self, terminal: &str) -> TerminalView {
            TerminalView::Own(terminal.to_owned())
        }
    }

    fn with_session(mut params: Fields) -> Json {
        params.set("sessionId", Json::of("s"));
        params.json()
    }

    fn shown(question: &str, expect: &Expect) {
        parses::<v2::RequestPermissionRequest>(&with_session(json(question).fields()));
        let params = to_v1(&json(question), "minted", &Own);
        roundtrips::<v1::RequestPermissionRequest>(&with_session(params.clone()));
        expect.assert_eq(params.json().text());
    }

    #[test]
    fn a_v1_request_round_trips() {
        let params = json(
            r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Run it","kind":"execute","content":null},"options":[{"optionId":"o","name":"Yes","kind":"allow_once"}],"_meta":{"k":1}}"#,
        );
        let question = from_v1(params.fields(), "fallback");
        roundtrips::<v2::RequestPermissionRequest>(&with_session(question.fields()));
        expect![[r#"{"title":"Run it","subject":{"type":"tool_call","toolCall":{"toolCallId":"c","title":"Run it","kind":"execute"}},"options":[{"optionId":"o","name":"Yes","kind":"allow_once"}],"_meta":{"k":1}}"#]]
        .assert_eq(question.text());
        shown(
            question.text(),
            &expect![[
                r#"{"options":[{"optionId":"o","name":"Yes","kind":"allow_once"}],"_meta":{"k":1},"toolCall":{"toolCallId":"c","title":"Run it","kind":"execute"}}"#
            ]],
        );
    }

    #[test]
    fn a_call_without_a_title_gets_the_fallback() {
        let question = from_v1(json(r#"{"toolCall":{"toolCallId":"c"},"options":[]}"#).fields(), "May I?");
        assert_eq!(question.fields().text("title").as_deref(), Some("May I?"));
    }

    #[test]
    fn title_and_description_are_added_if_the_call_lacks_them() {
        shown(
            r#"{"title":"Edit a","description":"It is yours","subject":{"type":"tool_call","toolCall":{"toolCallId":"c"}},"options":[]}"#,
            &expect![[r#"{"options":[],"toolCall":{"toolCallId":"c","title":"Edit a: It is yours"}}"#]],
        );
        shown(
            r#"{"title":"Sure?","subject":{"type":"tool_call","toolCall":{"toolCallId":"c","title":"Edit a","content":[]}},"options":[]}"#,
            &expect![[
                r#"{"options":[],"toolCall":{"toolCallId":"c","title":"Edit a","content":[{"type":"content","content":{"type":"text","text":"Sure?"}}]}}"#
            ]],
        );
    }

    #[test]
    fn a_description_that_repeats_the_content_is_left_out() {
        shown(
            r#"{"title":"Run a?","description":"In /w.\n\n`a`","subject":{"type":"tool_call","toolCall":{"toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"`a`"}}],"rawInput":{"command":"a"}}},"options":[]}"#,
            &expect![[
                r#"{"options":[],"toolCall":{"toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"`a`"}},{"type":"content","content":{"type":"text","text":"In /w."}}],"rawInput":{"command":"a"},"title":"Run a?"}}"#
            ]],
        );
    }

    #[test]
    fn a_command_becomes_a_call() {
        shown(
            r#"{"title":"Run a command","subject":{"type":"command","command":"ls","cwd":"/w"},"options":[]}"#,
            &expect![[
                r#"{"options":[],"toolCall":{"toolCallId":"minted","title":"ls","kind":"execute","status":"pending","rawInput":{"command":"ls","cwd":"/w"},"content":[{"type":"content","content":{"type":"text","text":"Run a command"}}],"_meta":{"rethread":{"subject":{"type":"command","command":"ls","cwd":"/w"}}}}}"#
            ]],
        );
    }

    #[test]
    fn a_missing_or_unknown_subject_becomes_a_call() {
        shown(
            r#"{"title":"Trust it?","description":"New folder","options":[]}"#,
            &expect![[
                r#"{"options":[],"toolCall":{"toolCallId":"minted","title":"Trust it?","kind":"other","status":"pending","content":[{"type":"content","content":{"type":"text","text":"New folder"}}]}}"#
            ]],
        );
        shown(
            r#"{"title":"Open?","subject":{"type":"_url","url":"https://x"},"options":[]}"#,
            &expect![[
                r#"{"options":[],"toolCall":{"toolCallId":"minted","title":"Open?","kind":"other","status":"pending","_meta":{"rethread":{"subject":{"type":"_url","url":"https://x"}}},"content":[{"type":"content","content":{"type":"text","text":"[subject of type _url, which this client cannot show] https://x"}}]}}"#
            ]],
        );
    }

    #[test]
    fn an_unknown_kind_of_option_is_allowed_or_rejected_once() {
        for (kind, name, nearest) in [
            ("allow_session", "For now", "allow_once"),
            ("_x", "Yes, please", "allow_once"),
            ("reject_session", "Yes", "reject_once"),
            ("_x", "Whatever", "reject_once"),
        ] {
            let option = serde_json::json!({"optionId": "o", "name": name, "kind": kind});
            let shown = option_to_v1(&option.into());
            parses::<v1::PermissionOption>(&shown);
            assert_eq!(shown.fields().text("kind").as_deref(), Some(nearest), "{kind} {name}");
        }
    }

    #[test]
    fn an_unknown_outcome_approves_nothing() {
        let selected = json(r#"{"outcome":{"outcome":"selected","optionId":"o"}}"#);
        roundtrips::<v1::RequestPermissionResponse>(&selected);
        roundtrips::<v2::RequestPermissionResponse>(&selected);
        assert_eq!(answer_to_v1(&selected), selected);
        let other = answer_to_v1(&json(r#"{"outcome":{"outcome":"_later"}}"#));
        let typed: v1::RequestPermissionResponse = parses(&other);
        assert!(matches!(typed.outcome, v1::RequestPermissionOutcome::Cancelled));
    }
}
