//! Files of sessions that somebody else wrote, and journals that are folded while they are read.

use std::io::Cursor;
use std::sync::Arc;

use rethread::server::Config;
use rethread::session_file::{
    ExportRedaction, ImportMode, ImportOutcome, export_session, import_section, read_sections,
};
use rethread::store::memory::MemoryStore;
use rethread::store::{Append, Durability, FoldUpTo, NewSession, RowFacts, Store, StoreError};
use rethread::transcript::{JournalScan, ScanStep, SessionOutline, TurnFold, each_turn};
use rethread_core::{Entry, Json, MessageId, Seq, SessionId, Stop, TurnNo, Update};
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

fn updated(body: Value) -> Entry {
    Entry::Updated { update: Update::read(body.into()), known: false }
}

fn chunk(no: usize, text: &str) -> Entry {
    updated(json!({"sessionUpdate": "agent_message_chunk", "messageId": "a",
        "content": {"type": "text", "text": format!("{no} {text}")}}))
}

/// A turn in which the agent answers in chunks.
fn turn(no: u64, chunks: usize, text: &str) -> Vec<Entry> {
    let (turn, state) = (TurnNo(no), || Json::from(json!({})));
    let content = Json::from(json!([{"type": "text", "text": "hi"}]));
    let message = MessageId(format!("p{no}"));
    let mut entries = vec![
        Entry::TurnStarted { turn, at: 1, state: state() },
        Entry::PromptInserted { message, turn, content, at: 1 },
    ];
    entries.extend((0..chunks).map(|no| chunk(no, text)));
    entries.push(Entry::TurnEnded { turn, stop: Stop::plain("end_turn"), at: 2, state: state() });
    entries
}

fn new_session(id: &str, entries: Vec<Entry>) -> NewSession {
    NewSession {
        id: id.into(),
        cwd: "/w".to_owned(),
        agent: "agent".to_owned(),
        parent: None,
        entries: entries.into_iter().map(Arc::new).collect(),
        facts: RowFacts::default(),
        snapshot: None,
        at: 1,
    }
}

fn opened() -> Entry {
    Entry::Opened {
        cwd: "/w".to_owned(),
        roots: Vec::new(),
        agent: "agent".to_owned(),
        at: 1,
        moved_from: None,
    }
}

async fn exported(store: &dyn Store, id: &SessionId) -> String {
    let row = store.find(id).await.expect("a row").expect("it exists");
    let mut text = String::new();
    let write = |line: &str| -> Result<(), StoreError> {
        text += line;
        Ok(())
    };
    let damage = export_session(store, &row, ExportRedaction::Off, write).await.expect("it can be read");
    assert_eq!(damage, None);
    text
}

/// Imports all sessions of a file into an empty store, and exports them again.
async fn imported(text: &[u8]) -> Vec<String> {
    let store = MemoryStore::new();
    let Ok(content) = read_sections(Cursor::new(text)) else { return Vec::new() };
    let mut again = Vec::new();
    for section in content.sections.iter().filter(|section| section.entries > 0) {
        let offset = usize::try_from(section.offset()).expect("a file in memory");
        let entries = || Cursor::new(&text[offset..]);
        let done = import_section(&store, section, ImportMode::Same, entries()).await.expect("a store");
        if done.outcome == ImportOutcome::Stored {
            let second = import_section(&store, section, ImportMode::Same, entries()).await.expect("a store");
            assert_eq!(second.outcome, ImportOutcome::Unchanged, "{}", String::from_utf8_lossy(text));
            again.push(exported(&store, &done.id).await);
            let row = store.find(&done.id).await.expect("a row").expect("it exists");
            SessionOutline::read(&store, &row).await.expect("it can be read");
            let turns = each_turn(&store, &done.id, |_| -> Result<(), StoreError> { Ok(()) }).await;
            assert_eq!(turns.expect("it can be read"), None);
        }
    }
    again
}

