//! `rethread move`: gives a session another working directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use rethread::store::relocate::{RelocateError, relocate};
use serde_json::json;

use crate::changes::{Changeable, JsonOption, changeable, name_of, report};
use crate::commands::release::release;
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::resolve::{SessionArg, current_directories};
use crate::stored_sessions::with_store;

/// Options of `move`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    session: SessionArg,
    /// The new working directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    json: JsonOption,
}

/// Moves a session.
pub(crate) fn run(args: &MoveArgs) -> Result<(), Failure> {
    let cwd = absolute(&args.directory)?;
    let (row, before) = with_store(async |store| {
        let row = match changeable(&args.session, store.as_ref()).await? {
            Changeable::Stored(row) => row,
            // The server lets go of an idle session, and opens it again where it is then.
            Changeable::Served(row, _) => {
                release(store.as_ref(), &row).await?;
                row
            }
        };
        let before = relocate(store.as_ref(), &row.id, &cwd).await?;
        Ok((row, before))
    })?;
    let (name, from, to) = (name_of(&row), visible(&before), visible(&cwd));
    let sentence = if before == cwd {
        format!("{name} is in {to} already.")
    } else {
        format!(
            "Moved {name} from {from} to {to}.\n\
             With the next prompt its agent begins a new session there, and gets the stored transcript."
        )
    };
    report(args.json.form(), &sentence, &json!({"id": row.id, "cwd": cwd, "before": before}))
}

impl From<RelocateError> for Failure {
    fn from(error: RelocateError) -> Self {
        let message = error.to_string();
        match error {
            RelocateError::Store(error) => error.into(),
            RelocateError::NotStored(_) => {
                Self::new(ExitCode::Refused, message).hint("load it with its agent first, then move it")
            }
        }
    }
}

/// The path of a directory as clients name it: absolute, without `.` and `..`, and with the links in it.
fn absolute(directory: &Path) -> Result<String, Failure> {
    let wrong = |what: &str| {
        Failure::new(ExitCode::NotFound, format!("{} {what}", directory.display()))
            .hint("name a directory that exists")
    };
    let given = std::fs::metadata(directory).map_err(|_| wrong("does not exist"))?;
    if !given.is_dir() {
        return Err(wrong("is not a directory"));
    }
    // The directory as the shell names it comes last.
    let base = current_directories()?.pop().unwrap_or_default();
    let plain = normalized(&Path::new(&base).join(directory));
    // A link before `..` may lead elsewhere.
    let same =
        std::fs::metadata(&plain).is_ok_and(|meta| (meta.dev(), meta.ino()) == (given.dev(), given.ino()));
    let path = if same { plain } else { directory.canonicalize()? };
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new(ExitCode::Usage, format!("{} is not valid UTF-8", path.display())))
}

/// Removes `.` and `..` without looking at the disk.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}
