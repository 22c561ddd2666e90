//! The tool `find`: finds files and directories by a glob pattern.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rethread::sandbox::EntryKind;

use super::arguments::Arguments;
use super::error::ToolError;
use super::excerpt;
use super::glob::Glob;
use super::prepared::{Action, Findings, PreparedCall, ReadAction};
use super::spec::{Effect, Kind, ToolSpec, flag, object, text};
use super::stop::Stop;
use super::walk::{Skip, SkippedEntries, WalkEntry, WalkScope, walk};
use super::workspace::{Target, Workspace};

pub(super) const NAME: &str = "find";

/// The maximum number of paths.
const MOST: usize = 1000;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Finds files and directories by a pattern for their paths. A pattern without a slash matches \
            names at any depth (`*.rs`), one with a slash the path below the directory (`src/**/*.rs`). Returns at most \
            1000 paths. Entries that the project's ignore files name are skipped unless `all` is set.",
        schema: object(
            [
                ("glob", text("The pattern.")),
                ("path", text("The directory to look in. Default: all roots of the session.")),
                ("all", flag("Include what ignore files name. Default: false.")),
            ],
            &["glob"],
        ),
        kind: Kind::Search,
        effect: Effect::Reads,
    }
}

/// The pattern, the start directories and what to skip.
#[derive(Debug)]
struct FindQuery {
    glob: Glob,
    starts: Vec<PathBuf>,
    skip: Skip,
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    arguments.some_text("glob")?;
    let glob = Glob::read(arguments, "glob")?.expect("it was just there");
    let skip = if arguments.flag("all")? { Skip::Nothing } else { Skip::Ignored };
    let mut title = format!("Find {}", glob.pattern());
    let starts = match arguments.optional_text("path")?.filter(|path| !path.is_empty()) {
        None => workspace.roots.outermost().into_iter().map(Into::into).collect(),
        Some(sent) => match workspace.target(sent)? {
            Target::Directory(at) => {
                title = format!("{title} in {}", workspace.shown(&at.shown));
                vec![at.shown]
            }
            Target::File(_) => return Err(arguments.wrong("path", "a directory", None)),
        },
    };
    let locations = starts.clone();
    let plan = Action::Read(Box::new(FindQuery { glob, starts, skip }));
    let prepared = PreparedCall::new(workspace, Kind::Search, title, plan);
    Ok(locations.into_iter().fold(prepared, |prepared, path| prepared.at(path, None)))
}

impl ReadAction for FindQuery {
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError> {
        let (mut text, mut count, mut more) = (String::new(), 0, false);
        let mut notes = Vec::new();
        for start in &self.starts {
            let glob = self.glob.at(start);
            let visit = |found: &WalkEntry<'_>| {
                let is_directory = found.kind == EntryKind::Directory;
                if glob.matches(found.path, is_directory) {
                    let slash = if is_directory { "/" } else { "" };
                    let line = format!("{}{slash}\n", workspace.shown(found.path));
                    if count == MOST || text.len() + line.len() > excerpt::MOST_LISTED {
                        more = true;
                        return ControlFlow::Break(());
                    }
                    count += 1;
                    text.push_str(&line);
                }
                ControlFlow::Continue(())
            };
            let skipped: SkippedEntries = walk(workspace, start, WalkScope::whole(self.skip), stop, visit)
                .map_err(|error| workspace.error(&start.display().to_string(), error))?;
            skipped.notes(&mut notes);
            if more {
                break;
            }
        }
        if count == 0 {
            notes.insert(0, format!("nothing matches {}", self.glob.pattern()));
        }
        if more {
            notes.insert(0, format!("these are the first {count} paths; use a narrower pattern for others"));
        }
        Ok(if notes.is_empty() { text } else { format!("{text}({})", notes.join("; ")) }.into())
    }
}
