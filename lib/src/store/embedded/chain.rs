//! Reads the unfolded end of a journal: the journal files of a session, in order. Decides whether what cannot be read is an
//! end that was never synced, which is skipped, or damage.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rethread_core::Seq;
use rusqlite::{Transaction, params};

use super::fault::SqliteFault;
use super::integers::{from_sql, to_sql};
use super::journal_file::{
    FileHeader, FileId, HEADER_BYTES, NextRecord, Record, RecordReader, has_turn_end_after, used_length,
};
use crate::lock::locked;

/// The distance in bytes between the known places in a file.
pub(super) const MARK_BYTES: u64 = 256 * 1024;

/// How many files have known places.
const MAX_MARKED_FILES: usize = 64;

/// The folder of the journal files of a store, and what is known of the places in them.
pub(super) struct JournalFolder {
    path: PathBuf,
    store: FileId,
    /// Where some records begin, so that a long file is not read from its beginning each time.
    marks: Mutex<HashMap<FileName, Vec<(Seq, u64)>>>,
    /// The files that could not be synced. What a later sync says of them means nothing.
    unreliable: Mutex<HashSet<FileName>>,
}

/// Identifies a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileName {
    pub(super) journal: FileId,
    pub(super) epoch: u64,
    pub(super) number: u64,
}

/// Why the files of a session cannot be read.
#[derive(Debug)]
pub(super) enum ChainFault {
    /// A file is not there: it was folded meanwhile, or it is missing.
    Vanished(PathBuf),
    /// What was synced cannot be read any more.
    Damaged {
        /// The first entry that cannot be read.
        at: Seq,
        /// The file, the place and the cause.
        cause: String,
    },
    /// The disk failed.
    Io(PathBuf, io::Error),
}

impl JournalFolder {
    pub(super) fn new(path: PathBuf, store: FileId) -> Self {
        Self { path, store, marks: Mutex::default(), unreliable: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_of(&self, name: &FileName) -> PathBuf {
        self.path.join(format!("{}.{}.{}.log", hex(&name.journal), name.epoch, name.number))
    }

    /// The name of a file in the folder; nothing if it is no journal file.
    pub(super) fn parse_name(text: &str) -> Option<FileName> {
        let mut parts = text.strip_suffix(".log")?.split('.');
        let (journal, epoch, number) = (parts.next()?, parts.next()?, parts.next()?);
        let name = FileName {
            journal: from_hex(journal)?,
            epoch: epoch.parse().ok()?,
            number: number.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }

    /// The header that a file of this name has.
    pub(super) fn header(&self, name: &FileName, first: Seq) -> FileHeader {
        FileHeader { store: self.store, journal: name.journal, epoch: name.epoch, first }
    }

    /// Remembers where a record begins, if the last known place in its file is far from it.
    pub(super) fn mark(&self, name: &FileName, seq: Seq, offset: u64) {
        let mut marks = locked(&self.marks);
        if marks.len() >= MAX_MARKED_FILES && !marks.contains_key(name) {
            marks.clear();
        }
        let places = marks.entry(*name).or_default();
        let last = places.last().map_or(HEADER_BYTES as u64, |(_, offset)| *offset);
        if offset >= last + MARK_BYTES {
            places.push((seq, offset));
        }
    }

    /// The last known place at or before an entry.
    fn place(&self, name: &FileName, seq: Seq) -> Option<(Seq, u64)> {
        let marks = locked(&self.marks);
        let places = marks.get(name)?;
        let behind = places.partition_point(|(known, _)| *known <= seq);
        places.get(behind.checked_sub(1)?).copied()
    }

    /// The known places of a file before an entry, and where the first one at or after it is.
    fn places(&self, name: &FileName, before: Seq) -> (Vec<(Seq, u64)>, Option<u64>) {
        let marks = locked(&self.marks);
        let places = marks.get(name).map(Vec::as_slice).unwrap_or_default();
        let (behind, ahead) = places.split_at(places.partition_point(|(known, _)| *known < before));
        (behind.to_vec(), ahead.first().map(|(_, offset)| *offset))
    }

    /// The bytes of a file that are used; 0 if it cannot be read.
    pub(super) fn used_bytes(&self, name: &FileName) -> u64 {
        File::open(self.path_of(name)).and_then(|file| used_length(&file)).unwrap_or(0)
    }

    /// Remembers that a file could not be synced.
    pub(super) fn sync_failed(&self, name: &FileName) {
        locked(&self.unreliable).insert(*name);
    }

    /// Whether a sync of the file failed before.
    pub(super) fn is_unreliable(&self, name: &FileName) -> bool {
        locked(&self.unreliable).contains(name)
    }

    /// Removes files that are not in use any more. One that stays is removed when a store is opened.
    pub(super) fn remove(&self, names: &[FileName]) {
        for name in names {
            locked(&self.marks).remove(name);
            locked(&self.unreliable).remove(name);
            if let Err(error) = fs::remove_file(self.path_of(name))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!("removing {} failed: {error}", self.path_of(name).display());
            }
        }
    }
}

/// The registered files of a session, in order.
pub(super) fn files_of(tx: &Transaction<'_>, key: i64) -> Result<Vec<FileName>, SqliteFault> {
    let sql = "SELECT session.journal, epoch_of.epoch, epoch_of.number
               FROM journal_file AS epoch_of JOIN session ON session.key = epoch_of.session
               WHERE epoch_of.session = ?1 ORDER BY epoch_of.epoch, epoch_of.number";
    let mut statement = tx.prepare_cached(sql)?;
    let names = statement.query_map([key], |row| {
        let journal = row.get::<_, Option<String>>(0)?.and_then(|text| from_hex(&text)).unwrap_or_default();
        Ok(FileName { journal, epoch: from_sql(row.get(1)?), number: from_sql(row.get(2)?) })
    })?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Registers a file.
pub(super) fn register(tx: &Transaction<'_>, key: i64, name: &FileName) -> Result<(), rusqlite::Error> {
    tx.prepare_cached("INSERT INTO journal_file (session, epoch, number) VALUES (?1, ?2, ?3)")?
        .execute(params![key, to_sql(name.epoch), to_sql(name.number)])?;
    Ok(())
}

/// Removes files from the list of those in use.
pub(super) fn deregister(tx: &Transaction<'_>, key: i64, names: &[FileName]) -> Result<(), rusqlite::Error> {
    let sql = "DELETE FROM journal_file WHERE session = ?1 AND epoch = ?2 AND number = ?3";
    let mut statement = tx.prepare_cached(sql)?;
    for name in names {
        statement.execute(params![key, to_sql(name.epoch), to_sql(name.number)])?;
    }
    Ok(())
}

/// The files of a session that have entries, open.
pub(super) struct Chain<'a> {
    folder: &'a JournalFolder,
    links: Vec<Link>,
}

/// One file.
struct Link {
    name: FileName,
    path: PathBuf,
    file: File,
    length: u64,
    /// The first entry; nothing if the header cannot be read.
    first: Option<Seq>,
}

/// What a reader does after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// It takes the entry and goes on.
    Next,
    /// It does not take the entry and stops.
    Stop,
}

/// How far the files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainEnd {
    /// The last good entry; nothing if the files have none.
    pub(super) last: Option<Seq>,
    /// How many bytes behind it cannot be read and were never synced.
    pub(super) skipped: u64,
}

