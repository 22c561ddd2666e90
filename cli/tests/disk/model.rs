//! A model of a disk: which files a folder has after a power failure at some point of a recorded run. What was synced is
//! there; what was not may be there as a whole, in part, or not at all.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::calls::{Call, Effect};

/// Everything that was written in a run.
pub(crate) struct Disk {
    files: Vec<StoredFile>,
    links: Vec<LinkChange>,
    /// The syncs of directories.
    syncs: HashMap<PathBuf, Vec<Span>>,
}

/// The files after a power failure.
#[derive(Debug, Default)]
pub(crate) struct DiskState {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    /// The files in which something is missing before something that is there.
    pub(crate) with_holes: Vec<PathBuf>,
}

/// When a new name of a file is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// After a sync of its directory.
    DirectorySynced,
    /// Also after a sync of the file, as on most file systems.
    FileSynced,
}

/// The beginning and the end of a call.
#[derive(Clone, Copy)]
struct Span {
    began: usize,
    ended: usize,
}

/// A file, or a directory, which has no bytes.
#[derive(Default)]
struct StoredFile {
    changes: Vec<(usize, Change)>,
    syncs: Vec<Span>,
}

enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Truncate(u64),
}

/// A change of a directory.
struct LinkChange {
    ended: usize,
    directory: PathBuf,
    what: NameChange,
}

enum NameChange {
    Link { path: PathBuf, file: usize },
    Unlink(PathBuf),
}

/// How much of what is not synced is there.
#[derive(Clone, Copy)]
enum Survives {
    Nothing,
    Everything,
    /// The first changes, and a part of the next one.
    Beginning,
    /// Any of them.
    Some,
}

impl Disk {
    /// Reads the calls of all runs, in order.
    pub(crate) fn new(calls: &[Call]) -> Self {
        let mut disk = Self { files: Vec::new(), links: Vec::new(), syncs: HashMap::new() };
        let mut names = HashMap::new();
        for call in calls {
            disk.add(call, &mut names);
        }
        disk
    }

    fn add(&mut self, call: &Call, names: &mut HashMap<PathBuf, usize>) {
        let span = Span { began: call.began, ended: call.ended };
        match &call.what {
            Effect::Create(path) if !names.contains_key(path) => {
                self.files.push(StoredFile::default());
                self.link(call.ended, path, self.files.len() - 1, names);
            }
            Effect::MakeDir(path) => {
                self.files.push(StoredFile::default());
                self.syncs.entry(path.clone()).or_default();
                self.link(call.ended, path, self.files.len() - 1, names);
            }
            Effect::Write { file, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.file(file, names).changes.push((call.ended, change));
            }
            Effect::Truncate { file, length } => {
                self.file(file, names).changes.push((call.ended, Change::Truncate(*length)));
            }
            Effect::Sync(path) => {
                let file = names.get(path);
                if let Some(file) = file {
                    self.files[*file].syncs.push(span);
                }
                // A directory; the folder of all was made before the run.
                if file.is_none() || self.syncs.contains_key(path) {
                    self.syncs.entry(path.clone()).or_default().push(span);
                }
            }
            Effect::Remove(path) => self.unlink(call.ended, path, names),
            Effect::Rename { from, to } => {
                let file = names[from];
                self.unlink(call.ended, from, names);
                self.link(call.ended, to, file, names);
            }
            Effect::Create(_) | Effect::Answer(_) => {}
        }
    }

    fn file(&mut self, path: &Path, names: &HashMap<PathBuf, usize>) -> &mut StoredFile {
        let file = names.get(path).unwrap_or_else(|| panic!("{} was not created", path.display()));
        &mut self.files[*file]
    }

    fn link(&mut self, ended: usize, path: &Path, file: usize, names: &mut HashMap<PathBuf, usize>) {
        names.insert(path.to_owned(), file);
        let what = NameChange::Link { path: path.to_owned(), file };
        self.links.push(LinkChange { ended, directory: directory(path), what });
    }