#[tokio::test]
async fn files_that_were_tampered_with_do_no_harm() {
    let store = MemoryStore::new();
    let mut entries = vec![opened()];
    entries.extend(turn(1, 3, "some \u{1f469}\u{200d}\u{1f680} text"));
    entries.push(updated(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "t",
        "status": "completed", "content": [{"type": "terminal", "terminalId": "x"}]})));
    entries.extend(turn(2, 2, "more"));
    store.create(new_session("s", entries)).await.expect("it can be created");
    let text = exported(&store, &"s".into()).await.into_bytes();
    assert_eq!(imported(&text).await, [String::from_utf8(text.clone()).expect("it is UTF-8")]);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).expect("a small number")
    };
    for _ in 0..400 {
        let mut bytes = text.clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] ^= 1 << random(8),
                1 => drop(bytes.drain(at..(at + random(40)).min(bytes.len()))),
                2 => bytes.insert(at, b"\n\0\"{}[]9-"[random(9)]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        imported(&bytes).await;
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_without_keeping_it() {
    let store = MemoryStore::new();
    store.create(new_session("s", [vec![opened()], turn(1, 1, "x")].concat())).await.expect("created");
    let text = exported(&store, &"s".into()).await;
    let (head, rest) = text.split_once('\n').expect("lines");
    let long = "a".repeat(64 * 1024 * 1024 + 10);
    let file = format!("{head}\n{long}\n{rest}");
    let content = read_sections(Cursor::new(&file)).expect("it can be read");
    assert_eq!((content.skipped, content.broken[0].line), (1, 2));
    assert_eq!(content.broken[0].reason, "the line is too long");
    assert_eq!(content.sections[0].entries, 5);
}

#[tokio::test]
async fn a_turn_that_is_folded_while_it_is_read_is_read_whole() {
    let store = MemoryStore::new();
    let id = SessionId("s".to_owned());
    let lease = store.create(new_session("s", vec![opened()])).await.expect("it can be created");
    let entries = turn(1, 40, &"word ".repeat(20_000));
    let upto = Seq(lease.head.0 + entries.len() as u64);
    let append = Append {
        session: id.clone(),
        epoch: lease.epoch,
        expected: lease.head,
        entries: entries.into_iter().map(Arc::new).collect(),
        facts: RowFacts::default(),
        durability: Durability::Process,
        at: None,
    };
    store.append(append).await.expect("it can be appended to");
    let (mut scan, mut fold) = (JournalScan::new(&store, &id), TurnFold::default());
    let (mut turns, mut pages, mut restarts) = (Vec::new(), 0, 0);
    loop {
        match scan.step().await.expect("it can be read") {
            ScanStep::Page(page) => {
                for item in scan.decoded(&page).expect("it is whole") {
                    turns.extend(fold.push(&item.entry));
                }
                pages += 1;
                if pages == 3 {
                    store.fold(&lease, FoldUpTo { upto, snapshot: None }).await.expect("it can be folded");
                }
            }
            ScanStep::Restarted => {
                fold.restart_turn();
                restarts += 1;
            }
            ScanStep::End => break,
        }
    }
    // Once to know how far it is folded, once because of the fold.
    assert_eq!(restarts, 2);
    let text = turns.iter().map(|turn| serde_json::to_string(turn).expect("JSON")).collect::<String>();
    assert_eq!(text.matches("word").count(), 40 * 20_000);
}

/// A store with what was exported of a session, and the id that it has there.
async fn moved(world: &World, session: &str, mode: ImportMode) -> (Arc<dyn Store>, String) {
    let text = exported(world.store.as_ref(), &session.into()).await;
    let store = MemoryStore::new();
    let content = read_sections(Cursor::new(&text)).expect("it can be read");
    let section = &content.sections[0];
    assert!(section.complete && content.skipped == 0);
    let offset = usize::try_from(section.offset()).expect("a file in memory");
    let imported = import_section(&store, section, mode, Cursor::new(&text[offset..])).await;
    (Arc::new(store), imported.expect("it can be stored").id.0)
}

async fn an_imported_session_is_restored_by_its_agent(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "think hard; say one; tool call_1; plan a,b; usage 5/100").await;
    let live = first.view(&session);
    first.disconnect().await;
    world.agent.wait_gone().await;
    let (store, id) = moved(&world, &session, ImportMode::Same).await;
    assert_eq!(id, session);
    let there = World::over(world.client, world.agent.clone(), store, Config::default());
    let client = there.ready().await;
    client.load(&session).await;
    assert_eq!(client.view(&session), live);
    client.prompt(&session, "say two").await;
    assert_eq!(client.view(&session).agent(), ["one", "two"]);
    assert_eq!(there.agent.received_params("session/new").len(), 1, "no second session at the agent");
}

async fn a_copy_goes_on_from_the_transcript(pairing: Pairing) {
    let world = World::of(pairing);
    let first = world.ready().await;
    let session = first.new_session().await;
    first.prompt(&session, "say the secret is blue").await;
    first.disconnect().await;
    world.agent.wait_gone().await;
    let (store, id) = moved(&world, &session, ImportMode::Copy).await;
    assert_ne!(id, session);
    let there = World::over(world.client, world.agent.clone(), store, Config::default());
    let client = there.ready().await;
    client.load(&id).await;
    client.prompt(&id, "say two").await;
    assert_eq!(client.view(&id).agent(), ["the secret is blue", "two"]);
    assert_eq!(there.agent.received_params("session/new").len(), 2, "it has a session of its own");
    let prompt = there.agent.received_params("session/prompt").pop().expect("a prompt").to_string();
    assert!(prompt.contains("The conversation so far"), "{prompt}");
}

pairings!(an_imported_session_is_restored_by_its_agent);

pairings!(wire:
    // An agent of the library is given the whole history.
    a_copy_goes_on_from_the_transcript,
);
