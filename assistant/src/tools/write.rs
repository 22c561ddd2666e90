//! The tool `write`: creates or replaces a whole text file.

use std::sync::Arc;

use super::arguments::Arguments;
use super::change::{self, Change, LARGEST, PlannedChange};
use super::error::ToolError;
use super::excerpt::counted;
use super::prepared::{Action, PreparedCall};
use super::spec::{Effect, Kind, ToolSpec, object, text};
use super::workspace::Workspace;

pub(super) const NAME: &str = "write";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Writes a whole text file: creates it, with missing directories, or replaces all of its text. \
            An existing file has to be read first, and again if it has changed since. Use edit to \
            change part of a file.",
        schema: object(
            [
                ("path", text("The file, absolute or from the working directory.")),
                ("content", text("The whole text of the file.")),
            ],
            &["path", "content"],
        ),
        kind: Kind::Edit,
        effect: Effect::Writes,
    }
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let (sent, new) = (arguments.some_text("path")?, arguments.text("content")?);
    if new.len() > LARGEST {
        return Err(change::too_large(sent, new.len() as u64));
    }
    let (at, old) = change::current(workspace, sent)?;
    change::check_seen(workspace, &at, old.as_deref())?;
    let shown = workspace.shown(&at.shown);
    let lines = counted(new.lines().count(), "line", "lines");
    let summary = match old {
        Some(_) => format!("{shown} was replaced; it has {lines} now."),
        None => format!("{shown} was created with {lines}."),
    };
    let change = Change { path: at.shown.clone(), old, new: new.to_owned() };
    let plan = Action::Change(PlannedChange { change, real: at.real, summary });
    Ok(PreparedCall::new(workspace, Kind::Edit, format!("Write {shown}"), plan).at(at.shown, None))
}
