//! Stubs: rows of sessions that an agent lists and that were never opened here.

use rusqlite::{Transaction, params};

use super::fault::SqliteFault;
use super::integers::to_sql;
use super::{NativeId, Stub};

/// Stores what an agent lists. Known sessions, including deleted ones, stay unchanged; stubs are updated.
pub(super) fn add(tx: &Transaction<'_>, agent: &str, stubs: &[Stub]) -> Result<(), SqliteFault> {
    let mut known = tx.prepare_cached("SELECT 1 FROM native WHERE agent = ?1 AND id = ?2")?;
    let mut insert = tx.prepare_cached(
        "INSERT INTO session (uid, cwd, agent, title, title_by, updated_at, head_seq, epoch, listed)
         VALUES (?1, ?2, ?3, ?4, iif(?4 IS NULL, NULL, 1), ?5, 0, 0, 1)
         ON CONFLICT (uid) DO UPDATE SET
             title = iif(title_by = 0, title, excluded.title),
             title_by = iif(title_by = 0, 0, excluded.title_by),
             updated_at = excluded.updated_at
         WHERE head_seq = 0 AND deleted_at IS NULL",
    )?;
    for stub in stubs {
        if known.exists(params![agent, stub.id.as_str()])? {
            continue;
        }
        insert.execute(params![stub.id.as_str(), stub.cwd, agent, stub.title, to_sql(stub.updated_at)])?;
    }
    Ok(())
}

/// Deletes the stub with this id to make room for a session.
pub(super) fn remove_stub(tx: &Transaction<'_>, uid: &str) -> Result<(), SqliteFault> {
    let sql = "DELETE FROM session WHERE uid = ?1 AND head_seq = 0 AND deleted_at IS NULL AND owner IS NULL";
    tx.prepare_cached(sql)?.execute([uid])?;
    Ok(())
}

/// Records an agent's id for a session, and removes the stub that the agent may have listed under it.
pub(super) fn remember(tx: &Transaction<'_>, key: i64, native: &NativeId) -> Result<(), rusqlite::Error> {
    tx.prepare_cached(
        "DELETE FROM session WHERE uid = ?2 AND agent = ?1 AND key <> ?3
             AND head_seq = 0 AND deleted_at IS NULL AND owner IS NULL",
    )?
    .execute(params![native.agent, native.id, key])?;
    tx.prepare_cached("INSERT OR REPLACE INTO native (agent, id, session) VALUES (?1, ?2, ?3)")?
        .execute(params![native.agent, native.id, key])?;
    Ok(())
}
