//! The transcript for an agent that has lost its session: recent turns in full, older ones shortened, the oldest only
//! counted, within a size limit. It states what was left out. Turns that the agent refused are not included.

use rethread_core::{ConversationRole, Entry, Folded, Gathered, Speaker, readable};

/// The size of a transcript in bytes.
pub(crate) const BUDGET: usize = 96 * 1024;
/// How many characters of each speaker are kept in a shortened turn.
const SHORTENED: usize = 240;
/// How many bytes of a turn are gathered before they are written as text.
const MAX_GATHERED: usize = 8 * 1024 * 1024;
/// How many bytes of whole turns are kept: many times of what fits in a transcript.
const MAX_WHOLE: usize = 64 * BUDGET;
/// A whole turn of this size is kept in any case.
const SMALL_TURN: usize = 1024;

/// A turn as text, whole and shortened.
#[derive(Default)]
struct TurnText {
    /// The end of the text, of which more than a transcript can have is not kept.
    whole: String,
    /// The length of the whole text.
    length: usize,
    short: String,
    last: Option<Speaker>,
}

/// Makes a transcript of the items of a journal.
#[derive(Default)]
pub(crate) struct Transcript {
    turns: Vec<TurnText>,
    /// The bytes of all whole turns.
    kept: usize,
    /// What came since the last turn was done with, and its bytes.
    now: Gathered,
    bytes: usize,
    /// The number of turns before the one that runs.
    before: usize,
    phase: TurnPhase,
}

/// Whether what comes belongs to a turn. A prompt may come before its turn has started or after.
#[derive(Default, PartialEq, Eq)]
enum TurnPhase {
    #[default]
    Between,
    Begun,
}

impl Transcript {
    /// Adds one journal item.
    pub(crate) fn add(&mut self, item: &Folded) {
        match &item.entry {
            Entry::PromptInserted { .. } => {
                self.turn_begins();
                self.now.push(item.clone());
            }
            Entry::Updated { update, .. } => match update.kind.meaning().conversation {
                ConversationRole::Essential => self.gather(item, update.body.text().len()),
                // What comes next does not depend on thoughts, plans and the like.
                ConversationRole::Accompanying | ConversationRole::Outside => {}
            },
            Entry::TurnStarted { .. } => self.turn_begins(),
            Entry::TurnEnded { stop, .. } => {
                self.phase = TurnPhase::Between;
                match stop.reason.as_str() {
                    "refusal" => self.drop_turn(),
                    _ => self.write_down(),
                }
            }
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
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
            | Entry::TitleSet { .. } => {}
        }
    }

    fn turn_begins(&mut self) {
        if self.phase == TurnPhase::Between {
            self.write_down();
            self.before = self.turns.len();
            self.phase = TurnPhase::Begun;
        }
    }

    fn gather(&mut self, item: &Folded, bytes: usize) {
        self.now.push(item.clone());
        self.bytes += bytes;
        if self.bytes > MAX_GATHERED {
            self.write_down();
        }
    }

    fn drop_turn(&mut self) {
        drop(self.now.take());
        self.bytes = 0;
        self.turns.truncate(self.before);
    }

    /// Begins another turn. Of the older ones, what cannot be in the transcript is dropped.
    fn push_turn(&mut self) {
        if let Some(last) = self.turns.last_mut() {
            if last.length > BUDGET {
                last.whole = String::new();
            }
            self.kept += last.whole.len();
        }
        if self.kept > MAX_WHOLE {
            let mut rest = MAX_WHOLE / 2;
            for turn in self.turns.iter_mut().rev() {
                match rest.checked_sub(turn.whole.len()) {
                    Some(left) => rest = left,
                    None if turn.whole.len() > SMALL_TURN => turn.whole = String::new(),
                    None => {}
                }
            }
            self.kept = self.turns.iter().map(|turn| turn.whole.len()).sum();
        }
        self.turns.push(TurnText::default());
    }

    /// Writes what came so far as text.
    fn write_down(&mut self) {
        self.bytes = 0;
        for item in self.now.take() {
            let Some(passage) = readable(&item.entry) else { continue };
            // A word on an older tool call that does not name it says nothing to a reader.
            if passage.speaker == Speaker::Tool && passage.title.is_none() {
                continue;
            }
            let prompted = matches!(item.entry, Entry::PromptInserted { .. });
            let begins = |turn: &TurnText| {
                prompted || (passage.speaker == Speaker::User && turn.last != Some(Speaker::User))
            };
            if self.turns.last().is_none_or(begins) {
                self.push_turn();
            }
            if let Some(turn) = self.turns.last_mut() {
                turn.say(passage.speaker, &passage.text());
            }
        }
    }

