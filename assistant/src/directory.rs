//! Checks that the working directory of a session exists before the session is opened.

use std::io;
use std::path::{Path, PathBuf};

use rethread::wire::RpcError;
use serde_json::json;

/// Fails if the path does not exist or is not a directory.
pub(crate) async fn check(cwd: &Path) -> Result<(), RpcError> {
    let path: PathBuf = cwd.to_owned();
    let found = tokio::task::spawn_blocking(move || std::fs::metadata(path)).await;
    let found = found.unwrap_or_else(|failed| Err(io::Error::other(failed)));
    let wrong = |expected: &str| RpcError::field("cwd", &json!(cwd.to_string_lossy()), expected);
    let hint = |is: &str| format!("{} {is}: create the directory, or use another one", cwd.display());
    match found {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(wrong("a directory").hint(hint("is not a directory"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(wrong("a directory that exists").hint(hint("does not exist")))
        }
        Err(error) => Err(wrong("a directory that can be opened")
            .hint(format!("{} cannot be opened: {error}", cwd.display()))),
    }
}
