//! Rebuilds what a disk may have after a power failure at many points of a recorded run, and checks what a store finds there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rethread::edge::Version;
use rethread::server::Config;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::{Deleted, Store, StoreError};
use rethread_core::{Entry, Seq, SessionId, TurnNo};
use rethread_testkit::World;
use rethread_testkit::agent::ScriptedAgent;
use rethread_testkit::kept;
use rethread_testkit::view::View;

use super::model::{Disk, DiskState, NameRule, Random};
use super::recorded_run::{Promise, RecordedRun};

/// The number of points beside those right after an answer.
const RANDOM_POINTS: usize = 320;
/// How much of a journal is read at once.
const READ_BUDGET: usize = 1 << 20;

/// What was checked.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) states: usize,
    pub(crate) turns: usize,
    /// Journals with a hole before the end of a turn that was not answered: they are refused.
    pub(crate) damaged: usize,
}

/// Checks all points.
pub(crate) async fn check(run: &RecordedRun) -> Checked {
    let disk = Disk::new(&run.calls);
    let reference = reference(run).await;
    let mut checked = Checked::default();
    let mut random = Random(7);
    let after_answers: Vec<usize> = run.answers.iter().map(|answer| answer.at).collect();
    let points = after_answers.into_iter().chain((0..RANDOM_POINTS).map(|_| random.below(run.end())));
    for (number, point) in points.collect::<Vec<_>>().into_iter().enumerate() {
        let rule = [NameRule::DirectorySynced, NameRule::FileSynced][number % 2];
        let state = disk.after_power_cut(point, rule, &mut random);
        let label = format!("state {number}, at {point} of {}, {rule:?}", run.end());
        StateCheck { run, reference: &reference, point, state: &state, label }.run(&mut checked).await;
    }
    checked
}

/// What each session has in the end, which is everything that was written.
async fn reference(run: &RecordedRun) -> BTreeMap<String, View> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    copy_store(&run.home.path(), folder.path());
    let world = world(open(folder.path()).expect("it opens"));
    let client = world.ready().await;
    let mut views = BTreeMap::new();
    for answer in run.answers.iter().filter(|answer| answer.what == Promise::Created) {
        if run.answers.iter().any(|other| other.session == answer.session && other.what == Promise::Deleted) {
            views.insert(answer.session.clone(), run.of_deleted.clone());
            continue;
        }
        client.load(&answer.session).await;
        let view = client.view(&answer.session);
        let texts = view.agent();
        for ended in run.answers.iter().filter(|ended| ended.session == answer.session) {
            if let Promise::TurnEnded(turn) = ended.what {
                assert!(texts.contains(&format!("end {turn}")), "turn {turn} is not in\n{view}");
            }
        }
        views.insert(answer.session.clone(), view);
    }
    views
}

struct StateCheck<'a> {
    run: &'a RecordedRun,
    reference: &'a BTreeMap<String, View>,
    point: usize,
    state: &'a DiskState,
    label: String,
}