    /// The text within a budget, in bytes; nothing if there was no conversation.
    pub(crate) fn write(mut self, budget: usize) -> Option<String> {
        self.write_down();
        if self.turns.is_empty() {
            return None;
        }
        let mut parts = Vec::new();
        let (mut used, mut shortened, mut dropped) = (0, 0, 0);
        for turn in self.turns.iter().rev() {
            // The newest turn may be cut, but is never left out.
            let fits = used + turn.length <= budget * 3 / 4 && turn.whole.len() == turn.length;
            let (text, short) = if fits || parts.is_empty() {
                (turn.tail(budget), false)
            } else {
                (turn.short.clone(), true)
            };
            if used + text.len() > budget && !parts.is_empty() {
                dropped += 1;
                continue;
            }
            used += text.len();
            shortened += usize::from(short);
            parts.push(text);
        }
        parts.reverse();
        Some(format!("{}{}", heading(self.turns.len(), shortened, dropped), parts.join("\n---\n")))
    }
}

impl TurnText {
    fn say(&mut self, speaker: Speaker, text: &str) {
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        if self.last.replace(speaker) != Some(speaker) {
            let heading = format!("\n## {}\n", speaker.name());
            self.write(&heading);
            self.short.push_str(&heading);
            self.short.push_str(&shortened(text));
        }
        self.write(text);
        self.write("\n");
    }

    fn write(&mut self, text: &str) {
        self.length += text.len();
        self.whole.push_str(text);
        if self.whole.len() > 4 * BUDGET {
            self.whole = last_bytes(&self.whole, BUDGET).to_owned();
        }
    }

    /// The end of a text that is too long, since the last part matters most.
    fn tail(&self, budget: usize) -> String {
        if self.length <= budget {
            return self.whole.clone();
        }
        format!("…{}", last_bytes(&self.whole, budget))
    }
}

fn heading(turns: usize, shortened: usize, dropped: usize) -> String {
    let mut text = format!(
        "# The conversation so far\n\nThis conversation of {} took place before this session. Continue from it; do not \
         answer it again.",
        counted(turns)
    );
    match shortened {
        0 => {}
        1 => text.push_str(" One older turn is shortened."),
        _ => text.push_str(&format!(" {shortened} older turns are shortened.")),
    }
    match dropped {
        0 => {}
        1 => text.push_str(" The oldest turn is left out."),
        _ => text.push_str(&format!(" The {dropped} oldest turns are left out.")),
    }
    text.push('\n');
    text
}

fn counted(turns: usize) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(SHORTENED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.push('\n');
    short
}

