//! Stores data about agents by key.

use rethread_core::Millis;
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::fault::SqliteFault;
use super::integers::to_sql;

pub(super) fn find(tx: &Transaction<'_>, key: &str) -> Result<Option<Vec<u8>>, SqliteFault> {
    let mut statement = tx.prepare_cached("SELECT profile FROM profile WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

pub(super) fn remember(
    tx: &Transaction<'_>,
    key: &str,
    profile: &[u8],
    at: Millis,
) -> Result<(), SqliteFault> {
    tx.execute(
        "INSERT INTO profile (key, profile, remembered_at) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET profile = excluded.profile, remembered_at = excluded.remembered_at",
        params![key, profile, to_sql(at)],
    )?;
    Ok(())
}
