//! What is remembered of agents.

use rethread_core::Millis;
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::fault::Fault;
use super::number::put;

/// What was remembered under a key.
pub(super) fn find(tx: &Transaction<'_>, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = tx.prepare_cached("SELECT profile FROM profile WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

/// Remembers something under a key.
pub(super) fn remember(tx: &Transaction<'_>, key: &str, profile: &[u8], at: Millis) -> Result<(), Fault> {
    tx.execute(
        "INSERT INTO profile (key, profile, remembered_at) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET profile = excluded.profile, remembered_at = excluded.remembered_at",
        params![key, profile, put(at)],
    )?;
    Ok(())
}
