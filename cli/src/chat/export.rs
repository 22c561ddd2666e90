//! `/export`: the session of a chat as a file, written as `rethread export` does.

use std::path::{Path, PathBuf};

use rethread::store::Store;
use rethread_core::SessionId;

use crate::commands::export::export_to_file;
use crate::failure::{ExitCode, Failure};
use crate::output::ids::short_ids;

/// Writes a session to a file that does not exist, and returns its path.
pub(crate) async fn export(
    store: &dyn Store,
    session: &SessionId,
    cwd: &Path,
    file: Option<&str>,
) -> Result<PathBuf, Failure> {
    let short = short_ids(&[session.as_str()])[0];
    let path = cwd.join(file.map_or_else(|| format!("rethread-{short}.md"), str::to_owned));
    if path.exists() {
        return Err(Failure::new(ExitCode::Refused, format!("{} exists", path.display()))
            .hint("name another file: /export FILE"));
    }
    let unknown = || Failure::new(ExitCode::NotFound, "the session was deleted");
    let row = store.find(session).await?.ok_or_else(unknown)?;
    export_to_file(store, &row, &path).await?;
    Ok(path)
}
