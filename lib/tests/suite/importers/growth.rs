//! Sources that are imported again: unchanged, grown, rewound, continued here, deleted here, interrupted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rethread::importer::{Found, Places, SourceOutcome, SourceReport, ToolImport};
use rethread::session_file::ImportMode;
use rethread::store::memory::MemoryStore;
use rethread::store::{
    Append, Archived, DriftCount, Durability, ImportLedger as _, ImportProgress, ImportRecord, NativeId,
    NewSession, RowFacts, Store, Stub,
};
use rethread_core::{Entry, Json, MessageId, SessionId, Stop, TurnNo};
use serde_json::{Value, json};

use super::{entries, entry_text, reader};

const ID: &str = "22222222-0000-4000-8000-000000000001";

/// A folder with one file of Claude Code.
struct Project {
    folder: tempfile::TempDir,
    lines: Vec<Value>,
}

impl Project {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made"), lines: Vec::new() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{ID}.jsonl"))
    }

    fn record(&mut self, kind: &str, uuid: &str, message: &Value) {
        let parent = self.lines.last().map(|line| line["uuid"].clone());
        let at = format!("2026-03-04T10:00:{:02}.000Z", self.lines.len());
        self.lines
            .push(json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID, "cwd": "/w",
            "version": "2.1.239", "timestamp": at, "message": message}));
    }

    fn turn(&mut self, no: usize) {
        self.record("user", &format!("u{no}"), &json!({"role": "user", "content": format!("question {no}")}));
        self.answer(no, &json!("end_turn"));
    }

    fn answer(&mut self, no: usize, stop: &Value) {
        let content = json!([{"type": "text", "text": format!("answer {no}")}]);
        let message = json!({"id": format!("m{no}"), "role": "assistant", "model": "claude-opus-5",
            "content": content, "stop_reason": stop});
        self.record("assistant", &format!("a{no}"), &message);
    }

    /// Writes the file as one that was changed so long ago.
    fn write(&self, ago: Duration) {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(), text).expect("it can be written");
        let file = fs::File::options().write(true).open(self.path()).expect("it can be opened");
        file.set_modified(SystemTime::now() - ago).expect("the time can be set");
    }

    async fn import(&self, store: &dyn Store) -> SourceReport {
        self.import_as(store, ImportMode::Same).await
    }

    async fn import_as(&self, store: &dyn Store, mode: ImportMode) -> SourceReport {
        let mut reports = import_folder(store, "claude", self.folder.path(), mode).await;
        assert_eq!(reports.len(), 1);
        reports.remove(0)
    }
}

async fn import_folder(store: &dyn Store, tool: &str, folder: &Path, mode: ImportMode) -> Vec<SourceReport> {
    let mut found = Found::default();
    reader(tool).find(folder, &Places::default(), &mut found);
    let mut import = ToolImport::begin(store, reader(tool), mode).await.expect("the store works");
    let mut reports = Vec::new();
    for source in found.sources {
        reports.push(import.source(source).await.expect("it can be imported"));
    }
    reports
}

const OLD: Duration = Duration::from_secs(3600);
const NOW: Duration = Duration::ZERO;

async fn text(store: &dyn Store, id: &SessionId) -> String {
    entries(store, id).await.iter().map(entry_text).collect()
}

#[tokio::test]
async fn a_source_that_is_as_it_was_is_not_read_again() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    let first = project.import(&store).await;
    assert_eq!(first.outcome, SourceOutcome::Imported(1));
    assert_eq!(first.session, Some(ID.into()), "it keeps its id");
    let again = project.import(&store).await;
    assert_eq!((again.outcome, again.session), (SourceOutcome::Unchanged, first.session));
    // Touched, with the same content.
    project.write(OLD / 2);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
}

#[tokio::test]
async fn new_turns_of_a_source_are_appended() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    project.import(&store).await;
    project.turn(2);
    project.turn(3);
    project.write(OLD / 2);
    let grown = project.import(&store).await;
    assert_eq!(grown.outcome, SourceOutcome::Grown(2));
    let all = MemoryStore::new();
    project.import(&all).await;
    let turns = |text: String| {
        let is_of_turn = |line: &&str| {
            !line.starts_with("bound") && !line.starts_with("agent") && !line.starts_with("model")
        };
        text.lines().filter(is_of_turn).collect::<Vec<_>>().join("\n")
    };
    let (grown, whole) = (text(&store, &ID.into()).await, text(&all, &ID.into()).await);
    assert_eq!(turns(grown), turns(whole), "a session that grew is the same as one that was imported whole");
    let row = store.find(&ID.into()).await.expect("the store works").expect("it is there");
    assert_eq!(row.natives, [ID]);
    assert!(row.owner.is_none());
}

