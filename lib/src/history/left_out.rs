//! Leaves out what is too old for a history: finds the place, and keeps the little that is needed of what came before it.

use rethread_core::{Entry, Fields, Folded, Json, Seq, Subject, Update};
use serde_json::json;

/// How many bytes of a conversation a history has. No model can read more.
pub(super) const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The id of the item that stands for what was left out.
const MARKER: &str = "left-out";

/// Whether items that are left out can still grow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Their turn runs: what is added to a message must find it.
    Possible,
    /// Their turn has ended.
    Over,
}

/// Finds the newest item that does not fit, counted from the end. Returns `None` if everything fits. A prompt at the very
/// end always fits, because it has to be answered.
pub(super) fn cut<'a>(items: impl DoubleEndedIterator<Item = &'a Folded>, most: usize) -> Option<Seq> {
    let (mut bytes, mut is_last) = (0, true);
    let does_not_fit = |item: &&Folded| {
        bytes += size(item);
        let is_new_prompt = std::mem::take(&mut is_last) && is_prompt(item);
        bytes > most && !is_new_prompt
    };
    items.rev().find(does_not_fit).map(|item| item.first)
}

/// The item that stands for what was left out. It is a compaction, because it replaces what was before it.
pub(super) fn marker() -> Json {
    let text = "The older part of this conversation is left out, because the whole is too long.";
    json!({"sessionUpdate": "compaction_update", "compactionId": MARKER, "status": "completed",
        "summary": [{"type": "text", "text": text}]})
    .into()
}

/// Returns whether this is the item that stands for what was left out.
pub(super) fn is_marker(body: &Json) -> bool {
    let members = body.members();
    members.text("sessionUpdate").as_deref() == Some("compaction_update")
        && members.text("compactionId").as_deref() == Some(MARKER)
}

/// Keeps what is needed of items that are left out: the ids of tool calls, which stay in use, their own metadata, the last
/// usage, and the prompt of a turn whose end is not left out.
pub(super) fn reduced(items: Vec<Folded>, growth: Growth, longest_prompt: usize) -> Vec<Folded> {
    let last_usage = items.iter().rposition(is_usage);
    let prompt = open_prompt(&items).filter(|at| size(&items[*at]) <= longest_prompt);
    let reduce = |(at, item): (usize, Folded)| {
        let is_kept = Some(at) == last_usage || Some(at) == prompt;
        if is_kept { Some(item) } else { stub(item, growth) }
    };
    items.into_iter().enumerate().filter_map(reduce).collect()
}

/// Returns whether this is a message of the user.
pub(super) fn is_prompt(item: &Folded) -> bool {
    matches!(item.entry, Entry::PromptInserted { .. }) || subject(item) == Some(Subject::UserMessage)
}

/// Returns whether this is the usage of the session.
pub(super) fn is_usage(item: &Folded) -> bool {
    subject(item) == Some(Subject::Usage)
}

/// The number of bytes that an item counts. It depends neither on how its text is escaped nor on how a prompt is stored.
pub(super) fn size(item: &Folded) -> usize {
    if let Entry::PromptInserted { content, .. } = &item.entry {
        return unescaped(content.text());
    }
    let Entry::Updated { update, .. } = &item.entry else { return 0 };
    if update.kind.subject() == Subject::UserMessage {
        return update.body.members().get("content").map_or(0, |content| unescaped(content.get()));
    }
    unescaped(update.body.text())
}

/// The newest prompt of a turn that has not ended among these items.
fn open_prompt(items: &[Folded]) -> Option<usize> {
    let is_end = |item: &Folded| matches!(item.entry, Entry::TurnEnded { .. });
    let at = items.iter().rposition(|item| is_prompt(item) || is_end(item))?;
    is_prompt(&items[at]).then_some(at)
}

fn subject(item: &Folded) -> Option<Subject> {
    let Entry::Updated { update, .. } = &item.entry else { return None };
    Some(update.kind.subject())
}

/// What stays of one item, if anything.
fn stub(item: Folded, growth: Growth) -> Option<Folded> {
    let Folded { first, last, entry: Entry::Updated { update, known } } = item else { return None };
    let Update { kind, id, body } = update;
    let is_message = kind.subject().is_message() && growth == Growth::Possible;
    let (kind, body) = match kind.subject() == Subject::ToolCall {
        true => (kind, tool_call(&body)),
        false if is_message => (kind.whole(), message(kind.whole().meaning().tag, &id)),
        false => return None,
    };
    Some(Folded { first, last, entry: Entry::Updated { update: Update { kind, id, body }, known } })
}

/// A tool call without its content.
fn tool_call(call: &Json) -> Json {
    let fields = call.fields();
    let kept = ["sessionUpdate", "toolCallId"].into_iter();
    let mut stub: Fields = kept.filter_map(|name| Some((name, fields.get(name)?.clone()))).collect();
    if let Some(marks) = fields.get("_meta").and_then(|meta| meta.fields().take("rethread")) {
        stub.set("_meta", [("rethread", marks)].into_iter().collect::<Fields>().json());
    }
    stub.json()
}

/// A message without its content.
fn message(tag: &str, id: &str) -> Json {
    json!({"sessionUpdate": tag, "messageId": id, "content": []}).into()
}

/// The length of JSON text with its escapes replaced by what they stand for.
fn unescaped(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut saved) = (0, 0);
    while let Some(escape) = memchr::memchr(b'\\', &bytes[at..]).map(|found| at + found) {
        let digits = text.get(escape + 2..escape + 6).filter(|_| bytes[escape + 1] == b'u');
        let (written, size) = digits.map_or((2, 1), |digits| (6, character_size(digits)));
        saved += written - size;
        at = (escape + written).min(bytes.len());
    }
    bytes.len() - saved
}

/// The bytes of a character that is written as four hexadecimal digits. Half of a pair counts two.
fn character_size(digits: &str) -> usize {
    match u32::from_str_radix(digits, 16) {
        Ok(0xd800..=0xdfff) => 2,
        Ok(code) => char::from_u32(code).map_or(1, char::len_utf8),
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_same_size_however_it_is_escaped() {
        let same = [r#""a\n\"é😀/""#, r#""a\u000a\u0022\u00e9\ud83d\ude00\/""#];
        assert_eq!(same.map(unescaped), ["\"a\n\"é😀/\"".len(); 2]);
    }
}
