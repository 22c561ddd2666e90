//! Makes the searchable text of a journal: one row for each message, tool call and so on, with its turn and its time. Reads
//! items in order; long texts are split into parts. Independent of the kind of store.

use rethread_core::{Entry, Folded, Millis, Passage, Seq, Speaker, TurnNo, readable};

/// The most bytes of the text of a row. Words and phrases are found within a part; erasing a part takes one transaction.
const PART_BYTES: usize = 32 * 1024;

/// The text of a turn that is kept in memory until the turn ends.
const MAX_WAITING_BYTES: usize = 2 * 1024 * 1024;

/// A part of a conversation that can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextRow {
    /// The first entry that it comes from.
    pub(super) seq: Seq,
    /// The number of the part, from 0.
    pub(super) part: u32,
    pub(super) turn: TurnNo,
    pub(super) at: Millis,
    pub(super) speaker: Speaker,
    /// The id of the message or tool call.
    pub(super) message: String,
    pub(super) text: String,
}

/// How far a journal has been read, and what is known there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadUpTo {
    /// The last entry whose text is complete.
    pub(super) seq: Seq,
    /// The turn there.
    pub(super) turn: TurnNo,
    /// The last time before it.
    pub(super) at: Millis,
}

/// Collects the rows of a journal. Rows are complete when their turn has ended: until then a message may grow.
#[derive(Debug, Default)]
pub(super) struct TextReader {
    /// Up to here rows are complete.
    done: ReadUpTo,
    turn: TurnNo,
    /// The last time that was read, and its entry.
    at: Millis,
    timed: Seq,
    /// Rows behind that time, which are between it and the next one.
    untimed: Vec<TextRow>,
    /// Rows of the turn that has not ended.
    waiting: Vec<TextRow>,
    bytes: usize,
    complete: Vec<TextRow>,
}

impl TextReader {
    /// Goes on where another reader ended.
    pub(super) fn after(done: ReadUpTo) -> Self {
        Self { done, turn: done.turn, at: done.at, timed: done.seq, ..Self::default() }
    }

    /// Reads items that follow those before. `upto` is the last entry that they cover.
    pub(super) fn read(&mut self, items: &[Folded], upto: Seq) {
        for item in items {
            self.item(item);
        }
        if self.bytes > MAX_WAITING_BYTES {
            self.end(upto);
        }
    }

    /// Takes what has been read so far as complete.
    pub(super) fn end(&mut self, upto: Seq) {
        self.waiting.append(&mut self.untimed);
        self.complete.append(&mut self.waiting);
        self.bytes = 0;
        self.done = ReadUpTo { seq: upto.max(self.done.seq), turn: self.turn, at: self.at };
    }

    /// Up to where rows are complete.
    pub(super) fn done(&self) -> ReadUpTo {
        self.done
    }

    /// Takes out the complete rows.
    pub(super) fn take(&mut self) -> Vec<TextRow> {
        std::mem::take(&mut self.complete)
    }

