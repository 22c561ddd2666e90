//! The tool `search`: finds lines of text files that match a regular expression.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink as Hear, SinkContext, SinkMatch};
use rethread::sandbox::{EntryKind, open_regular_in};

use super::arguments::Arguments;
use super::error::ToolError;
use super::excerpt;
use super::glob::Glob;
use super::prepared::{Action, Findings, PreparedCall, ReadAction};
use super::spec::{Effect, Kind, ToolSpec, flag, number, object, text};
use super::stop::{Stop, Stoppable};
use super::walk::{Skip, SkippedEntries, WalkEntry, WalkScope, walk};
use super::workspace::{Target, Workspace};

pub(super) const NAME: &str = "search";

/// The default number of matches.
const USUAL: u64 = 200;
/// The maximum number of matches.
const MOST: u64 = 1000;
/// The maximum length of the text, in bytes.
const MOST_TEXT: usize = 64 * 1024;
/// The maximum length of a line, in bytes.
const LONGEST_LINE: usize = 400;
/// The maximum number of context lines.
const MOST_CONTEXT: u64 = 10;
/// The maximum length of a line that is searched, in bytes.
const HEAP: usize = 16 * 1024 * 1024;
/// The maximum size of a compiled pattern, in bytes.
const PATTERN: usize = 4 * 1024 * 1024;
/// The maximum number of bytes of the pattern in a title.
const LONGEST_TITLE: usize = 60;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: "Searches text files for lines that match a regular expression (Rust syntax, line by line). \
            Each match is shown as path:line:text. Returns 200 matches unless `limit` is set, and cuts long lines. \
            Binary files are skipped, and so are files that the project's ignore files name unless `all` is set.",
        schema: object(
            [
                ("pattern", text("The regular expression.")),
                ("path", text("The file or directory to search. Default: all roots of the session.")),
                ("glob", text("Only files whose paths match this pattern, such as *.rs or src/**/*.rs.")),
                ("literal", flag("The pattern is plain text. Default: false.")),
                ("ignore_case", flag("Upper and lower case are the same. Default: false.")),
                ("context", number(0, MOST_CONTEXT, "Lines shown around each match. Default: 0.")),
                ("limit", number(1, MOST, "How many matches. Default: 200.")),
                ("all", flag("Include what ignore files name. Default: false.")),
            ],
            &["pattern"],
        ),
        kind: Kind::Search,
        effect: Effect::Reads,
    }
}

/// The pattern, the start points and the limits of a search.
#[derive(Debug)]
struct SearchQuery {
    matcher: RegexMatcher,
    glob: Option<Glob>,
    starts: Vec<SearchStart>,
    skip: Skip,
    context: usize,
    limit: u64,
}

/// A start point of a search.
#[derive(Debug)]
enum SearchStart {
    Directory(PathBuf),
    /// A file, by the path that was sent.
    File(String),
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let pattern = arguments.some_text("pattern")?;
    let matcher = matcher(arguments, pattern)?;
    let glob = Glob::read(arguments, "glob")?;
    let skip = if arguments.flag("all")? { Skip::Nothing } else { Skip::Ignored };
    let context = arguments.number("context", 0..=MOST_CONTEXT)?.unwrap_or(0);
    let limit = arguments.number("limit", 1..=MOST)?.unwrap_or(USUAL);
    let mut title = format!("Search for {}", excerpt::shortened(pattern, LONGEST_TITLE));
    let mut locations: Vec<PathBuf> = workspace.roots.outermost().into_iter().map(Into::into).collect();
    let mut starts = locations.iter().cloned().map(SearchStart::Directory).collect();
    if let Some(sent) = arguments.optional_text("path")?.filter(|path| !path.is_empty()) {
        let (start, at) = match workspace.target(sent)? {
            Target::Directory(at) => (SearchStart::Directory(at.shown.clone()), at.shown),
            Target::File(opened) => (SearchStart::File(sent.to_owned()), opened.at.shown),
        };
        title = format!("{title} in {}", workspace.shown(&at));
        (starts, locations) = (vec![start], vec![at]);
    }
    let context = usize::try_from(context).unwrap_or(0);
    let plan = Action::Read(Box::new(SearchQuery { matcher, glob, starts, skip, context, limit }));
    let prepared = PreparedCall::new(workspace, Kind::Search, title, plan);
    Ok(locations.into_iter().fold(prepared, |prepared, path| prepared.at(path, None)))
}