    fn unlink(&mut self, ended: usize, path: &Path, names: &mut HashMap<PathBuf, usize>) {
        names.remove(path);
        let what = NameChange::Unlink(path.to_owned());
        self.links.push(LinkChange { ended, directory: directory(path), what });
    }

    /// The files after a power failure at this point, one of the many that are possible.
    pub(crate) fn after_power_cut(&self, point: usize, rule: NameRule, random: &mut Random) -> DiskState {
        let mut state = DiskState::default();
        let names = self.names(point, rule, random);
        let is_dir = |path: &Path| self.syncs.contains_key(path);
        let made = |path: &PathBuf| {
            let mut above = path.ancestors().skip(1).take_while(|dir| self.was_made(dir));
            above.all(|dir| names.contains_key(dir))
        };
        for (path, file) in names.iter().filter(|(path, _)| !is_dir(path) && made(path)) {
            let (path, file) = (path.clone(), *file);
            let (bytes, whole) = self.files[file].after_power_cut(point, random);
            if !whole {
                state.with_holes.push(path.clone());
            }
            state.files.insert(path, bytes);
        }
        state
    }

    /// Whether a directory was made in the run.
    fn was_made(&self, directory: &Path) -> bool {
        let of = |change: &LinkChange| match &change.what {
            NameChange::Link { path, .. } => path == directory,
            NameChange::Unlink(_) => false,
        };
        self.syncs.contains_key(directory) && self.links.iter().any(of)
    }

    /// The names that are there. Changes of one directory reach the disk in order.
    fn names(&self, point: usize, rule: NameRule, random: &mut Random) -> BTreeMap<PathBuf, usize> {
        let mut left: HashMap<&Path, usize> = HashMap::new();
        let mut names = BTreeMap::new();
        for change in self.links.iter().filter(|change| change.ended < point) {
            let synced = self.syncs.get(&change.directory).is_some_and(|syncs| {
                syncs.iter().any(|sync| change.ended < sync.began && sync.ended < point)
            });
            let pending = left.entry(&change.directory).or_insert_with(|| match random.below(3) {
                0 => 0,
                1 => usize::MAX,
                _ => random.below(6),
            });
            let by_file = match &change.what {
                NameChange::Link { file, .. } if rule == NameRule::FileSynced => {
                    self.files[*file].syncs.iter().any(|sync| sync.ended < point)
                }
                NameChange::Link { .. } | NameChange::Unlink(_) => false,
            };
            if !synced && !by_file {
                if *pending == 0 {
                    continue;
                }
                *pending -= 1;
            }
            match &change.what {
                NameChange::Link { path, file } => names.insert(path.clone(), *file),
                NameChange::Unlink(path) => names.remove(path),
            };
        }
        names
    }
}

impl StoredFile {
    /// The bytes, and whether they have no holes.
    fn after_power_cut(&self, point: usize, random: &mut Random) -> (Vec<u8>, bool) {
        let synced = self.syncs.iter().filter(|sync| sync.ended < point).map(|sync| sync.began).max();
        let (mut bytes, mut left_out, mut whole) = (Vec::new(), false, true);
        let how =
            [Survives::Nothing, Survives::Everything, Survives::Beginning, Survives::Some][random.below(4)];
        let pending = self.changes.iter().filter(|(ended, _)| *ended < point);
        let pending = pending.filter(|(ended, _)| synced.is_none_or(|synced| *ended >= synced)).count();
        let mut beginning = random.below(pending + 1);
        for (ended, change) in self.changes.iter().filter(|(ended, _)| *ended < point) {
            let part = if synced.is_some_and(|synced| *ended < synced) {
                None
            } else {
                match how {
                    Survives::Nothing => Some(0),
                    Survives::Everything => None,
                    Survives::Beginning if beginning > 0 => {
                        beginning -= 1;
                        None
                    }
                    Survives::Beginning if !left_out => Some(random.below(change.length() + 1)),
                    Survives::Beginning => Some(0),
                    Survives::Some => [None, Some(0)][random.below(2)],
                }
            };
            whole &= !left_out || part == Some(0);
            left_out |= part.is_some();
            change.apply(&mut bytes, part);
        }
        (bytes, whole)
    }
}

