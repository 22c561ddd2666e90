//! The rows of the table of update kinds. Kinds that share most of a row share a constant below it.

use super::{
    ContentPlace, ContentStyle, ConversationRole, FoldRule, HistoryRule, IdPlace, Meaning, ReplayRule,
    Subject, UpdateForm, UpdateKind,
};
use crate::Speaker;

pub(super) static ROWS: [Meaning; UpdateKind::ALL.len()] = {
    let mut rows = [OTHER; UpdateKind::ALL.len()];
    let mut at = 0;
    while at < rows.len() {
        rows[UpdateKind::ALL[at] as usize] = row(UpdateKind::ALL[at]);
        at += 1;
    }
    rows
};

/// The kinds by their stored byte. Two kinds with the same byte do not compile.
pub(crate) const BY_STORED: [UpdateKind; UpdateKind::ALL.len()] = {
    let mut kinds = [UpdateKind::Other; UpdateKind::ALL.len()];
    let mut at = 0;
    while at < kinds.len() {
        let kind = UpdateKind::ALL[at];
        let place = &mut kinds[row(kind).stored as usize];
        assert!(matches!(place, UpdateKind::Other), "two kinds have one stored byte");
        *place = kind;
        at += 1;
    }
    kinds
};

const OTHER: Meaning = Meaning {
    tag: "other",
    stored: 0,
    whole: UpdateKind::Other,
    subject: Subject::Other,
    form: UpdateForm::Event,
    id: IdPlace::None,
    conversation: ConversationRole::Outside,
    replay: ReplayRule::InPlace,
    history: HistoryRule::Omitted,
    speaker: None,
    fold: FoldRule::Keep,
    content: None,
};

/// What all messages have in common.
const MESSAGE: Meaning = Meaning {
    form: UpdateForm::Upsert,
    id: IdPlace::Member("messageId"),
    conversation: ConversationRole::Essential,
    history: HistoryRule::Given,
    fold: FoldRule::Merge,
    content: Some(ContentPlace { whole: "content", chunk: "content", style: ContentStyle::Blocks }),
    ..OTHER
};

/// What describes the session as it is now.
const STANDING: Meaning =
    Meaning { form: UpdateForm::Complete, replay: ReplayRule::LastWord, fold: FoldRule::LastOfKind, ..OTHER };

const THOUGHT: Meaning = Meaning {
    subject: Subject::Thought,
    conversation: ConversationRole::Accompanying,
    speaker: Some(Speaker::Thought),
    ..MESSAGE
};

const TOOL_CALL: Meaning = Meaning {
    subject: Subject::ToolCall,
    speaker: Some(Speaker::Tool),
    id: IdPlace::Member("toolCallId"),
    content: Some(ContentPlace { whole: "content", chunk: "content", style: ContentStyle::Items }),
    ..MESSAGE
};

const TERMINAL: Meaning = Meaning {
    subject: Subject::Terminal,
    speaker: Some(Speaker::Terminal),
    form: UpdateForm::Upsert,
    id: IdPlace::Member("terminalId"),
    fold: FoldRule::Merge,
    content: Some(ContentPlace { whole: "output", chunk: "data", style: ContentStyle::Bytes }),
    ..OTHER
};

const PLAN: Meaning = Meaning {
    subject: Subject::Plan,
    speaker: Some(Speaker::Plan),
    conversation: ConversationRole::Accompanying,
    fold: FoldRule::LastOfId,
    ..OTHER
};

const COMPACTION: Meaning = Meaning {
    subject: Subject::Compaction,
    speaker: Some(Speaker::Compaction),
    form: UpdateForm::Upsert,
    id: IdPlace::Member("compactionId"),
    history: HistoryRule::Given,
    fold: FoldRule::MergeUnknown,
    content: Some(ContentPlace { whole: "summary", chunk: "content", style: ContentStyle::Blocks }),
    ..OTHER
};

