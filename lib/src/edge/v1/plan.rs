//! Converts plans. Version 1 has one list of entries; the canonical form has plans with ids, which may also be Markdown
//! or a file.

use rethread_core::{Fields, Json};

use super::content::describe;
use super::meta::{each, set_own_meta};

/// How a v1 client receives plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanForm {
    /// As plans with ids.
    Native,
    /// As one list of entries.
    Entries,
}

const STATUSES: [&str; 3] = ["pending", "in_progress", "completed"];
const PRIORITIES: [&str; 3] = ["high", "medium", "low"];

/// Converts a v1 `plan` to a canonical update.
#[must_use]
pub fn from_v1(mut body: Fields, plan_id: &str) -> Json {
    let entries = body.take("entries").unwrap_or_else(|| Json::of::<[Json]>(&[]));
    let plan: Fields = [("type", Json::of("items")), ("planId", Json::of(plan_id)), ("entries", entries)]
        .into_iter()
        .collect();
    body.set("sessionUpdate", Json::of("plan_update"));
    body.set("plan", plan.json());
    body.json()
}

/// Converts a canonical `plan_update` or `plan_removed` to v1.
#[must_use]
pub fn to_v1(body: &Json, form: PlanForm) -> Json {
    let body = body.fields();
    let plan = body.get("plan").map(Json::fields);
    match (form, plan) {
        (PlanForm::Native, Some(plan)) => native(body, plan),
        (PlanForm::Native, None) => body.json(),
        (PlanForm::Entries, plan) => as_entries(body, plan),
    }
}

fn native(mut body: Fields, mut plan: Fields) -> Json {
    match plan.text("type").as_deref() {
        Some("items") => {
            let entries = plan.get("entries").map(|list| each(list, entry_to_v1));
            plan.set("entries", entries.unwrap_or_else(|| Json::of::<[Json]>(&[])));
        }
        Some("markdown" | "file") => {}
        _ => plan = as_markdown(&plan),
    }
    body.set("plan", plan.json());
    body.json()
}

fn as_markdown(plan: &Fields) -> Fields {
    let id = plan.get("planId").cloned().unwrap_or_else(|| Json::of(""));
    let words = Json::of(&plan_text(plan));
    let mut shown: Fields =
        [("type", Json::of("markdown")), ("planId", id), ("content", words)].into_iter().collect();
    set_own_meta(&mut shown, "plan", plan.json());
    shown
}

fn as_entries(mut body: Fields, plan: Option<Fields>) -> Json {
    let id = body.take("planId");
    body.take("plan");
    body.set("sessionUpdate", Json::of("plan"));
    let entries = match &plan {
        None => Json::of::<[Json]>(&[]),
        Some(plan) => entries_of(plan),
    };
    body.set("entries", entries);
    if let Some(id) = id.or_else(|| plan.as_ref()?.get("planId").cloned()) {
        set_own_meta(&mut body, "planId", id);
    }
    body.json()
}

fn entries_of(plan: &Fields) -> Json {
    match plan.text("type").as_deref() {
        Some("items") => {
            plan.get("entries").map(|list| each(list, entry_to_v1)).unwrap_or_else(|| Json::of::<[Json]>(&[]))
        }
        Some("markdown") => Json::of(&markdown_entries(&plan.text("content").unwrap_or_default())),
        _ => Json::of(&[entry(&plan_text(plan), "pending")]),
    }
}

/// The text of a plan without entries.
fn plan_text(plan: &Fields) -> String {
    match plan.text("type").as_deref() {
        Some("file") => format!("Plan in {}", plan.text("uri").unwrap_or_default()),
        _ => match plan.text("content") {
            Some(content) => content,
            None => describe(&plan.json(), "plan"),
        },
    }
}

fn entry(content: &str, status: &str) -> Json {
    [("content", content), ("priority", "medium"), ("status", status)]
        .into_iter()
        .map(|(name, value)| (name, Json::of(value)))
        .collect::<Fields>()
        .json()
}

fn entry_to_v1(entry: &Json) -> Json {
    let mut fields = entry.fields();
    let status = fields.text("status").unwrap_or_default();
    if !STATUSES.contains(&status.as_str()) {
        let content = fields.text("content").unwrap_or_default();
        let (nearest, content) = match status.as_str() {
            "cancelled" => ("completed", format!("(cancelled) {content}")),
            _ => ("pending", content),
        };
        fields.set("status", Json::of(nearest));
        fields.set("content", Json::of(&content));
        set_own_meta(&mut fields, "status", Json::of(&status));
    }
    let priority = fields.text("priority").unwrap_or_default();
    if !PRIORITIES.contains(&priority.as_str()) {
        fields.set("priority", Json::of("medium"));
        set_own_meta(&mut fields, "priority", Json::of(&priority));
    }
    fields.json()
}

