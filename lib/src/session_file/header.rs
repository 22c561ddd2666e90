//! The first line of a session in a file.

use rethread_core::{Millis, SessionId, TitleSource, clean_title};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::edge::params::MAX_PATH_BYTES;
use crate::store::SessionRow;

/// The name of the format.
pub const FORMAT: &str = "rethread-session";

/// The newest version of the format that this program reads, and the one that it writes.
pub const VERSION: u32 = 1;

/// The longest id that is accepted.
const MAX_ID_BYTES: usize = 1024;

/// What is known of a session besides its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionFileHeader {
    format: String,
    version: u32,
    /// The id of the session.
    pub id: SessionId,
    /// The title; an empty one was removed.
    pub title: Option<String>,
    /// Who set the title.
    pub title_by: Option<TitleSource>,
    /// The working directory.
    pub cwd: String,
    /// The agent it was created with.
    pub agent: String,
    /// When it was changed last, in RFC 3339.
    pub updated_at: String,
}

impl SessionFileHeader {
    /// Makes the header of a session.
    #[must_use]
    pub fn of(row: &SessionRow) -> Self {
        let (title, title_by) = row.title.clone().unzip();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            id: row.id.clone(),
            title: title.map(|title| clean_title(&title)),
            title_by,
            cwd: row.cwd.clone(),
            agent: row.agent.clone(),
            updated_at: clock::rfc3339(row.updated_at),
        }
    }

    /// When it was changed last; not later than `now`, so that a file cannot stay at the top of lists.
    pub(super) fn changed(&self, now: Millis) -> Millis {
        clock::from_rfc3339(&self.updated_at).unwrap_or(0).min(now)
    }

    /// Checks a header that was read, and cleans its title and its time.
    pub(super) fn checked(mut self) -> Result<Self, String> {
        check_id(self.id.as_str())?;
        check_path(&self.cwd)?;
        let changed = clock::from_rfc3339(&self.updated_at).unwrap_or(0);
        self.updated_at = clock::rfc3339(changed);
        self.title = self.title.map(|title| clean_title(&title)).filter(|_| self.title_by.is_some());
        self.title_by = self.title_by.filter(|_| self.title.is_some());
        Ok(self)
    }
}

/// Refuses an id that no store or agent could use.
pub(super) fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains(['\0', '\n', '\r']) {
        return Err("an id is empty, too long or not one line".to_owned());
    }
    Ok(())
}

/// Refuses a path that no client could use.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.starts_with('/') && path.len() <= MAX_PATH_BYTES && !path.contains('\0') {
        return Ok(());
    }
    Err("a directory is not an absolute path".to_owned())
}