    fn item(&mut self, item: &Folded) {
        match &item.entry {
            Entry::Opened { at, .. } => self.time(item.first, *at),
            Entry::PromptInserted { turn, at, .. } => {
                self.turn = *turn;
                self.time(item.first, *at);
            }
            Entry::TurnStarted { turn, at, .. } => {
                self.turn = *turn;
                self.time(item.first, *at);
            }
            Entry::TurnEnded { at, .. } => {
                self.time(item.last, *at);
                return self.end(item.last);
            }
            Entry::Updated { .. } => {}
            Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::StateChanged { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => return,
        }
        if let Some(passage) = readable(&item.entry).filter(|passage| passage.speaker != Speaker::Notice) {
            self.passage(item.first, passage);
        }
    }

    fn passage(&mut self, seq: Seq, passage: Passage) {
        // The status of a tool call is no text: every call has one.
        let texts = [passage.title.clone().unwrap_or_default(), passage.content()];
        let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        self.bytes += text.len();
        for (part, text) in (0..).zip(parts(&text)) {
            self.untimed.push(TextRow {
                seq,
                part,
                turn: self.turn,
                at: self.at,
                speaker: passage.speaker,
                message: passage.id.clone(),
                text: text.to_owned(),
            });
        }
    }

    /// A time was read: what came since the last one is in between, by its place.
    fn time(&mut self, seq: Seq, at: Millis) {
        let (entries, span) = (seq.0.saturating_sub(self.timed.0), at.saturating_sub(self.at));
        for row in &mut self.untimed {
            let before = row.seq.0.saturating_sub(self.timed.0).min(entries);
            let share = u128::from(span) * u128::from(before) / u128::from(entries.max(1));
            row.at = self.at + u64::try_from(share).unwrap_or(0);
        }
        self.waiting.append(&mut self.untimed);
        (self.at, self.timed) = (at, seq);
    }
}

/// Splits a text, between words if possible.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > PART_BYTES {
        let most = rest.floor_char_boundary(PART_BYTES);
        let at = rest[..most].rfind(char::is_whitespace).filter(|at| *at > most / 2).unwrap_or(most);
        let (part, after) = rest.split_at(at);
        parts.push(part);
        rest = after;
    }
    if !rest.trim().is_empty() {
        parts.push(rest);
    }
    parts
}

#[cfg(test)]
mod tests {
    use rethread_core::{MessageId, Stop, Update};
    use serde_json::json;

    use super::*;

    fn item(seq: u64, entry: Entry) -> Folded {
        Folded { first: Seq(seq), last: Seq(seq), entry }
    }

    fn prompt(turn: u64, at: Millis, text: &str) -> Entry {
        let content = json!([{"type": "text", "text": text}]).into();
        Entry::PromptInserted { message: MessageId("p".to_owned()), turn: TurnNo(turn), content, at }
    }

    fn answer(text: &str) -> Entry {
        let content = json!([{"type": "text", "text": text}]);
        let body = json!({"sessionUpdate": "agent_message", "messageId": "a", "content": content});
        Entry::Updated { update: Update::read(body.into()), known: false }
    }

    fn ended(at: Millis) -> Entry {
        let state = json!({"sessionUpdate": "state_update", "state": "idle"}).into();
        Entry::TurnEnded { turn: TurnNo(1), stop: Stop::plain("end_turn"), at, state }
    }

    fn shown(rows: &[TextRow]) -> Vec<String> {
        rows.iter().map(|row| format!("{} {} {} {}", row.seq, row.turn, row.at, row.text)).collect()
    }

    #[test]
    fn answers_are_between_the_times_of_their_turn() {
        let mut reader = TextReader::default();
        let items =
            [item(1, prompt(1, 1000, "q")), item(2, answer("a")), item(3, answer("b")), item(5, ended(2000))];
        reader.read(&items, Seq(5));
        assert_eq!(shown(&reader.take()), ["1 1 1000 q", "2 1 1250 a", "3 1 1500 b"]);
        assert_eq!(reader.done(), ReadUpTo { seq: Seq(5), turn: TurnNo(1), at: 2000 });
    }

    #[test]
    fn a_turn_that_runs_is_not_complete() {
        let mut reader = TextReader::after(ReadUpTo { seq: Seq(5), turn: TurnNo(1), at: 2000 });
        reader.read(&[item(6, prompt(2, 3000, "q")), item(7, answer("a"))], Seq(7));
        assert_eq!((reader.take(), reader.done().seq), (Vec::new(), Seq(5)));
        reader.end(Seq(7));
        assert_eq!(shown(&reader.take()), ["6 2 3000 q", "7 2 3000 a"]);
        assert_eq!(reader.done().seq, Seq(7));
    }

    #[test]
    fn long_texts_have_parts() {
        let text = "word ".repeat(PART_BYTES / 2);
        let found = parts(&text);
        assert!(found.len() == 3 && found.iter().all(|part| part.len() <= PART_BYTES));
        assert_eq!(found.concat(), text);
        assert!(found.iter().all(|part| part.trim().split(' ').all(|word| word == "word")));
        assert_eq!(parts(&"x".repeat(PART_BYTES + 1)).len(), 2);
        assert!(parts(" \n").is_empty());
    }
}
