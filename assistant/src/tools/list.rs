//! The tool `list`: lists the entries of a directory.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rethread::sandbox::{EntryKind, at};

use super::arguments::Arguments;
use super::error::ToolError;
use super::excerpt;
use super::prepared::{Action, Findings, PreparedCall, ReadAction};
use super::spec::{Effect, Kind, ToolSpec, flag, number, object, text};
use super::stop::Stop;
use super::walk::{Skip, SkippedEntries, WalkEntry, WalkScope, walk};
use super::workspace::{Target, Workspace};

pub(super) const NAME: &str = "list";

/// The maximum number of entries.
const MOST: usize = 1000;
/// The maximum depth.
const DEEPEST: u64 = 10;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Lists the entries of a directory: directories end in a slash, files are shown with their \
            size, symbolic links with their target. Returns at most 1000 entries. Entries that the project's ignore \
            files name are skipped unless `all` is set.",
        schema: object(
            [
                ("path", text("The directory, absolute or from the working directory. Default: the latter.")),
                ("depth", number(1, DEEPEST, "How many levels. Default: 1.")),
                ("all", flag("Include what ignore files name. Default: false.")),
            ],
            &[],
        ),
        kind: Kind::Read,
        effect: Effect::Reads,
    }
}

/// The directory, and how deep it is listed.
#[derive(Debug)]
struct ListQuery {
    sent: String,
    scope: WalkScope,
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let sent = arguments.optional_text("path")?.filter(|path| !path.is_empty()).unwrap_or(".");
    let depth = arguments.number("depth", 1..=DEEPEST)?.unwrap_or(1);
    let skip = if arguments.flag("all")? { Skip::Nothing } else { Skip::Ignored };
    let at = match workspace.target(sent)? {
        Target::Directory(at) => at,
        Target::File(_) => {
            let hint = "use read for a file".to_owned();
            let (path, why) = (sent.to_owned(), "it is a file".to_owned());
            return Err(ToolError::File { path, why, hint, source: None });
        }
    };
    let scope = WalkScope { skip, depth: usize::try_from(depth).unwrap_or(1) };
    let plan = Action::Read(Box::new(ListQuery { sent: sent.to_owned(), scope }));
    let title = format!("List {}", workspace.shown(&at.shown));
    Ok(PreparedCall::new(workspace, Kind::Read, title, plan).at(at.shown, None))
}

impl ReadAction for ListQuery {
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError> {
        let refused = |error| workspace.error(&self.sent, error);
        let (_, start) =
            workspace.roots.directory_at(&workspace.absolute(&self.sent)).map_err(|e| refused(e.into()))?;
        let (mut text, mut count, mut more) = (String::new(), 0, false);
        let visit = |found: &WalkEntry<'_>| {
            let line = line(&start.shown, found);
            if count == MOST || text.len() + line.len() > excerpt::MOST_LISTED {
                more = true;
                return ControlFlow::Break(());
            }
            count += 1;
            text.push_str(&line);
            ControlFlow::Continue(())
        };
        let skipped = walk(workspace, &start.real, self.scope, stop, visit).map_err(refused)?;
        let more =
            more.then(|| format!("these are the first {count} entries; list a directory below for more"));
        Ok((text + &note(count, more, skipped)).into())
    }
}

fn line(start: &Path, found: &WalkEntry<'_>) -> String {
    let path = excerpt::name(found.path.strip_prefix(start).unwrap_or(found.path));
    match found.kind {
        EntryKind::Directory => format!("{path}/\n"),
        EntryKind::File => match at::status(found.directory.as_fd(), found.name) {
            Ok(status) => format!("{path} ({} bytes)\n", status.st_size),
            Err(_) => format!("{path}\n"),
        },
        EntryKind::Link => match at::read_link(found.directory.as_fd(), found.name) {
            Ok(Some(target)) => format!("{path} -> {}\n", excerpt::name(Path::new(&target))),
            Ok(None) | Err(_) => format!("{path}\n"),
        },
        EntryKind::Other => format!("{path} (not a regular file)\n"),
    }
}

fn note(count: usize, more: Option<String>, skipped: SkippedEntries) -> String {
    let mut notes = Vec::new();
    if count == 0 {
        notes.push("no entries".to_owned());
    }
    notes.extend(more);
    skipped.notes(&mut notes);
    if notes.is_empty() { String::new() } else { format!("({})", notes.join("; ")) }
}
