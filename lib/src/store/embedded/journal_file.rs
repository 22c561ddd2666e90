//! The format of a journal file: a header, then one record for each entry. A record has its sequence number, its length and
//! a checksum, so that a torn or damaged one is found. Zeros may follow, up to [`AHEAD_BYTES`]: room for the next records, so that
//! a sync need not write the new length of the file. Knows nothing of sessions and leases.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rethread_core::stored::{Stored, write_compact};
use rethread_core::{Entry, Seq};

/// The first bytes of a file, with the version of the format.
const MAGIC: [u8; 8] = *b"rthread1";

/// The length of the header: magic, store, journal, epoch, first sequence number, checksum.
pub(super) const HEADER_BYTES: usize = 8 + 16 + 16 + 8 + 8 + 4;

/// The length of what precedes the bytes of an entry: sequence number, length, checksum.
const RECORD_BYTES: usize = 8 + 4 + 4;

/// How much of a file is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How many zeros may follow the last record.
pub(super) const AHEAD_BYTES: usize = 16 * 1024;

/// How far the sequence number of a good record can be from the last one, when one is searched behind a bad one.
const SEARCH_RANGE: u64 = 1 << 32;

/// A random id of 16 bytes, as the database has it in hexadecimal.
pub(super) type FileId = [u8; 16];

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// The store that the file belongs to.
    pub(super) store: FileId,
    /// The journal that the file belongs to.
    pub(super) journal: FileId,
    /// The epoch of the owner that writes it.
    pub(super) epoch: u64,
    /// The sequence number of its first record.
    pub(super) first: Seq,
}

impl FileHeader {
    /// Writes the header to an empty buffer.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.store);
        bytes.extend_from_slice(&self.journal);
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.first.0.to_le_bytes());
        let sum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }

    /// Reads the header of a file that is not empty. Nothing if it is torn or damaged.
    pub(super) fn read(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Self::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (content, sum) = bytes.split_at(HEADER_BYTES - 4);
        if crc32fast::hash(content) != u32::from_le_bytes(sum.try_into().ok()?)
            || !content.starts_with(&MAGIC)
        {
            return None;
        }
        Some(Self {
            store: content[8..24].try_into().ok()?,
            journal: content[24..40].try_into().ok()?,
            epoch: number(&content[40..48])?,
            first: Seq(number(&content[48..56])?),
        })
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Writes a record for an entry behind whatever is in `bytes`.
pub(super) fn write_record(seq: Seq, entry: &Entry, bytes: &mut Vec<u8>) {
    let start = begin_record(seq, bytes);
    write_compact(entry, bytes);
    finish_record(start, bytes);
}

/// Writes a record for the bytes of an entry.
pub(super) fn copy_record(seq: Seq, entry: &[u8], bytes: &mut Vec<u8>) {
    let start = begin_record(seq, bytes);
    bytes.extend_from_slice(entry);
    finish_record(start, bytes);
}

fn begin_record(seq: Seq, bytes: &mut Vec<u8>) -> usize {
    let start = bytes.len();
    bytes.extend_from_slice(&seq.0.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    start
}

fn finish_record(start: usize, bytes: &mut [u8]) {
    let body = start + RECORD_BYTES;
    let length = u32::try_from(bytes.len() - body).unwrap_or(u32::MAX).to_le_bytes();
    bytes[start + 8..start + 12].copy_from_slice(&length);
    let sum = record_sum(&bytes[start..start + 12], &bytes[body..]).to_le_bytes();
    bytes[start + 12..body].copy_from_slice(&sum);
}

fn record_sum(head: &[u8], entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(entry);
    hasher.finalize()
}

/// Where a record is, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) seq: Seq,
    pub(super) entry: &'a [u8],
    /// Where the record begins in the file.
    pub(super) offset: u64,
}

/// What comes next in a file.
#[derive(Debug)]
pub(super) enum NextRecord<'a> {
    /// A good record.
    Record(Record<'a>),
    /// The file ends here.
    End,
    /// From here on it cannot be read.
    Bad {
        /// Where the bad record begins.
        offset: u64,
    },
}

/// Reads the records of a file one after the other.
pub(super) struct RecordReader<'f> {
    file: &'f File,
    /// The end of what is read.
    length: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that has been given out.
    taken: usize,
    /// Where the buffer begins in the file.
    start: u64,
    expected: Seq,
}