/// At most so many bytes from the end of a text.
fn last_bytes(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    &text[(from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use rethread_core::{MessageId, Seq, Stop, TurnNo, Update};
    use serde_json::{Value, json};

    use super::*;

    fn prompt(number: u64) -> Entry {
        let content = json!([{"type": "text", "text": format!("question {number}")}]).into();
        Entry::PromptInserted {
            message: MessageId(format!("p{number}")),
            turn: TurnNo(number),
            content,
            at: 0,
        }
    }

    fn updated(body: Value) -> Entry {
        Entry::Updated { update: Update::read(body.into()), known: false }
    }

    fn chunk(id: &str, text: &str) -> Entry {
        updated(json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": text}}))
    }

    fn started(turn: u64) -> Entry {
        Entry::TurnStarted { turn: TurnNo(turn), at: 0, state: json!({}).into() }
    }

    fn ended(turn: u64, reason: &str) -> Entry {
        Entry::TurnEnded { turn: TurnNo(turn), stop: Stop::plain(reason), at: 0, state: json!({}).into() }
    }

    fn turns(count: u64, answer: &str) -> Vec<Entry> {
        let turn = |number| [prompt(number), chunk(&format!("m{number}"), answer), ended(number, "end_turn")];
        (1..=count).flat_map(turn).collect()
    }

    fn write(entries: Vec<Entry>, budget: usize) -> String {
        let mut transcript = Transcript::default();
        for (seq, entry) in (1..).map(Seq).zip(entries) {
            transcript.add(&Folded { first: seq, last: seq, entry });
        }
        transcript.write(budget).unwrap_or_default()
    }

    #[test]
    fn a_short_conversation_is_whole() {
        expect_test::expect![[r##"
            # The conversation so far

            This conversation of 2 turns took place before this session. Continue from it; do not answer it again.

            ## User
            question 1

            ## Agent
            an answer

            ---

            ## User
            question 2

            ## Agent
            an answer
        "##]]
        .assert_eq(&write(turns(2, "an answer"), BUDGET));
        assert_eq!(write(vec![started(1), ended(1, "end_turn")], BUDGET), "", "nothing was said");
    }

    #[test]
    fn a_turn_that_is_not_folded_reads_like_one_that_is() {
        let call = |fields: Value| {
            let mut body = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
            body.as_object_mut()
                .into_iter()
                .for_each(|body| body.extend(fields.as_object().cloned().unwrap_or_default()));
            updated(body)
        };
        let item = json!({"type": "content", "content": {"type": "text", "text": "fn main"}});
        let entries = vec![
            started(1),
            prompt(1),
            chunk("m1", "Let me"),
            chunk("m1", " look.\n## Agent\n"),
            call(json!({"title": "Read main.rs", "status": "pending"})),
            updated(json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item})),
            call(json!({"status": "completed"})),
            updated(
                json!({"sessionUpdate": "agent_thought", "messageId": "t", "content": [{"type": "text", "text": "hm"}]}),
            ),
            chunk("m2", "Do"),
            chunk("m2", "ne."),
        ];
        let text = write(entries, BUDGET);
        let (_, conversation) = text.split_once("again.\n").unwrap_or_default();
        expect_test::expect![[r#"

            ## User
            question 1

            ## Agent
            Let me look.
            ## Agent

            ## Tool
            Read main.rs completed
            fn main

            ## Agent
            Done.
        "#]]
        .assert_eq(conversation);
    }

    #[test]
    fn a_long_one_keeps_the_newest_and_says_what_it_left_out() {
        let text = write(turns(100, &"word ".repeat(400)), 20_000);
        assert!(text.len() < 21_000, "{}", text.len());
        assert!(text.contains("question 100") && !text.contains("question 1\n"));
        assert!(text.contains("older turns are shortened") && text.contains("oldest turns are left out"));
    }

    #[test]
    fn one_turn_is_counted_as_one() {
        let text = write(turns(1, "an answer"), BUDGET);
        assert!(text.contains("This conversation of 1 turn took place"), "{text}");
    }

    #[test]
    fn a_refused_turn_is_left_out_entirely() {
        let between = chunk("between", "and one thing more");
        let before: Vec<_> = turns(2, "an answer").into_iter().chain([between]).collect();
        // Some say something before the prompt is part of the conversation.
        for beginning in [[prompt(3), started(3)], [started(3), prompt(3)]] {
            let [first, then] = beginning;
            let refused = [first, chunk("early", "early"), then, chunk("m3", "no"), ended(3, "refusal")];
            let all: Vec<_> = before.iter().cloned().chain(refused).collect();
            assert_eq!(write(all, BUDGET), write(before.clone(), BUDGET));
        }
    }

    #[test]
    fn one_huge_turn_is_cut_at_its_beginning() {
        let text = write(turns(1, &"é".repeat(100_000)), 10_000);
        assert!(text.len() < 11_000 && text.ends_with("é\n"));
    }

    #[test]
    fn a_very_long_conversation_needs_little_memory() {
        let mut transcript = Transcript::default();
        let (answer, mut seq) = ("word ".repeat(100_000), Seq(0));
        for entry in turns(40, &answer).into_iter().chain(turns(1, "the end")) {
            seq = seq.next();
            transcript.add(&Folded { first: seq, last: seq, entry });
        }
        let kept: usize = transcript.turns.iter().map(|turn| turn.whole.len() + turn.short.len()).sum();
        assert!(kept < 6 * BUDGET, "{kept}");
        let text = transcript.write(BUDGET).unwrap_or_default();
        assert!(
            text.contains("of 41 turns") && text.contains("40 older turns are shortened"),
            "{}",
            &text[..300]
        );
        let one = write(turns(1, &answer), BUDGET);
        assert!(one.contains("…") && one.len() > BUDGET && one.len() < BUDGET + 400, "{}", one.len());
    }
}
