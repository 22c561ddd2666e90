//! Session files of other tools: each folder below `tests/fixtures/import/TOOL-VERSION` is a case. Its folder `files` is
//! imported as the tool's root, and what is stored then is compared with `expected.txt`. A new case is a new folder;
//! `UPDATE_EXPECT=1` writes what it comes to.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect_file;
use rethread::importer::{self, Found, Places, SessionReader, SourceReport, ToolImport};
use rethread::session_file::ImportMode;
use rethread::store::memory::MemoryStore;
use rethread::store::{SessionRow, Store};
use rethread::transcript::{JournalScan, ScanStep};
use rethread_core::{Entry, Passage, SessionId, UpdateKind, readable};

mod databases;
mod growth;
mod prefixes;
mod sources;

#[tokio::test]
async fn every_case_is_read_as_expected() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    let mut cases = 0;
    for version in folders(&fixtures) {
        let name = version.file_name().and_then(|name| name.to_str()).expect("fixtures have plain names");
        let reader = reader(name.split('-').next().unwrap_or_default());
        for case in folders(&version) {
            let seen = import_case(reader, &case).await;
            expect_file![case.join("expected.txt")].assert_eq(&seen);
            cases += 1;
        }
    }
    assert!(cases > 0, "there are no fixtures in {}", fixtures.display());
}

/// The reader of a tool.
pub(crate) fn reader(tool: &str) -> &'static dyn SessionReader {
    let found = importer::readers().iter().find(|reader| reader.tool().name == tool);
    *found.unwrap_or_else(|| panic!("there is no reader for {tool}"))
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).expect("the fixtures are there");
    let mut folders: Vec<_> = listed.map(|item| item.expect("it can be listed").path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// Imports the files of a case into an empty store, and shows what is stored then.
async fn import_case(reader: &'static dyn SessionReader, case: &Path) -> String {
    let scratch = tempfile::tempdir().expect("a folder can be made");
    let places = Places { scratch: scratch.path().join("scratch"), ..Places::default() };
    let files = scratch.path().join("files");
    copy(&case.join("files"), &files);
    let mut found = Found::default();
    reader.find(&files, &places, &mut found);
    let store = MemoryStore::new();
    let mut import = ToolImport::begin(&store, reader, ImportMode::Same).await.expect("the store works");
    let mut seen = String::new();
    for refused in &found.unreadable {
        let _ = writeln!(seen, "unreadable {}: {}", short(&refused.path, &files), refused.reason);
    }
    for source in found.sources {
        let _ = writeln!(seen, "# {} {}", short(&source.path, &files), source.key);
        match import.source(source).await {
            Ok(report) => seen += &shown(&store, &report, &files).await,
            Err(error) => {
                let _ = writeln!(seen, "failed: {error}");
            }
        }
    }
    // The folder of the test is another one each time.
    seen.replace(&files.display().to_string(), "")
}

/// Copies the files of a case, as files that were written long ago. A file `NAME.db.sql` becomes the database `NAME.db`.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for item in fs::read_dir(from).expect("the fixture is there") {
        let path = item.expect("it can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("fixtures have plain names");
        let target = to.join(name.strip_suffix(".sql").unwrap_or(name));
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        if name.ends_with(".db.sql") {
            let database = rusqlite::Connection::open(&target).expect("a database can be made");
            let script = fs::read_to_string(&path).expect("it can be read");
            database.execute_batch(&script).expect("the script is right");
        } else {
            fs::copy(&path, &target).expect("it can be copied");
        }
        let then = std::time::UNIX_EPOCH + Duration::from_secs(1_772_700_000);
        let file = fs::File::options().write(true).open(&target).expect("it can be opened");
        file.set_modified(then).expect("the time can be set");
    }
}

fn short(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

async fn shown(store: &dyn Store, report: &SourceReport, root: &Path) -> String {
    let mut seen = format!("{:?}\n", report.outcome).to_lowercase();
    if let Some(id) = &report.session {
        let row = store.find(id).await.expect("the store works").expect("it is stored");
        seen += &heading(&row);
        for entry in entries(store, id).await {
            seen += &entry_text(&entry);
        }
    }
    for ((version, what), count) in &report.notes.drift {
        let _ = writeln!(seen, "unknown in {version}: {what} ({count})");
    }
    for place in &report.notes.damaged {
        let _ = writeln!(seen, "damaged {}:{}: {}", short(&place.path, root), place.line, place.reason);
    }
    seen
}

fn heading(row: &SessionRow) -> String {
    let title = row.title.as_ref().map(|(title, by)| format!("{title} ({by:?})")).unwrap_or_default();
    format!(
        "title: {title}\ndirectory: {}\nagent: {}\nids: {}\nchanged: {}\n",
        row.cwd,
        row.agent,
        row.natives.join(", "),
        time(&row.updated_at)
    )
}

async fn entries(store: &dyn Store, id: &SessionId) -> Vec<Entry> {
    let mut scan = JournalScan::new(store, id);
    let mut entries = Vec::new();
    while let ScanStep::Page(page) = scan.step().await.expect("the store works") {
        let items = scan.decoded(&page).expect("the journal is whole");
        entries.extend(items.into_iter().map(|item| item.entry));
    }
    entries
}

/// A time of a fixture; what is later is the time of the test.
fn time(at: &u64) -> String {
    const LATEST: u64 = 1_790_000_000_000;
    if *at > LATEST { "now".to_owned() } else { rethread::clock::rfc3339(*at) }
}

fn entry_text(entry: &Entry) -> String {
    match entry {
        Entry::Opened { at, .. } => format!("opened {}\n", time(at)),
        Entry::AgentBound { agent, native, .. } => format!("bound to {agent} {native}\n"),
        Entry::AgentLost { .. } => "agent gone\n".to_owned(),
        Entry::TurnStarted { turn, at, .. } => format!("\n== turn {} {}\n", turn.0, time(at)),
        Entry::TurnEnded { stop, at, state, .. } => {
            let usage = state.fields().take("usage").map(|usage| format!(" {usage}")).unwrap_or_default();
            let shown = readable(entry).map(|passage| passage_text(&passage)).unwrap_or_default();
            format!("{shown}== {} {}{usage}\n", stop.reason, time(at))
        }
        Entry::Updated { update, .. } => match readable(entry) {
            Some(passage) => passage_text(&passage),
            None if update.kind == UpdateKind::ConfigOptionUpdate => {
                let options = update.body.value()["configOptions"].clone();
                format!("model: {}\n", options[0]["currentValue"])
            }
            None => format!("{}\n", update.body),
        },
        Entry::RootsSet { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptSent { .. }
        | Entry::PromptInserted { .. }
        | Entry::PromptDropped { .. }
        | Entry::StateChanged { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => readable(entry).map(|passage| passage_text(&passage)).unwrap_or_default(),
    }
}

fn passage_text(passage: &Passage) -> String {
    let child = if passage.child.is_empty() { String::new() } else { format!("[{}] ", passage.child) };
    let text = passage.text().replace('\n', "\n    ");
    format!("{child}{} {}: {text}\n", passage.speaker.name(), passage.id)
}