#[tokio::test]
async fn a_turn_that_the_tool_works_on_is_left_for_the_next_import() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.record("user", "u1", &json!({"role": "user", "content": "question 1"}));
    project.write(NOW);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::InProgress);
    project.answer(1, &json!("end_turn"));
    project.record("user", "u2", &json!({"role": "user", "content": "question 2"}));
    project.write(NOW);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Imported(1));
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
    project.answer(2, &Value::Null);
    project.write(NOW);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
    project.answer(2, &json!("end_turn"));
    project.lines.remove(3);
    project.lines[3]["parentUuid"] = json!("u2");
    project.write(NOW);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Grown(1));
    let shown = text(&store, &ID.into()).await;
    assert!(shown.contains("User u2: question 2") && shown.contains("Agent m2: answer 2"), "{shown}");
    assert_eq!(shown.matches("== turn").count(), 2, "{shown}");
}

#[tokio::test]
async fn a_session_that_had_turns_here_stays_as_it_is_and_a_copy_can_be_made() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    project.import(&store).await;
    let here = text_of_own_turn(&store).await;
    project.turn(2);
    project.write(OLD / 2);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Diverged);
    assert_eq!(text(&store, &ID.into()).await, here);
    let copy = project.import_as(&store, ImportMode::Copy).await;
    assert_eq!(copy.outcome, SourceOutcome::Imported(2));
    let id = copy.session.expect("it is stored");
    assert_ne!(id, ID.into());
    let row = store.find(&id).await.expect("the store works").expect("it is there");
    assert_eq!(row.natives, [""; 0], "the agent's own session stays with the original");
    let (state, _) = rethread::store::read_state(&store, &id).await.expect("it can be read");
    assert!(state.natives.is_empty(), "no agent has the copy");
}

/// Adds a turn to the session as a client would.
async fn text_of_own_turn(store: &dyn Store) -> String {
    let lease = store.claim(&ID.into()).await.expect("it is free");
    let (turn, state) = (TurnNo(2), || Json::from(json!({})));
    let content = Json::from(json!([{"type": "text", "text": "here"}]));
    let entries = vec![
        Entry::TurnStarted { turn, at: 1, state: state() },
        Entry::PromptInserted { message: MessageId("own".to_owned()), turn, content, at: 1 },
        Entry::TurnEnded { turn, stop: Stop::plain("end_turn"), at: 2, state: state() },
    ];
    let append = Append {
        session: ID.into(),
        epoch: lease.epoch,
        expected: lease.head,
        entries: entries.into_iter().map(Arc::new).collect(),
        facts: RowFacts::default(),
        durability: Durability::Process,
        at: None,
    };
    store.append(append).await.expect("it can be appended");
    store.release(&lease).await.expect("it can be released");
    text(store, &ID.into()).await
}

#[tokio::test]
async fn a_source_that_was_rewound_is_reported_and_its_session_stays() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.turn(2);
    project.write(OLD);
    project.import(&store).await;
    let before = text(&store, &ID.into()).await;
    project.record("user", "u3", &json!({"role": "user", "content": "another question 2"}));
    project.lines[4]["parentUuid"] = json!("a1");
    project.answer(3, &json!("end_turn"));
    project.write(OLD / 2);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Rewritten);
    assert_eq!(text(&store, &ID.into()).await, before);
    project.lines.truncate(2);
    project.write(OLD / 4);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Rewritten);
}

#[tokio::test]
async fn what_an_agent_ran_here_is_not_imported() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    let native = NativeId { agent: "@agentclientprotocol/claude-agent-acp".to_owned(), id: ID.to_owned() };
    let lease = store.create(other_session("ours", Some(native))).await.expect("it can be created");
    store.release(&lease).await.expect("it can be released");
    let report = project.import(&store).await;
    assert_eq!((report.outcome, report.session), (SourceOutcome::AlreadyHere, Some("ours".into())));
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
    project.turn(2);
    project.write(OLD / 2);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::AlreadyHere);
}