impl<'f> RecordReader<'f> {
    /// Reads from `offset`, where the record with this number begins, up to `length` bytes of the file.
    pub(super) fn new(file: &'f File, offset: u64, expected: Seq, length: u64) -> Self {
        Self { file, length, buffer: Vec::new(), taken: 0, start: offset, expected }
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<NextRecord<'_>> {
        let offset = self.offset();
        if offset >= self.length {
            return Ok(NextRecord::End);
        }
        let mut found = self.find()?;
        if found.is_none() {
            // Its owner may have been writing it: what was read last is newer than what was read first.
            self.buffer.truncate(self.taken);
            found = self.find()?;
        }
        let Some(length) = found else {
            return Ok(if self.only_zeros_follow()? { NextRecord::End } else { NextRecord::Bad { offset } });
        };
        let (seq, from) = (self.expected, self.taken + RECORD_BYTES);
        self.taken += RECORD_BYTES + length;
        self.expected = seq.next();
        Ok(NextRecord::Record(Record { seq, entry: &self.buffer[from..from + length], offset }))
    }

    /// Has the next record in the buffer and returns the length of its entry; nothing if it is not good.
    fn find(&mut self) -> io::Result<Option<usize>> {
        if !self.fill(RECORD_BYTES)? {
            return Ok(None);
        }
        let head = self.unread();
        let (Some(seq), Some(length)) = (number(&head[..8]), length_of(head)) else { return Ok(None) };
        if Seq(seq) != self.expected || !self.fill(RECORD_BYTES + length)? {
            return Ok(None);
        }
        Ok(is_good(&self.unread()[..RECORD_BYTES + length]).then_some(length))
    }

    /// Whether nothing was written from here on.
    fn only_zeros_follow(&self) -> io::Result<bool> {
        let left = usize::try_from(self.length - self.offset()).unwrap_or(usize::MAX);
        if left > AHEAD_BYTES {
            return Ok(false);
        }
        Ok(read_range(self.file, self.offset(), left)?.iter().all(|byte| *byte == 0))
    }