impl Change {
    fn length(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Truncate(_) => 0,
        }
    }

    /// Applies the change, or only its first bytes.
    fn apply(&self, to: &mut Vec<u8>, part: Option<usize>) {
        match (self, part) {
            (_, Some(0)) => {}
            (Self::Write { offset, bytes }, part) => {
                let bytes = &bytes[..part.unwrap_or(bytes.len())];
                let start = usize::try_from(*offset).expect("a file of a test is small");
                if to.len() < start + bytes.len() {
                    to.resize(start + bytes.len(), 0);
                }
                to[start..start + bytes.len()].copy_from_slice(bytes);
            }
            (Self::Truncate(length), _) => {
                to.resize(usize::try_from(*length).expect("a file of a test is small"), 0);
            }
        }
    }
}

fn directory(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

/// Random numbers that are the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below a limit, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(effects: Vec<Effect>) -> Vec<Call> {
        let calls = effects.into_iter().enumerate();
        calls.map(|(at, what)| Call { what, began: at, ended: at }).collect()
    }

    fn write(offset: u64, text: &str) -> Effect {
        Effect::Write { file: "/home/a".into(), offset, bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_may_be() {
        let (file, folder) = (PathBuf::from("/home/a"), PathBuf::from("/home"));
        let disk = Disk::new(&calls(vec![
            Effect::Create(file.clone()),
            Effect::Sync(folder),
            write(0, "ab"),
            Effect::Sync(file.clone()),
            write(2, "cd"),
            write(4, "ef"),
        ]));
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let state = disk.after_power_cut(6, NameRule::DirectorySynced, &mut Random(seed));
            let text = String::from_utf8(state.files[&file].clone()).expect("it is text");
            assert_eq!(state.with_holes.is_empty(), !text.contains('\0'), "{text:?}");
            found.insert(text);
        }
        let expected = ["ab", "ab\0\0ef", "abc", "abcd", "abcde", "abcdef"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
        let before = disk.after_power_cut(2, NameRule::FileSynced, &mut Random(1));
        assert_eq!(before.files[&file], b"");
    }

    #[test]
    fn a_file_is_gone_with_a_directory_that_was_not_synced() {
        let (folder, below) = (PathBuf::from("/home"), PathBuf::from("/home/live"));
        let file = below.join("a");
        let mut effects = vec![
            Effect::Sync(folder.clone()),
            Effect::MakeDir(below.clone()),
            Effect::Create(file.clone()),
            Effect::Sync(below),
        ];
        let times = |effects: &[Effect]| {
            let disk = Disk::new(&calls(effects.to_vec()));
            let state = |seed| disk.after_power_cut(9, NameRule::DirectorySynced, &mut Random(seed));
            (0..100).filter(|seed| state(*seed).files.contains_key(&file)).count()
        };
        assert!((1..100).contains(&times(&effects)));
        effects.push(Effect::Sync(folder));
        assert_eq!(times(&effects), 100);
    }

    #[test]
    fn a_name_is_there_after_a_sync_of_its_directory_or_of_its_file() {
        let file = PathBuf::from("/home/a");
        let disk =
            Disk::new(&calls(vec![Effect::Create(file.clone()), write(0, "a"), Effect::Sync(file.clone())]));
        let times = |rule| {
            let there = |seed| disk.after_power_cut(3, rule, &mut Random(seed)).files.contains_key(&file);
            (0..100).filter(|seed| there(*seed)).count()
        };
        assert_eq!(times(NameRule::FileSynced), 100);
        assert!((1..100).contains(&times(NameRule::DirectorySynced)));
    }
}