impl StateCheck<'_> {
    async fn run(&self, checked: &mut Checked) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        self.write(folder.path());
        let store = match open(folder.path()) {
            Ok(store) => store,
            Err(error) => panic!("{}: {error:?}", self.label),
        };
        let mut readable = Vec::new();
        for session in self.reference.keys() {
            if self.check_journal(&store, session, checked).await {
                readable.push(session);
            }
        }
        let world = world(store.clone());
        let client = world.ready().await;
        for session in readable {
            client.load(session).await;
            let view = client.view(session);
            self.check_view(session, &view);
            let turn = client.prompt(session, "say after the failure").await;
            assert_eq!(turn.stop, "end_turn", "{}: {session}", self.label);
            // Every agent counts its ids from one.
            client.close(session).await.expect("it closes");
            let (ended, fault) = read_all(&store, &SessionId::from(session.as_str()), &self.label).await;
            let enough = ended.len() > self.turns(session).len();
            assert!(fault.is_none() && enough, "{}: {session}: {ended:?}, {fault:?}", self.label);
        }
        checked.states += 1;
    }

    fn write(&self, folder: &Path) {
        for (path, bytes) in &self.state.files {
            let below = path.strip_prefix(self.run.home.path()).expect("it is a file of the store");
            let path = folder.join(below);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
            fs::write(path, bytes).expect("it can be written");
        }
    }

    fn promised(&self, session: &str) -> impl Iterator<Item = &Promise> {
        let answers = self.run.answers.iter().filter(|answer| answer.at < self.point);
        answers.filter(move |answer| answer.session == session).map(|answer| &answer.what)
    }

    /// Checks the entries of a session. Returns whether it can be opened.
    async fn check_journal(&self, store: &Arc<EmbeddedStore>, session: &str, checked: &mut Checked) -> bool {
        let (id, label) = (SessionId::from(session), &self.label);
        let row = store.find(&id).await.unwrap_or_else(|error| panic!("{label}: {session}: {error:?}"));
        let deleted = row.as_ref().is_some_and(|row| row.deleted == Deleted::Yes);
        if self.promised(session).any(|promise| *promise == Promise::Deleted) {
            assert!(deleted, "{label}: {session} is back");
        }
        let Some(_) = row.filter(|_| !deleted) else {
            let created = self.promised(session).next().is_some();
            assert!(deleted || !created, "{label}: {session} is lost");
            return false;
        };
        let (ended, fault) = read_all(store, &id, label).await;
        let promised = self.turns(session);
        assert!(ended.len() >= promised.len(), "{label}: {session} has {ended:?}, not {promised:?}");
        checked.turns += promised.len();
        match fault {
            None => true,
            Some(StoreError::Damaged { source, .. }) => {
                let hole = self.state.with_holes.iter().any(|path| source.to_string().contains(&name(path)));
                assert!(hole, "{label}: {session}: {source}");
                checked.damaged += 1;
                false
            }
            Some(error) => panic!("{label}: {session}: {error:?}"),
        }
    }

    fn turns(&self, session: &str) -> Vec<usize> {
        let turn = |promise: &Promise| match promise {
            Promise::TurnEnded(number) => Some(*number),
            Promise::Created | Promise::Deleted => None,
        };
        self.promised(session).filter_map(turn).collect()
    }

    /// Everything was written in the run, in this order, and every turn that was answered is whole.
    fn check_view(&self, session: &str, view: &View) {
        let label = &self.label;
        let of_messages = View { items: view.items.clone(), ..View::default() };
        if let Err(invented) = kept::check(&of_messages, &self.reference[session]) {
            panic!("{label}: {session}: {invented}");
        }
        for turn in self.turns(session) {
            let times = view.agent().iter().filter(|text| **text == format!("end {turn}")).count();
            assert_eq!(times, 1, "{label}: {session}: turn {turn} of\n{view}");
        }
    }
}

/// Reads a journal as far as possible: the turns that have ended, and the error.
async fn read_all(
    store: &EmbeddedStore,
    session: &SessionId,
    label: &str,
) -> (Vec<TurnNo>, Option<StoreError>) {
    let (mut ended, mut last, mut next) = (Vec::new(), Seq(0), Seq(1));
    loop {
        let read = store.read(session, next, READ_BUDGET).await;
        let (page, items) = match read.and_then(|page| page.decode().map(|items| (page, items))) {
            Ok(read) => read,
            Err(error) => return (ended, Some(error)),
        };
        for item in items {
            assert!(item.first > last, "{label}: {session}: entry {:?} is there twice", item.first);
            last = item.first;
            if let Entry::TurnEnded { turn, .. } = item.entry {
                assert!(!ended.contains(&turn), "{label}: {session}: turn {turn:?} ends twice");
                ended.push(turn);
            }
        }
        if page.end {
            return (ended, None);
        }
        next = page.next;
    }
}

fn world(store: Arc<EmbeddedStore>) -> World {
    World::over(Version::V1, ScriptedAgent::able(Version::V2), store, Config::default())
}

fn open(folder: &Path) -> Result<Arc<EmbeddedStore>, StoreError> {
    let paths = EmbeddedPaths { database: folder.join("rethread.db"), locks: folder.join("state/locks") };
    EmbeddedStore::open(&paths).map(Arc::new)
}

fn copy_store(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        let to = to.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::create_dir_all(&to).expect("a folder can be made");
            copy_store(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("it can be copied");
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