/// Makes one entry for each list item and for each other line; indented lines stay with their item.
fn markdown_entries(markdown: &str) -> Vec<Json> {
    let mut entries: Vec<(String, &str)> = Vec::new();
    for line in markdown.lines().filter(|line| !line.trim().is_empty()) {
        let deeper = line.starts_with([' ', '\t']);
        match (list_item(line), entries.last_mut()) {
            (Some((text, status)), _) => entries.push((text.to_owned(), status)),
            (None, Some((content, _))) if deeper => {
                content.push('\n');
                content.push_str(line.trim());
            }
            (None, _) => entries.push((line.trim_start_matches(['#', ' ']).to_owned(), "pending")),
        }
    }
    entries.iter().map(|(content, status)| entry(content, status)).collect()
}

fn list_item(line: &str) -> Option<(&str, &'static str)> {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (digits.len() < line.len()).then_some(digits);
    let text = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(|| numbered.and_then(|rest| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))))?;
    let boxes = [("[ ] ", "pending"), ("[x] ", "completed"), ("[X] ", "completed"), ("[-] ", "in_progress")];
    let ticked = boxes.into_iter().find_map(|(mark, status)| Some((text.strip_prefix(mark)?, status)));
    Some(ticked.unwrap_or((text, "pending")))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edge::v1::schema_checks::{json, roundtrips};

    fn shown(body: &str, form: PlanForm, expect: &Expect) {
        let body = json(body);
        roundtrips::<v2::SessionUpdate>(&body);
        let update = to_v1(&body, form);
        roundtrips::<v1::SessionUpdate>(&update);
        expect.assert_eq(update.text());
    }

    #[test]
    fn plan_entries_round_trip() {
        let plan = json(
            r#"{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"in_progress","_meta":{"k":1}}],"_meta":{"k":2}}"#,
        );
        roundtrips::<v1::SessionUpdate>(&plan);
        let update = from_v1(plan.fields(), "p");
        let typed = roundtrips::<v2::SessionUpdate>(&update);
        assert!(matches!(typed, v2::SessionUpdate::PlanUpdate(_)));
        shown(
            update.text(),
            PlanForm::Entries,
            &expect![[
                r#"{"sessionUpdate":"plan","_meta":{"k":2,"rethread":{"planId":"p"}},"entries":[{"content":"a","priority":"high","status":"in_progress","_meta":{"k":1}}]}"#
            ]],
        );
    }

    #[test]
    fn values_that_v1_lacks_are_mapped() {
        let body = r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"_x","status":"cancelled"},{"content":"b","priority":"low","status":"_y"}]}}"#;
        shown(
            body,
            PlanForm::Entries,
            &expect![[
                r#"{"sessionUpdate":"plan","entries":[{"content":"(cancelled) a","priority":"medium","status":"completed","_meta":{"rethread":{"status":"cancelled","priority":"_x"}}},{"content":"b","priority":"low","status":"pending","_meta":{"rethread":{"status":"_y"}}}],"_meta":{"rethread":{"planId":"p"}}}"#
            ]],
        );
        shown(
            body,
            PlanForm::Native,
            &expect![[
                r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"(cancelled) a","priority":"medium","status":"completed","_meta":{"rethread":{"status":"cancelled","priority":"_x"}}},{"content":"b","priority":"low","status":"pending","_meta":{"rethread":{"status":"_y"}}}]}}"#
            ]],
        );
    }

    #[test]
    fn markdown_becomes_entries() {
        shown(
            r###"{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"p","content":"## Steps\n- [x] read\n  all of it\n2. write\n- [-] test\n\nThen rest"}}"###,
            PlanForm::Entries,
            &expect![[
                r#"{"sessionUpdate":"plan","entries":[{"content":"Steps","priority":"medium","status":"pending"},{"content":"read\nall of it","priority":"medium","status":"completed"},{"content":"write","priority":"medium","status":"pending"},{"content":"test","priority":"medium","status":"in_progress"},{"content":"Then rest","priority":"medium","status":"pending"}],"_meta":{"rethread":{"planId":"p"}}}"#
            ]],
        );
    }

    #[test]
    fn files_and_other_plans() {
        shown(
            r#"{"sessionUpdate":"plan_update","plan":{"type":"file","planId":"p","uri":"file:///plan.md"}}"#,
            PlanForm::Entries,
            &expect![[
                r#"{"sessionUpdate":"plan","entries":[{"content":"Plan in file:///plan.md","priority":"medium","status":"pending"}],"_meta":{"rethread":{"planId":"p"}}}"#
            ]],
        );
        shown(
            r#"{"sessionUpdate":"plan_update","plan":{"type":"_tree","planId":"p","title":"Big"}}"#,
            PlanForm::Native,
            &expect![[
                r#"{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"p","content":"[plan of type _tree, which this client cannot show] Big","_meta":{"rethread":{"plan":{"type":"_tree","planId":"p","title":"Big"}}}}}"#
            ]],
        );
    }

    #[test]
    fn a_removed_plan_is_empty() {
        let body = r#"{"sessionUpdate":"plan_removed","planId":"p"}"#;
        shown(
            body,
            PlanForm::Entries,
            &expect![[r#"{"sessionUpdate":"plan","entries":[],"_meta":{"rethread":{"planId":"p"}}}"#]],
        );
        shown(body, PlanForm::Native, &expect![[r#"{"sessionUpdate":"plan_removed","planId":"p"}"#]]);
    }
}