const fn row(kind: UpdateKind) -> Meaning {
    use UpdateKind as Kind;
    let own = match kind {
        Kind::UserMessage => {
            let (subject, speaker) = (Subject::UserMessage, Some(Speaker::User));
            Meaning { tag: "user_message", stored: 2, subject, speaker, ..MESSAGE }
        }
        Kind::AgentMessage => {
            let (subject, speaker) = (Subject::AgentMessage, Some(Speaker::Agent));
            Meaning { tag: "agent_message", stored: 4, subject, speaker, ..MESSAGE }
        }
        Kind::AgentThought => Meaning { tag: "agent_thought", stored: 6, ..THOUGHT },
        Kind::ToolCallUpdate => Meaning { tag: "tool_call_update", stored: 7, ..TOOL_CALL },
        Kind::TerminalUpdate => Meaning { tag: "terminal_update", stored: 9, ..TERMINAL },
        Kind::PlanUpdate => {
            let (form, id) = (UpdateForm::Complete, IdPlace::Nested("plan", "planId"));
            Meaning { tag: "plan_update", stored: 11, form, id, ..PLAN }
        }
        Kind::PlanRemoved => {
            let (form, id) = (UpdateForm::Removal, IdPlace::Member("planId"));
            Meaning { tag: "plan_removed", stored: 12, form, id, ..PLAN }
        }
        Kind::AvailableCommandsUpdate => {
            Meaning { tag: "available_commands_update", stored: 13, subject: Subject::Commands, ..STANDING }
        }
        Kind::ConfigOptionUpdate => {
            Meaning { tag: "config_option_update", stored: 14, subject: Subject::Options, ..STANDING }
        }
        Kind::SessionInfoUpdate => {
            let (form, fold) = (UpdateForm::Upsert, FoldRule::MergeUnknown);
            let subject = Subject::SessionInfo;
            Meaning { tag: "session_info_update", stored: 15, subject, form, fold, ..STANDING }
        }
        Kind::UsageUpdate => {
            let history = HistoryRule::Given;
            Meaning { tag: "usage_update", stored: 16, subject: Subject::Usage, history, ..STANDING }
        }
        Kind::CompactionUpdate => Meaning { tag: "compaction_update", stored: 17, ..COMPACTION },
        Kind::Notice => {
            let (replay, fold, speaker) = (ReplayRule::LiveOnly, FoldRule::Drop, Some(Speaker::Notice));
            Meaning { tag: "notice", stored: 19, subject: Subject::Notice, replay, fold, speaker, ..OTHER }
        }
        Kind::Other => OTHER,
        Kind::UserMessageChunk => return chunk_of(Kind::UserMessage, "user_message_chunk", 1),
        Kind::AgentMessageChunk => return chunk_of(Kind::AgentMessage, "agent_message_chunk", 3),
        Kind::AgentThoughtChunk => return chunk_of(Kind::AgentThought, "agent_thought_chunk", 5),
        Kind::ToolCallContentChunk => return chunk_of(Kind::ToolCallUpdate, "tool_call_content_chunk", 8),
        Kind::TerminalOutputChunk => return chunk_of(Kind::TerminalUpdate, "terminal_output_chunk", 10),
        Kind::CompactionSummaryChunk => {
            return chunk_of(Kind::CompactionUpdate, "compaction_summary_chunk", 18);
        }
    };
    Meaning { whole: kind, ..own }
}

