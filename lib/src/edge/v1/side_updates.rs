//! Converts updates beside the conversation: notices, compactions and sub-agents. A v1 client gets them only if it
//! supports them, and otherwise as text.

use rethread_core::{Fields, Json};

use super::content;
use super::meta::{each, present, set_own_meta};

/// How a v1 client receives notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notices {
    /// As updates.
    Accepted,
    /// As text in a message.
    AsText,
}

/// How a v1 client receives compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// As updates.
    Accepted,
    /// As text in a thought.
    AsText,
}

/// How a v1 client receives updates of sub-agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subagents {
    /// As updates.
    Accepted,
    /// As text in thoughts.
    Withheld,
}

const MESSAGE: &str = "agent_message_chunk";
const THOUGHT: &str = "agent_thought_chunk";

/// Converts a notice, to a message chunk with id `note_id` if the client does not support notices.
#[must_use]
pub fn notice_to_v1(body: &Json, notices: Notices, note_id: &str) -> Json {
    match notices {
        Notices::Accepted => body.clone(),
        Notices::AsText => {
            let notice = body.fields();
            let severity = notice.text("severity").unwrap_or_else(|| "notice".to_owned());
            let title = notice.text("title").unwrap_or_default();
            let rest = notice.text("description").map(|text| format!(": {text}")).unwrap_or_default();
            note_chunk(MESSAGE, note_id, &format!("[{severity}] {title}{rest}"), &notice)
        }
    }
}

/// Adds earlier notices to an answer: the last one as `_meta.rethread.notice`, and all of them as
/// `_meta.rethread.notices` if there are several.
#[must_use]
pub fn with_notices(answer: &Json, notices: &[Json]) -> Json {
    let Some(last) = notices.last() else { return answer.clone() };
    let mut fields = answer.fields();
    set_own_meta(&mut fields, "notice", untagged(last));
    if notices.len() > 1 {
        let all: Vec<_> = notices.iter().map(untagged).collect();
        set_own_meta(&mut fields, "notices", Json::of(&all));
    }
    fields.json()
}

fn untagged(notice: &Json) -> Json {
    let mut fields = notice.fields();
    fields.take("sessionUpdate");
    fields.json()
}

/// Converts a compaction or a chunk of its summary, to thought chunks if the client does not support compactions.
#[must_use]
pub fn compaction_to_v1(body: &Json, compaction: Compaction, note_id: &str) -> Vec<Json> {
    let mut fields = body.fields();
    let chunk = fields.text("sessionUpdate").as_deref() == Some("compaction_summary_chunk");
    match (compaction, chunk) {
        (Compaction::Accepted, true) => vec![super::message::chunk_to_v1(body)],
        (Compaction::Accepted, false) => {
            if let Some(summary) = fields.get("summary") {
                let summary = each(summary, content::to_v1);
                fields.set("summary", summary);
            }
            vec![fields.json()]
        }
        (Compaction::AsText, true) => {
            vec![as_thought(&fields, &fields.text("compactionId").unwrap_or_default())]
        }
        (Compaction::AsText, false) => compaction_as_text(&fields, note_id),
    }
}

/// Converts an update about a sub-agent, to thought chunks if the client does not support sub-agents.
#[must_use]
pub fn subagent_to_v1(body: &Json, subagents: Subagents, note_id: &str) -> Vec<Json> {
    let fields = body.fields();
    match (subagents, fields.text("sessionUpdate").as_deref()) {
        (Subagents::Accepted, Some("session_message_chunk")) => vec![super::message::chunk_to_v1(body)],
        (Subagents::Accepted, _) => vec![with_blocks(fields)],
        (Subagents::Withheld, Some("session_message_chunk")) => {
            vec![as_thought(&fields, &fields.text("messageId").unwrap_or_default())]
        }
        (Subagents::Withheld, Some("session_message")) => message_as_text(&fields, note_id),
        (Subagents::Withheld, _) => vec![note_chunk(THOUGHT, note_id, &subagent_sentence(&fields), &fields)],
    }
}