impl<'a> Chain<'a> {
    /// Opens the files. Empty ones are left out.
    pub(super) fn open(folder: &'a JournalFolder, names: &[FileName]) -> Result<Self, ChainFault> {
        let mut links = Vec::new();
        for name in names {
            let path = folder.path_of(name);
            match Link::open(folder, name, &path) {
                Ok(Some(link)) => links.push(link?),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ChainFault::Vanished(path));
                }
                Err(error) => return Err(ChainFault::Io(path, error)),
            }
        }
        Ok(Self { folder, links })
    }

    /// The names of the files that have entries.
    pub(super) fn names(&self) -> Vec<FileName> {
        self.links.iter().map(|link| link.name).collect()
    }

    /// Visits the entries from `from` to `upto` in order. Returns the end of the files if it was reached.
    pub(super) fn visit(
        &self,
        from: Seq,
        upto: Seq,
        mut visit: impl FnMut(Record<'_>) -> Visit,
    ) -> Result<Option<ChainEnd>, ChainFault> {
        let mut end = ChainEnd { last: None, skipped: 0 };
        for (at, link) in self.links.iter().enumerate() {
            let next = self.links[at + 1..].iter().find_map(|link| link.first);
            // What a later file repeats counts there.
            let last = next.map_or(upto, |next| upto.min(Seq(next.0.saturating_sub(1))));
            if next.is_some_and(|next| next <= from) {
                continue;
            }
            let read =
                link.visit(self.folder, from, last, &mut visit).map_err(|fault| fault.at(&link.path))?;
            let reached = match read {
                LinkEnd::Stopped => return Ok(None),
                LinkEnd::Passed => continue,
                LinkEnd::Reached(reached) => reached,
            };
            // A file without a good header has no entries: the file before it must reach the next one.
            let expected = match (reached.last, link.first) {
                (Some(last), _) => last.next(),
                (None, Some(first)) => first,
                (None, None) => end.last.map_or(from, Seq::next),
            };
            if link.first.is_some() && next.is_some_and(|next| next > expected) {
                return Err(link.damaged(expected, reached.offset, "entries are missing"));
            }
            end.last = reached.last.or(end.last);
            end.skipped = link.length.saturating_sub(reached.offset);
            if end.skipped > 0 && next.is_none() {
                let lost = link.has_lost(expected, reached.offset);
                if lost.map_err(|error| ChainFault::Io(link.path.clone(), error))? {
                    return Err(link.damaged(expected, reached.offset, "a record cannot be read"));
                }
            }
        }
        Ok(Some(end))
    }

    /// Finds an entry that begins about `room` bytes before another one. If the files have less before it, nothing, and the
    /// room that is left.
    pub(super) fn seek_back(&self, before: Seq, mut room: u64) -> Result<Result<Seq, u64>, ChainFault> {
        for link in self.links.iter().rev() {
            let Some(first) = link.first.filter(|first| *first < before) else { continue };
            if link.length > MARK_BYTES {
                // A file that was not read yet has no known places.
                let last = Seq(before.0 - 1);
                link.visit(self.folder, last, last, &mut |_| Visit::Stop)
                    .map_err(|fault| fault.at(&link.path))?;
            }
            let (places, end) = self.folder.places(&link.name, before);
            let length = || used_length(&link.file).map_err(|error| ChainFault::Io(link.path.clone(), error));
            let end = end.map_or_else(length, Ok)?;
            let used = end.saturating_sub(HEADER_BYTES as u64);
            if used > room {
                let far = places.iter().rev().find(|(_, offset)| offset + room <= end);
                return Ok(Ok(far.map_or(first, |(seq, _)| *seq)));
            }
            room -= used;
        }
        Ok(Err(room))
    }

    /// Finds the last good entry.
    pub(super) fn end(&self) -> Result<ChainEnd, ChainFault> {
        let from = self.links.iter().rev().find_map(|link| link.first).unwrap_or(Seq(0));
        let end = self.visit(from, Seq(u64::MAX), |_| Visit::Next)?;
        Ok(end.unwrap_or(ChainEnd { last: None, skipped: 0 }))
    }
}

