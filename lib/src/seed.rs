//! The transcript that a fresh agent session is given when the agent's own is lost: the newest turns whole, older
//! ones shortened, the oldest only counted, within a budget. It says itself what was left out. A turn that the agent
//! refused is no part of it, as the protocol has it.

use rethread_core::{Entry, Folded, Json, Stop, Update, UpdateKind};

/// How much text an agent is given, in bytes.
pub(crate) const BUDGET: usize = 96 * 1024;
/// How much of each speaker is left of a shortened turn.
const SHORT: usize = 240;

/// A turn as text.
#[derive(Default)]
struct Told {
    whole: String,
    short: String,
}

/// Collects what was said, item by item.
#[derive(Default)]
pub(crate) struct Transcript {
    turns: Vec<Told>,
    /// How much there was before the turn that is under way.
    before: Option<Length>,
}

/// How much a transcript has: its turns, and the text of the last one.
#[derive(Clone, Copy)]
struct Length {
    turns: usize,
    whole: usize,
    short: usize,
}

impl Transcript {
    /// Takes in one item of the journal.
    pub(crate) fn add(&mut self, item: &Folded) {
        match &item.entry {
            Entry::PromptInserted { content, .. } => {
                self.turn_begins();
                self.turns.push(Told::default());
                self.say("User", &blocks_text(content));
            }
            Entry::Updated { update, .. } => self.add_update(update),
            Entry::TurnStarted { .. } => self.turn_begins(),
            Entry::TurnEnded { stop, .. } => self.turn_ended(stop),
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

    /// Says whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// A prompt may come before its turn has started or after.
    fn turn_begins(&mut self) {
        if self.before.is_none() {
            let (whole, short) =
                self.turns.last().map(|told| (told.whole.len(), told.short.len())).unwrap_or_default();
            self.before = Some(Length { turns: self.turns.len(), whole, short });
        }
    }

    fn turn_ended(&mut self, stop: &Stop) {
        let before = self.before.take().filter(|_| stop.reason == "refusal");
        if let Some(Length { turns, whole, short }) = before {
            self.turns.truncate(turns);
            if let Some(told) = self.turns.last_mut() {
                told.whole.truncate(whole);
                told.short.truncate(short);
            }
        }
    }

    fn add_update(&mut self, update: &Update) {
        let fields = update.body.fields();
        let content = fields.get("content");
        let whole = matches!(
            update.kind,
            UpdateKind::UserMessage | UpdateKind::AgentMessage | UpdateKind::ToolCallUpdate
        );
        let text = match (whole, content) {
            (true, Some(content)) => blocks_text(content),
            (false, Some(block)) => block_text(block),
            (_, None) => String::new(),
        };
        // Thoughts, plans and the like do not bind what comes next.
        let kind = update.kind.whole();
        if kind == UpdateKind::UserMessage {
            self.say("User", &text);
        } else if kind == UpdateKind::AgentMessage {
            self.say("Agent", &text);
        } else if let (UpdateKind::ToolCallUpdate, Some(title)) = (kind, fields.text("title")) {
            let status = fields.text("status").unwrap_or_default();
            self.say("Tool", &format!("{title} {status}\n{text}"));
        }
    }

    fn say(&mut self, speaker: &str, text: &str) {
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        if self.turns.is_empty() {
            self.turns.push(Told::default());
        }
        let Some(told) = self.turns.last_mut() else { return };
        let heading = format!("\n## {speaker}\n");
        // Chunks of one message that were stored one by one read as one.
        if told
            .whole
            .rfind("\n## ")
            .map(|at| &told.whole[at..])
            .is_none_or(|last| !last.starts_with(&heading))
        {
            told.whole.push_str(&heading);
            told.short.push_str(&heading);
            told.short.push_str(&shortened(text));
        }
        told.whole.push_str(text);
        told.whole.push('\n');
    }

    /// The text within a budget.
    pub(crate) fn write(&self, budget: usize) -> String {
        let mut parts = Vec::new();
        let (mut used, mut shortened, mut dropped) = (0, 0, 0);
        for told in self.turns.iter().rev() {
            // The newest turn may be cut, but is never left out.
            let (text, short) = if used + told.whole.len() <= budget * 3 / 4 || parts.is_empty() {
                (tail(&told.whole, budget), false)
            } else {
                (told.short.clone(), true)
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
        format!("{}{}", heading(self.turns.len(), shortened, dropped), parts.join("\n---\n"))
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

fn blocks_text(content: &Json) -> String {
    let blocks = content.items().unwrap_or_default();
    blocks.iter().map(block_text).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn block_text(block: &Json) -> String {
    let fields = block.fields();
    match fields.text("type").as_deref() {
        Some("text") => fields.text("text").unwrap_or_default(),
        Some("content") => fields.get("content").map(block_text).unwrap_or_default(),
        Some("resource_link") => format!("[{}]", fields.text("uri").unwrap_or_default()),
        Some("resource") => {
            let resource = fields.get("resource").map(Json::fields).unwrap_or_default();
            format!(
                "[{}]\n{}",
                resource.text("uri").unwrap_or_default(),
                resource.text("text").unwrap_or_default()
            )
        }
        Some("diff") => {
            let patch = fields.get("patch").map(Json::fields).unwrap_or_default();
            patch.text("text").unwrap_or_default()
        }
        Some(other) => format!("[{other}]"),
        None => String::new(),
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(SHORT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.push('\n');
    short
}

/// The end of a text that is too long: what was said last counts most.
fn tail(text: &str, budget: usize) -> String {
    if text.len() <= budget {
        return text.to_owned();
    }
    let from = (text.len() - budget..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("…{}", &text[from..])
}

#[cfg(test)]
mod tests {
    use rethread_core::{MessageId, Seq, TurnNo};
    use serde_json::json;

    use super::*;

    fn turn(number: u64, answer: &str) -> Vec<Folded> {
        let prompt = Entry::PromptInserted {
            message: MessageId(format!("p{number}")),
            turn: TurnNo(number),
            content: json!([{"type": "text", "text": format!("question {number}")}]).into(),
            at: 0,
        };
        let body = json!({"sessionUpdate": "agent_message", "messageId": "m",
            "content": [{"type": "text", "text": answer}]});
        let update = Update { kind: UpdateKind::AgentMessage, id: "m".to_owned(), body: body.into() };
        let said = Entry::Updated { update, known: false };
        [prompt, said].map(|entry| Folded { first: Seq(1), last: Seq(1), entry }).into()
    }

    fn transcript(turns: u64, answer: &str) -> Transcript {
        let mut transcript = Transcript::default();
        (1..=turns).flat_map(|number| turn(number, answer)).for_each(|item| transcript.add(&item));
        transcript
    }

    #[test]
    fn a_short_conversation_is_whole() {
        let text = transcript(2, "an answer").write(BUDGET);
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
        .assert_eq(&text);
    }

    #[test]
    fn a_long_one_keeps_the_newest_and_says_what_it_left_out() {
        let text = transcript(100, &"word ".repeat(400)).write(20_000);
        assert!(text.len() < 21_000, "{}", text.len());
        assert!(text.contains("question 100") && !text.contains("question 1\n"));
        assert!(text.contains("older turns are shortened") && text.contains("oldest turns are left out"));
    }

    #[test]
    fn one_turn_is_counted_as_one() {
        let text = transcript(1, "an answer").write(BUDGET);
        assert!(text.contains("This conversation of 1 turn took place"), "{text}");
    }

    #[test]
    fn a_refused_turn_is_left_out_with_all_that_was_said_in_it() {
        let mut transcript = transcript(2, "an answer");
        let ended = |reason: &str| Entry::TurnEnded {
            turn: TurnNo(3),
            stop: Stop::plain(reason),
            at: 0,
            state: json!({}).into(),
        };
        let started = Entry::TurnStarted { turn: TurnNo(3), at: 0, state: json!({}).into() };
        let item = |entry| Folded { first: Seq(1), last: Seq(1), entry };
        let before = transcript.write(BUDGET);
        transcript.add(&item(ended("end_turn")));
        // Some say something before the prompt is part of the conversation.
        for entries in
            [[turn(3, "no"), vec![item(started.clone())]], [vec![item(started.clone())], turn(3, "no")]]
        {
            let [first, then] = entries;
            let early = turn(3, "early").pop();
            first.iter().chain(&early).chain(&then).for_each(|item| transcript.add(item));
            transcript.add(&item(ended("refusal")));
            assert_eq!(transcript.write(BUDGET), before);
        }
    }

    #[test]
    fn one_huge_turn_is_cut_at_its_beginning() {
        let text = transcript(1, &"é".repeat(100_000)).write(10_000);
        assert!(text.len() < 11_000 && text.ends_with("é\n"));
    }
}
