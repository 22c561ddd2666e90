//! Moves the entries of the table `tail`, which databases up to version 3 have, to segments. They are not merged: a turn
//! among them may be open.

use rethread_core::{Folded, Seq, stored};
use rusqlite::{Transaction, params};

use super::super::append::{add_segment, pack_failed};
use super::super::fault::SqliteFault;
use super::super::integers::{seq_from_sql, seq_to_sql};
use super::super::segment::{WINDOW_BYTES, pack_items};

/// Moves all entries.
pub(super) fn to_segments(tx: &Transaction<'_>) -> Result<(), SqliteFault> {
    let mut statement = tx.prepare("SELECT DISTINCT session FROM tail")?;
    let sessions = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    for session in sessions {
        TailMover { tx, session, items: Vec::new(), bytes: 0 }.run()?;
    }
    Ok(())
}

/// Moves the entries of one session.
struct TailMover<'a> {
    tx: &'a Transaction<'a>,
    session: i64,
    /// Entries that have no segment yet.
    items: Vec<Folded>,
    bytes: usize,
}

impl TailMover<'_> {
    fn run(mut self) -> Result<(), SqliteFault> {
        let sql = "SELECT seq, entry FROM tail WHERE session = ?1 ORDER BY seq";
        let mut statement = self.tx.prepare(sql)?;
        let mut rows = statement.query([self.session])?;
        while let Some(row) = rows.next()? {
            let seq = seq_from_sql(row.get(0)?);
            let bytes = row.get_ref(1)?.as_blob().unwrap_or_default();
            let follows = self.items.last().is_none_or(|last| last.last.next() == seq);
            match stored::decode_entry(bytes) {
                Ok(entry) => {
                    if self.bytes >= WINDOW_BYTES || !follows {
                        self.write()?;
                    }
                    self.bytes += bytes.len();
                    self.items.push(Folded { first: seq, last: seq, entry });
                }
                Err(_) => {
                    self.write()?;
                    self.keep_damaged(seq, bytes)?;
                }
            }
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), SqliteFault> {
        let items = std::mem::take(&mut self.items);
        self.bytes = 0;
        match (items.first(), items.last()) {
            (Some(first), Some(last)) => {
                let packed = pack_items(&items).map_err(pack_failed)?;
                Ok(add_segment(self.tx, self.session, first.first, last.last, &packed)?)
            }
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// An entry that cannot be decoded becomes a segment that cannot be decoded either: readers find the damage there.
    fn keep_damaged(&self, seq: Seq, bytes: &[u8]) -> Result<(), SqliteFault> {
        self.tx.execute(
            "INSERT INTO segment (session, first_seq, last_seq, length, checksum, items) VALUES (?1, ?2, ?2, ?3, 0, ?4)",
            params![self.session, seq_to_sql(seq), i64::try_from(bytes.len()).unwrap_or(0), bytes],
        )?;
        Ok(())
    }
}