fn matcher(arguments: &Arguments<'_>, pattern: &str) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(arguments.flag("ignore_case")?)
        .fixed_strings(arguments.flag("literal")?)
        .size_limit(PATTERN)
        .line_terminator(Some(b'\n'));
    builder.build(pattern).map_err(|error| {
        let hint = format!("{error}; set `literal` to search for the text as it is");
        arguments.wrong("pattern", "a regular expression for one line", Some(hint))
    })
}

impl ReadAction for SearchQuery {
    fn look(&self, workspace: &Workspace, stop: &Stop) -> Result<Findings, ToolError> {
        let mut hits = Hits { query: self, path: String::new(), text: String::new(), count: 0, cut: false };
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(HEAP))
            .build();
        let (mut notes, mut unsearched) = (Vec::new(), 0);
        for start in &self.starts {
            let skipped = match start {
                SearchStart::File(sent) => {
                    self.search_named(workspace, sent, stop, &mut searcher, &mut hits)?
                }
                SearchStart::Directory(start) => {
                    let glob = self.glob.as_ref().map(|glob| glob.at(start));
                    let visit = |found: &WalkEntry<'_>| {
                        let wanted = glob.as_ref().is_none_or(|glob| glob.matches(found.path, false));
                        if found.kind == EntryKind::File && wanted {
                            hits.path = workspace.shown(found.path);
                            unsearched += usize::from(
                                search_found(workspace, found, stop, &mut searcher, &mut hits).is_err(),
                            );
                        }
                        if hits.cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    };
                    walk(workspace, start, WalkScope::whole(self.skip), stop, visit)
                        .map_err(|error| workspace.error(&start.display().to_string(), error))?
                }
            };
            skipped.notes(&mut notes);
        }
        if unsearched > 0 && !stop.now() {
            notes.push(format!("{} could not be searched", excerpt::counted(unsearched, "file", "files")));
        }
        Ok(hits.report(notes).into())
    }
}

impl SearchQuery {
    fn search_named(
        &self,
        workspace: &Workspace,
        sent: &str,
        stop: &Stop,
        searcher: &mut Searcher,
        hits: &mut Hits<'_>,
    ) -> Result<SkippedEntries, ToolError> {
        let opened = workspace.file(sent)?;
        hits.path = workspace.shown(&opened.at.shown);
        match searcher.search_reader(&self.matcher, Stoppable { from: opened.file, stop }, hits) {
            Err(error) if !stop.now() => Err(workspace.error(sent, error)),
            Ok(()) | Err(_) => Ok(SkippedEntries::default()),
        }
    }
}

fn search_found(
    workspace: &Workspace,
    found: &WalkEntry<'_>,
    stop: &Stop,
    searcher: &mut Searcher,
    hits: &mut Hits<'_>,
) -> Result<(), std::io::Error> {
    // An entry that was replaced meanwhile is skipped without a note.
    let Ok((file, meta)) = open_regular_in(found.directory, found.name, libc::O_RDONLY) else {
        return Ok(());
    };
    if workspace.is_private(&meta) {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    searcher.search_reader(&hits.query.matcher, Stoppable { from: file, stop }, hits)
}

/// Collects the matching lines.
struct Hits<'a> {
    query: &'a SearchQuery,
    /// The current file.
    path: String,
    text: String,
    count: u64,
    /// Whether there are more matches than the limit.
    cut: bool,
}

impl Hits<'_> {
    fn report(self, mut notes: Vec<String>) -> String {
        if self.count == 0 {
            notes.insert(0, "nothing matches".to_owned());
        }
        if self.cut {
            notes.insert(
                0,
                format!(
                    "these are the first {} matches; use a narrower pattern or path for the others",
                    self.count
                ),
            );
        }
        if notes.is_empty() { self.text } else { format!("{}({})", self.text, notes.join("; ")) }
    }

    fn line(&mut self, mark: char, number: Option<u64>, bytes: &[u8], at: usize) {
        let line = excerpt::text(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let shown = excerpt::around(line, at, LONGEST_LINE);
        let number = number.unwrap_or_default();
        self.text.push_str(&format!("{}{mark}{number}{mark}{shown}\n", self.path));
    }
}

impl Hear for Hits<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.count == self.query.limit || self.text.len() > MOST_TEXT {
            self.cut = true;
            return Ok(false);
        }
        self.count += 1;
        let at = match self.query.matcher.find(found.bytes()) {
            Ok(Some(at)) => at.start(),
            Ok(None) | Err(_) => 0,
        };
        self.line(':', found.line_number(), found.bytes(), at);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.line('-', near.line_number(), near.bytes(), 0);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.text.push_str("--\n");
        Ok(true)
    }
}