#[tokio::test]
async fn the_same_id_of_another_tool_gets_a_new_one_and_keeps_its_own_for_the_agent() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    let native = NativeId { agent: "another".to_owned(), id: ID.to_owned() };
    store.create(other_session(ID, Some(native))).await.expect("it can be created");
    let report = project.import(&store).await;
    assert_eq!(report.outcome, SourceOutcome::Imported(1));
    let id = report.session.expect("it is stored");
    assert_ne!(id, ID.into());
    let row = store.find(&id).await.expect("the store works").expect("it is there");
    assert_eq!(row.natives, [ID]);
}

#[tokio::test]
async fn a_row_that_an_agent_listed_becomes_the_session() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    let stub = Stub { id: ID.into(), cwd: "/w".to_owned(), title: None, updated_at: 1 };
    let agent = "@agentclientprotocol/claude-agent-acp";
    store.add_stubs(agent, &[stub]).await.expect("it can be added");
    assert_eq!(project.import(&store).await.session, Some(ID.into()));
}

#[tokio::test]
async fn a_session_that_was_deleted_here_is_not_imported_again() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.write(OLD);
    project.import(&store).await;
    store.delete(&ID.into(), 1).await.expect("it can be deleted");
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
    project.turn(2);
    project.write(OLD / 2);
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::DeletedHere);
}

#[tokio::test]
async fn an_import_that_was_interrupted_is_made_again() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.turn(2);
    project.write(OLD);
    let record = ImportRecord {
        tool: "claude".to_owned(),
        path: project.path().display().to_string(),
        session: Some(ID.into()),
        progress: ImportProgress::Begun,
        ..ImportRecord::default()
    };
    let native = NativeId { agent: "@agentclientprotocol/claude-agent-acp".to_owned(), id: ID.to_owned() };
    let mut half = other_session(ID, Some(native.clone()));
    let (agent, native) = (native.agent, native.id);
    half.entries.push(Arc::new(Entry::AgentBound {
        generation: 1,
        agent,
        native,
        binding: rethread_core::Binding::Fresh,
        style: rethread_core::PromptStyle::OneAtATime,
        kind: rethread_core::AgentKind::External,
    }));
    half.facts.import = Some(record);
    let lease = store.create(half).await.expect("it can be created");
    store.release(&lease).await.expect("it can be released");
    let report = project.import(&store).await;
    assert_eq!(report.outcome, SourceOutcome::Imported(2));
    assert_ne!(report.session, Some(ID.into()), "an id is never given twice");
    assert_eq!(project.import(&store).await.outcome, SourceOutcome::Unchanged);
}

#[tokio::test]
async fn what_is_archived_there_is_archived_here_and_drift_is_counted() {
    let (mut project, store) = (Project::new(), MemoryStore::new());
    project.turn(1);
    project.lines.push(json!({"type": "custom-title", "customTitle": "[archived] Old"}));
    project.lines.push(json!({"type": "telepathy", "version": "9.9"}));
    project.write(OLD);
    project.import(&store).await;
    let row = store.find(&ID.into()).await.expect("the store works").expect("it is there");
    assert_eq!(row.archived, Archived::Yes);
    assert_eq!(row.title.map(|(title, _)| title).as_deref(), Some("Old"));
    let (tool, version, what) = ("claude".to_owned(), "9.9".to_owned(), "record telepathy".to_owned());
    let drift = store.drift().await.expect("the store works");
    assert_eq!(drift, [DriftCount { tool, version, what, count: 1 }]);
}

fn other_session(id: &str, native: Option<NativeId>) -> NewSession {
    let (cwd, agent) = ("/w".to_owned(), "agent".to_owned());
    let opened =
        Entry::Opened { cwd: cwd.clone(), roots: Vec::new(), agent: agent.clone(), at: 1, moved_from: None };
    NewSession {
        id: id.into(),
        cwd,
        agent,
        parent: None,
        entries: vec![Arc::new(opened)],
        facts: RowFacts { native, ..RowFacts::default() },
        snapshot: None,
        at: 1,
    }
}
