//! Requests for permission and their outcomes. The first version asks about a tool call; the canonical shape has
//! a title and a subject. Which requests are open, and for whom, is known elsewhere.

use rethread_core::{Fields, Json};

use super::content::{describe, text_block};
use super::meta::{each, remark};
use super::tool_call::{Announced, Form, TerminalText, call_from_v1, call_to_v1, made_title};

const KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];
const YES: [&str; 6] = ["allow", "yes", "accept", "approve", "always", "ok"];

/// The canonical question for a request of the first version, without its session id.
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

/// The request of the first version for a canonical question, without a session id. `minted` names the tool
/// call where the question is about none.
#[must_use]
pub fn to_v1(question: &Json, minted: &str, terminals: &dyn TerminalText) -> Fields {
    let mut params = question.fields();
    params.take("sessionId");
    let title = params.take("title").and_then(|title| title.as_string()).unwrap_or_default();
    let description = params.take("description").and_then(|text| text.as_string());
    let subject = params.take("subject").map(|subject| subject.fields()).unwrap_or_default();
    let asked = Asked { title, description };
    let call = match subject.text("type").as_deref() {
        Some("tool_call") => of_call(subject, &asked, terminals),
        Some("command") => of_command(subject, &asked, minted),
        _ => of_other(subject, &asked, minted),
    };
    params.set("toolCall", call.json());
    if let Some(options) = params.get("options") {
        let options = each(options, option_to_v1);
        params.set("options", options);
    }
    params
}

/// The outcome of the first version for a canonical answer. One that it does not have approves nothing.
#[must_use]
pub fn answer_to_v1(answer: &Json) -> Json {
    let mut fields = answer.fields();
    let outcome = fields.get("outcome").map(Json::fields).unwrap_or_default();
    if matches!(outcome.text("outcome").as_deref(), Some("selected" | "cancelled")) {
        return answer.clone();
    }
    let cancelled: Fields = [("outcome", Json::of("cancelled"))].into_iter().collect();
    remark(&mut fields, "outcome", outcome.json());
    fields.set("outcome", cancelled.json());
    fields.json()
}

struct Asked {
    title: String,
    description: Option<String>,
}

fn of_call(subject: Fields, asked: &Asked, terminals: &dyn TerminalText) -> Fields {
    let call = subject.get("toolCall").map(Json::fields).unwrap_or_default();
    let description = asked.description.as_deref().and_then(|text| not_shown_by(&call, text));
    let mut call = call_to_v1(call, Announced::Known, terminals);
    let own = call.text("title").filter(|title| !title.is_empty());
    let mut unsaid = Vec::new();
    match own {
        Some(own) if own != asked.title => unsaid.push(asked.title.clone()),
        Some(_) => {}
        None => call.set("title", Json::of(&title_or_made(asked, &call))),
    }
    unsaid.extend(description);
    say(&mut call, &unsaid);
    call
}

/// What a description says beside what the content of the canonical call shows anyway: a description may end with the
/// text of the content, or with the change in it as a block of Markdown.
fn not_shown_by(call: &Fields, description: &str) -> Option<String> {
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

/// A text up to its first block of Markdown that is a diff.
fn before_diff(text: &str) -> &str {
    let is_diff = |at: &usize| text[*at..].trim_start_matches(['\n', '`']).starts_with("diff\n");
    text.match_indices("\n\n```").map(|(at, _)| at).find(is_diff).map_or(text, |at| &text[..at])
}

fn title_or_made(asked: &Asked, call: &Fields) -> String {
    if asked.title.is_empty() { made_title(call) } else { asked.title.clone() }
}

/// Adds what the tool call does not say itself. Clients merge this call into the one they show, so a call that
/// brings no content must not be given any: that would wipe what is there.
fn say(call: &mut Fields, unsaid: &[String]) {
    if unsaid.is_empty() {
        return;
    }
    if let Some(mut items) = call.get("content").and_then(Json::items) {
        items.extend(unsaid.iter().map(|text| text_item(text)));
        call.set("content", Json::of(&items));
    } else {
        let title = call.text("title").unwrap_or_default();
        call.set("title", Json::of(&format!("{title}: {}", unsaid.join(": "))));
    }
}

fn of_command(subject: Fields, asked: &Asked, minted: &str) -> Fields {
    let command = subject.text("command").unwrap_or_default();
    let input: Fields =
        ["command", "cwd"].into_iter().filter_map(|name| Some((name, subject.get(name)?.clone()))).collect();
    let id = subject.text("toolCallId");
    let mut call = call_of(id.as_deref().unwrap_or(minted), &command, "execute");
    call.set("rawInput", input.json());
    let title = Some(asked.title.clone()).filter(|title| !title.is_empty() && *title != command);
    let unsaid: Vec<String> = title.into_iter().chain(asked.description.clone()).collect();
    if id.is_none() {
        call.set("content", Json::of::<[Json]>(&[]));
    }
    say(&mut call, &unsaid);
    remark(&mut call, "subject", subject.json());
    call
}

fn of_other(subject: Fields, asked: &Asked, minted: &str) -> Fields {
    let mut call = call_of(minted, &asked.title, "other");
    let mut items: Vec<Json> = asked.description.iter().map(|text| text_item(text)).collect();
    if !subject.is_empty() {
        items.push(text_item(&describe(&subject.json(), "subject")));
        remark(&mut call, "subject", subject.json());
    }
    call.set("content", Json::of(&items));
    call
}

fn call_of(id: &str, title: &str, kind: &str) -> Fields {
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
    remark(&mut fields, "kind", Json::of(&kind));
    fields.json()
}

fn allows(word: &str) -> bool {
    let word = word.trim_start_matches('_').to_lowercase();
    YES.iter().any(|yes| word.starts_with(yes))
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
    use crate::edge::v1::tool_call::TerminalView;
    use crate::edge::v1::typed::{holds, json, parses};

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
        holds::<v1::RequestPermissionRequest>(&with_session(params.clone()));
        expect.assert_eq(params.json().text());
    }

    #[test]
    fn a_request_of_the_first_version_goes_and_returns() {
        let params = json(
            r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Run it","kind":"execute","content":null},"options":[{"optionId":"o","name":"Yes","kind":"allow_once"}],"_meta":{"k":1}}"#,
        );
        let question = from_v1(params.fields(), "fallback");
        holds::<v2::RequestPermissionRequest>(&with_session(question.fields()));
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
    fn what_the_call_does_not_say_is_added() {
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
    fn what_the_content_shows_is_not_said_again() {
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
    fn no_subject_or_an_unknown_one() {
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
        holds::<v1::RequestPermissionResponse>(&selected);
        holds::<v2::RequestPermissionResponse>(&selected);
        assert_eq!(answer_to_v1(&selected), selected);
        let other = answer_to_v1(&json(r#"{"outcome":{"outcome":"_later"}}"#));
        let typed: v1::RequestPermissionResponse = parses(&other);
        assert!(matches!(typed.outcome, v1::RequestPermissionOutcome::Cancelled));
    }
}