/// How far a visit of one file got.
enum LinkEnd {
    /// The visitor stopped.
    Stopped,
    /// It reached the last wanted entry.
    Passed,
    /// It reached the end of what can be read.
    Reached(Reached),
}

struct Reached {
    last: Option<Seq>,
    offset: u64,
}

/// A failed read of one file.
struct LinkFault(io::Error);

impl LinkFault {
    fn at(self, path: &Path) -> ChainFault {
        ChainFault::Io(path.to_owned(), self.0)
    }
}

impl Link {
    fn open(
        folder: &JournalFolder,
        name: &FileName,
        path: &Path,
    ) -> io::Result<Option<Result<Self, ChainFault>>> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(None);
        }
        let header = FileHeader::read(&file)?;
        let foreign = header.filter(|header| folder.header(name, header.first) != *header);
        let first = header.map(|header| header.first);
        let link = Self { name: *name, path: path.to_owned(), file, length, first };
        Ok(Some(match foreign {
            Some(header) => {
                Err(link.damaged(header.first, 0, "the file belongs to another session or store"))
            }
            None => Ok(link),
        }))
    }

    fn visit(
        &self,
        folder: &JournalFolder,
        from: Seq,
        upto: Seq,
        visit: &mut impl FnMut(Record<'_>) -> Visit,
    ) -> Result<LinkEnd, LinkFault> {
        let Some(first) = self.first else { return Ok(LinkEnd::Reached(Reached { last: None, offset: 0 })) };
        let (start, offset) = folder.place(&self.name, from).unwrap_or((first, HEADER_BYTES as u64));
        let mut last = (start > first).then(|| Seq(start.0 - 1));
        let mut reader = RecordReader::new(&self.file, offset, start, self.length);
        loop {
            match reader.next().map_err(LinkFault)? {
                NextRecord::Record(record) if record.seq > upto => return Ok(LinkEnd::Passed),
                NextRecord::Record(record) => {
                    folder.mark(&self.name, record.seq, record.offset);
                    last = Some(record.seq);
                    if record.seq >= from && visit(record) == Visit::Stop {
                        return Ok(LinkEnd::Stopped);
                    }
                }
                NextRecord::End => return Ok(LinkEnd::Reached(Reached { last, offset: self.length })),
                NextRecord::Bad { offset } => return Ok(LinkEnd::Reached(Reached { last, offset })),
            }
        }
    }

    /// Whether a record that cannot be read was once synced. One that can be read by now was being written.
    fn has_lost(&self, seq: Seq, offset: u64) -> io::Result<bool> {
        if !has_turn_end_after(&self.file, offset, Seq(seq.0.saturating_sub(1)))? {
            return Ok(false);
        }
        let length = self.file.metadata()?.len();
        let mut reader = RecordReader::new(&self.file, offset, seq, length);
        Ok(!matches!(reader.next()?, NextRecord::Record(_)))
    }

    fn damaged(&self, at: Seq, offset: u64, what: &str) -> ChainFault {
        ChainFault::Damaged { at, cause: format!("{what} in {} at byte {offset}", self.path.display()) }
    }
}

/// The hexadecimal form of an id.
pub(super) fn hex(id: &FileId) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("four bits are one digit");
    id.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads the hexadecimal form of an id.
pub(super) fn from_hex(text: &str) -> Option<FileId> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}