    fn offset(&self) -> u64 {
        self.start + self.taken as u64
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Has at least so many bytes in the buffer. Returns false if the file has fewer.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.unread().len() >= wanted {
            return Ok(true);
        }
        if self.offset() + wanted as u64 > self.length {
            return Ok(false);
        }
        self.start = self.offset();
        self.buffer.drain(..self.taken);
        self.taken = 0;
        while self.buffer.len() < wanted {
            let at = self.start + self.buffer.len() as u64;
            let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
            let had = self.buffer.len();
            self.buffer.resize(had + left.min(READ_BYTES.max(wanted - had)), 0);
            let read = self.file.read_at(&mut self.buffer[had..], at)?;
            self.buffer.truncate(had + read);
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The length of a file without the zeros behind its last record.
pub(super) fn used_length(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let ahead = usize::try_from(length).unwrap_or(usize::MAX).min(AHEAD_BYTES);
    let begins = length - ahead as u64;
    let bytes = read_range(file, begins, ahead)?;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(begins + used as u64)
}

/// Reads a part of a file, or less if the file is shorter by now: its owner may have cut off zeros.
fn read_range(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut read) = (vec![0; length], 0);
    while read < length {
        match file.read_at(&mut bytes[read..], offset + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

fn length_of(head: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(head.get(8..12)?.try_into().ok()?);
    usize::try_from(length).ok()
}

fn is_good(record: &[u8]) -> bool {
    let sum = record.get(12..16).and_then(|sum| sum.try_into().ok()).map(u32::from_le_bytes);
    sum == Some(record_sum(&record[..12], &record[RECORD_BYTES..]))
}

/// Searches a good record of the end of a turn behind a bad record. There is one only if what is bad was once synced.
pub(super) fn has_turn_end_after(file: &File, offset: u64, last: Seq) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let bytes =
        read_range(file, offset, usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX))?;
    Ok((1..bytes.len()).any(|at| is_turn_end(&bytes[at..], last)))
}

fn is_turn_end(bytes: &[u8], last: Seq) -> bool {
    let Some(head) = bytes.get(..RECORD_BYTES) else { return false };
    let (Some(seq), Some(length)) = (number(&head[..8]), length_of(head)) else { return false };
    if seq <= last.0 || seq - last.0 > SEARCH_RANGE {
        return false;
    }
    let Some(record) = bytes.get(..RECORD_BYTES + length) else { return false };
    is_good(record)
        && Stored::compact(Seq(seq), &record[RECORD_BYTES..])
            .entry()
            .is_ok_and(|entry| matches!(*entry, Entry::TurnEnded { .. }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const HEADER: FileHeader = FileHeader { store: [1; 16], journal: [2; 16], epoch: 3, first: Seq(5) };

    fn entry(text: &str) -> Entry {
        Entry::TitleSet { title: text.to_owned(), by: rethread_core::TitleSource::User }
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn records(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        HEADER.write(&mut bytes);
        for (at, text) in texts.iter().enumerate() {
            write_record(Seq(5 + at as u64), &entry(text), &mut bytes);
        }
        bytes
    }

    /// The titles of the good records, and where the first bad one begins.
    fn read(bytes: &[u8]) -> (Vec<String>, Option<u64>) {
        let file = file(bytes);
        let mut reader = RecordReader::new(&file, HEADER_BYTES as u64, Seq(5), bytes.len() as u64);
        let mut titles = Vec::new();
        loop {
            match reader.next().unwrap() {
                NextRecord::Record(record) => {
                    let entry = Stored::compact(record.seq, record.entry).entry().unwrap().into_owned();
                    let Entry::TitleSet { title, .. } = entry else { panic!("another entry: {entry:?}") };
                    titles.push(title);
                }
                NextRecord::End => return (titles, None),
                NextRecord::Bad { offset } => return (titles, Some(offset)),
            }
        }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let long = "x".repeat(3 * READ_BYTES);
        let bytes = records(&["a", &long, "c"]);
        assert_eq!(FileHeader::read(&file(&bytes)).unwrap(), Some(HEADER));
        assert_eq!(read(&bytes), (vec!["a".to_owned(), long, "c".to_owned()], None));
    }

    #[test]
    fn every_torn_end_and_every_flipped_bit_is_found() {
        let bytes = records(&["first", "second", "third"]);
        let whole = read(&bytes).0;
        let ends: Vec<_> =
            (0..=3).map(|count| records(&["first", "second", "third"][..count]).len()).collect();
        for length in HEADER_BYTES..bytes.len() {
            let (titles, bad) = read(&bytes[..length]);
            assert_eq!(titles, whole[..titles.len()], "cut at {length}");
            assert_eq!(bad.is_none(), ends.contains(&length), "cut at {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if bit / 8 < HEADER_BYTES {
                assert_eq!(FileHeader::read(&file(&flipped)).unwrap(), None, "bit {bit}");
            } else {
                let (titles, bad) = read(&flipped);
                assert!(bad.is_some() && titles.len() < 3 && titles == whole[..titles.len()], "bit {bit}");
            }
        }
    }

    #[test]
    fn zeros_behind_the_last_record_are_its_end_and_zeros_before_others_are_not() {
        let bytes = records(&["a", "b"]);
        let whole = read(&bytes).0;
        for ahead in [1, RECORD_BYTES - 1, RECORD_BYTES, AHEAD_BYTES] {
            let mut extended = bytes.clone();
            extended.resize(bytes.len() + ahead, 0);
            assert_eq!(read(&extended), (whole.clone(), None), "{ahead}");
            assert_eq!(used_length(&file(&extended)).unwrap(), bytes.len() as u64, "{ahead}");
            extended.push(1);
            assert_eq!(read(&extended), (whole.clone(), Some(bytes.len() as u64)), "{ahead}");
        }
        let mut hole = bytes.clone();
        hole[HEADER_BYTES..HEADER_BYTES + RECORD_BYTES].fill(0);
        assert_eq!(read(&hole), (Vec::new(), Some(HEADER_BYTES as u64)));
    }

    #[test]
    fn a_record_that_is_being_written_is_read_again() {
        let bytes = records(&["a", "b"]);
        let mut half = bytes.clone();
        let second = records(&["a"]).len();
        half[second..second + RECORD_BYTES].fill(0);
        let file = file(&half);
        let mut reader = RecordReader::new(&file, HEADER_BYTES as u64, Seq(5), bytes.len() as u64);
        assert!(matches!(reader.next().unwrap(), NextRecord::Record(_)));
        // The reader has the zeros in its buffer.
        file.write_all_at(&bytes, 0).unwrap();
        assert!(matches!(reader.next().unwrap(), NextRecord::Record(record) if record.seq == Seq(6)));
    }

    #[test]
    fn the_end_of_a_turn_is_found_behind_damage() {
        let mut bytes = records(&["a", "b"]);
        let damaged = HEADER_BYTES as u64;
        assert!(!has_turn_end_after(&file(&bytes), damaged, Seq(4)).unwrap());
        let stop = rethread_core::Stop::plain("end_turn");
        let state = serde_json::json!({}).into();
        let ended = Entry::TurnEnded { turn: rethread_core::TurnNo(1), stop, at: 1, state };
        write_record(Seq(7), &ended, &mut bytes);
        bytes[HEADER_BYTES + 3] ^= 1;
        assert!(has_turn_end_after(&file(&bytes), damaged, Seq(4)).unwrap());
    }
}
