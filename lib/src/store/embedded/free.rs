//! Frees the text of deleted sessions, as far as no other session needs it: segments, snapshot, journal files. The row stays
//! as a tombstone without a title. Freed pages are overwritten (`secure_delete`), and the log is truncated afterwards.

use rethread_core::Seq;
use rusqlite::{OptionalExtension as _, Transaction};

use super::append::{add_segment, pack_failed};
use super::chain::{FileName, deregister, files_of};
use super::fault::SqliteFault;
use super::integers::{seq_from_sql, seq_to_sql};
use super::read::damaged;
use super::segment::{items_upto, pack_items, unpack};

/// Frees a deleted session that nobody owns, and its deleted ancestors that only it needed. Returns the files that are no
/// longer in use.
pub(super) fn free(tx: &Transaction<'_>, key: i64) -> Result<Vec<FileName>, SqliteFault> {
    let mut unused = Vec::new();
    let mut here = Some(key);
    while let Some(key) = here {
        let (deleted, owned, parent): (bool, bool, Option<i64>) = tx
            .prepare_cached(
                "SELECT deleted_at IS NOT NULL, owner IS NOT NULL, parent FROM session WHERE key = ?1",
            )?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        if !deleted || owned {
            break;
        }
        let needed = needed_by_forks(tx, key)?;
        cut_segments(tx, key, needed)?;
        tx.execute("DELETE FROM snapshot WHERE session = ?1", [key])?;
        let files = files_of(tx, key)?;
        deregister(tx, key, &files)?;
        unused.extend(files);
        here = parent;
    }
    Ok(unused)
}

/// The last entry of a session that a fork of it needs which is not deleted; zero if none does.
pub(super) fn needed_by_forks(tx: &Transaction<'_>, key: i64) -> Result<Seq, SqliteFault> {
    let sql = "WITH RECURSIVE fork (key, cut, deleted) AS (
                   SELECT key, fork_seq, deleted_at IS NOT NULL FROM session WHERE parent = ?1
                   UNION ALL
                   SELECT session.key, min(session.fork_seq, fork.cut), session.deleted_at IS NOT NULL
                   FROM session JOIN fork ON session.parent = fork.key
               )
               SELECT max(cut) FROM fork WHERE deleted = 0";
    let needed: Option<i64> = tx.prepare_cached(sql)?.query_row([key], |row| row.get(0))?;
    Ok(needed.map_or(Seq(0), seq_from_sql))
}

/// Deletes what comes after `needed`. A segment that has entries on both sides is written anew without the later ones.
fn cut_segments(tx: &Transaction<'_>, key: i64, needed: Seq) -> Result<(), SqliteFault> {
    let sql = "SELECT first_seq, length, checksum, items FROM segment
               WHERE session = ?1 AND first_seq <= ?2 AND last_seq > ?2";
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, Vec<u8>>(3)?))
    };
    let across = tx.prepare_cached(sql)?.query_row([key, seq_to_sql(needed)], row).optional()?;
    tx.execute("DELETE FROM segment WHERE session = ?1 AND last_seq > ?2", [key, seq_to_sql(needed)])?;
    if let Some((first, length, sum, bytes)) = across {
        let first = seq_from_sql(first);
        let plain = unpack(length, sum, &bytes).map_err(|cause| damaged(tx, key, first, cause))?;
        let items = items_upto(&plain, needed).map_err(|cause| damaged(tx, key, first, cause))?;
        add_segment(tx, key, first, needed, &pack_items(&items).map_err(pack_failed)?)?;
    }
    tx.execute("UPDATE session SET head_seq = min(head_seq, ?2) WHERE key = ?1", [key, seq_to_sql(needed)])?;
    Ok(())
}