/// The row of the chunks that append to things of a kind: they share all but their form.
const fn chunk_of(whole: UpdateKind, tag: &'static str, stored: u8) -> Meaning {
    Meaning { tag, stored, form: UpdateForm::Chunk, ..row(whole) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn cells(kind: UpdateKind) -> [String; 11] {
        let row = kind.meaning();
        let id = match row.id {
            IdPlace::None => "-".to_owned(),
            IdPlace::Member(name) => name.to_owned(),
            IdPlace::Nested(object, name) => format!("{object}.{name}"),
        };
        let content = row.content.map_or("-".to_owned(), |ContentPlace { whole, chunk, style }| {
            format!("{chunk} to {whole}, {style:?}")
        });
        [
            format!("{} {}", row.stored, row.tag),
            format!("{:?}", row.subject),
            format!("{:?}", row.form),
            row.whole.meaning().tag.to_owned(),
            id,
            format!("{:?}", row.conversation),
            format!("{:?}", row.replay),
            format!("{:?}", row.history),
            row.speaker.map_or("-", Speaker::name).to_owned(),
            format!("{:?}", row.fold),
            content,
        ]
    }

    #[test]
    fn the_table() {
        let rows = UpdateKind::ALL.map(cells);
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let line = |row: &[String; 11]| {
            let cells = row.iter().enumerate().map(|(at, cell)| format!("{cell:0$}", width(at)));
            format!("{}\n", cells.collect::<Vec<_>>().join(" | ").trim_end())
        };
        expect![[r#"
            1 user_message_chunk         | UserMessage  | Chunk    | user_message              | messageId    | Essential    | InPlace  | Given   | User       | Merge        | content to content, Blocks
            2 user_message               | UserMessage  | Upsert   | user_message              | messageId    | Essential    | InPlace  | Given   | User       | Merge        | content to content, Blocks
            3 agent_message_chunk        | AgentMessage | Chunk    | agent_message             | messageId    | Essential    | InPlace  | Given   | Agent      | Merge        | content to content, Blocks
            4 agent_message              | AgentMessage | Upsert   | agent_message             | messageId    | Essential    | InPlace  | Given   | Agent      | Merge        | content to content, Blocks
            5 agent_thought_chunk        | Thought      | Chunk    | agent_thought             | messageId    | Accompanying | InPlace  | Given   | Thought    | Merge        | content to content, Blocks
            6 agent_thought              | Thought      | Upsert   | agent_thought             | messageId    | Accompanying | InPlace  | Given   | Thought    | Merge        | content to content, Blocks
            7 tool_call_update           | ToolCall     | Upsert   | tool_call_update          | toolCallId   | Essential    | InPlace  | Given   | Tool       | Merge        | content to content, Items
            8 tool_call_content_chunk    | ToolCall     | Chunk    | tool_call_update          | toolCallId   | Essential    | InPlace  | Given   | Tool       | Merge        | content to content, Items
            9 terminal_update            | Terminal     | Upsert   | terminal_update           | terminalId   | Outside      | InPlace  | Omitted | Terminal   | Merge        | data to output, Bytes
            10 terminal_output_chunk     | Terminal     | Chunk    | terminal_update           | terminalId   | Outside      | InPlace  | Omitted | Terminal   | Merge        | data to output, Bytes
            11 plan_update               | Plan         | Complete | plan_update               | plan.planId  | Accompanying | InPlace  | Omitted | Plan       | LastOfId     | -
            12 plan_removed              | Plan         | Removal  | plan_removed              | planId       | Accompanying | InPlace  | Omitted | Plan       | LastOfId     | -
            13 available_commands_update | Commands     | Complete | available_commands_update | -            | Outside      | LastWord | Omitted | -          | LastOfKind   | -
            14 config_option_update      | Options      | Complete | config_option_update      | -            | Outside      | LastWord | Omitted | -          | LastOfKind   | -
            15 session_info_update       | SessionInfo  | Upsert   | session_info_update       | -            | Outside      | LastWord | Omitted | -          | MergeUnknown | -
            16 usage_update              | Usage        | Complete | usage_update              | -            | Outside      | LastWord | Given   | -          | LastOfKind   | -
            17 compaction_update         | Compaction   | Upsert   | compaction_update         | compactionId | Outside      | InPlace  | Given   | Compaction | MergeUnknown | content to summary, Blocks
            18 compaction_summary_chunk  | Compaction   | Chunk    | compaction_update         | compactionId | Outside      | InPlace  | Given   | Compaction | MergeUnknown | content to summary, Blocks
            19 notice                    | Notice       | Event    | notice                    | -            | Outside      | LiveOnly | Omitted | Notice     | Drop         | -
            0 other                      | Other        | Event    | other                     | -            | Outside      | InPlace  | Omitted | -          | Keep         | -
        "#]].assert_eq(&rows.iter().map(line).collect::<String>());
    }

    #[test]
    fn a_tag_is_the_name_that_entries_are_stored_with() {
        for kind in UpdateKind::ALL {
            let tag = kind.meaning().tag;
            assert_eq!(serde_json::to_value(kind).ok(), Some(tag.into()));
            assert_eq!(UpdateKind::of_tag(tag), kind);
            assert_eq!(UpdateKind::ALL[kind as usize], kind);
        }
        assert_eq!(UpdateKind::of_tag("state_update"), UpdateKind::Other);
    }
}