/// Converts an update of a sub-agent for a client without support for them: its messages become thoughts of the parent,
/// its tool calls become the parent's. Other updates are dropped.
#[must_use]
pub fn subagent_update_to_v1(child: &str, body: &Json) -> Option<Json> {
    let mut fields = body.fields();
    let id = match fields.text("sessionUpdate").as_deref() {
        Some("user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk") => {
            fields.set("sessionUpdate", Json::of(THOUGHT));
            "messageId"
        }
        Some("tool_call" | "tool_call_update") => "toolCallId",
        Some(_) | None => return None,
    };
    let own = fields.text(id).unwrap_or_default();
    fields.set(id, Json::of(&format!("{child}/{own}")));
    Some(fields.json())
}

fn compaction_as_text(compaction: &Fields, note_id: &str) -> Vec<Json> {
    let id = compaction.text("compactionId").unwrap_or_default();
    let words = match compaction.text("status").as_deref() {
        Some("in_progress") => "[the conversation is being compacted]".to_owned(),
        Some("completed") => "[the conversation was compacted]".to_owned(),
        Some("failed") => match compaction.text("error") {
            Some(error) => format!("[compacting the conversation failed: {error}]"),
            None => "[compacting the conversation failed]".to_owned(),
        },
        Some("cancelled") => "[compacting the conversation was cancelled]".to_owned(),
        Some(_) | None => "[the compaction of the conversation was updated]".to_owned(),
    };
    let mut thoughts = vec![note_chunk(THOUGHT, note_id, &words, compaction)];
    thoughts.extend(blocks_of(compaction, "summary", &id));
    thoughts
}

fn subagent_sentence(subagent: &Fields) -> String {
    let named = subagent.text("title").or_else(|| subagent.text("sessionId")).unwrap_or_default();
    let state = present(subagent, "state").and_then(|state| state.fields().text("state"));
    let state = state.map(|state| format!(" is {}", state.replace('_', " "))).unwrap_or_default();
    let about = subagent.text("description").map(|text| format!(": {text}")).unwrap_or_default();
    format!("[sub-agent {named}{state}{about}]")
}

fn message_as_text(message: &Fields, note_id: &str) -> Vec<Json> {
    let party = |name: &str| message.text(name).unwrap_or_else(|| "another session".to_owned());
    let id = message.text("messageId").unwrap_or_default();
    let words = format!("[message from {} to {}]", party("senderSessionId"), party("recipientSessionId"));
    let mut thoughts = vec![note_chunk(THOUGHT, note_id, &words, message)];
    thoughts.extend(blocks_of(message, "content", &id));
    thoughts
}

fn with_blocks(mut fields: Fields) -> Json {
    if let Some(blocks) = fields.get("content") {
        let blocks = content::list_to_v1(blocks);
        fields.set("content", blocks);
    }
    fields.json()
}

fn blocks_of(fields: &Fields, name: &str, id: &str) -> Vec<Json> {
    let blocks = fields.get(name).and_then(Json::items).unwrap_or_default();
    blocks.iter().map(|block| chunk(THOUGHT, id, content::to_v1(block)).json()).collect()
}

/// Makes a thought of the content of another chunk.
fn as_thought(fields: &Fields, id: &str) -> Json {
    let block = fields.get("content").map_or_else(|| content::text_block(""), content::to_v1);
    let mut thought = chunk(THOUGHT, id, block);
    if let Some(meta) = present(fields, "_meta") {
        thought.set("_meta", meta.clone());
    }
    thought.json()
}

/// Makes a chunk with a sentence of Rethread and the `_meta` of the update it replaces. It is a separate paragraph,
/// since some clients append chunks to the previous text regardless of their message id.
fn note_chunk(tag: &str, id: &str, words: &str, source: &Fields) -> Json {
    let mut chunk = chunk(tag, id, content::text_block(&format!("\n\n{words}\n\n")));
    if let Some(meta) = present(source, "_meta") {
        chunk.set("_meta", meta.clone());
    }
    chunk.json()
}

fn chunk(tag: &str, id: &str, block: Json) -> Fields {
    [("sessionUpdate", Json::of(tag)), ("messageId", Json::of(id)), ("content", block)].into_iter().collect()
}
