//! Completes what is typed at the prompt: slash commands and their values, and files after `@`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::WalkBuilder;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use crate::output::escape::is_hostile;

/// How many files are looked at and offered.
const MAX_LOOKED_AT: usize = 5_000;
const MAX_OFFERED: usize = 30;
/// How deep files are looked for.
const MAX_DEPTH: usize = 8;

/// What can be completed.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    /// The slash commands without the slash, and what they do.
    pub(crate) commands: Vec<(String, String)>,
    /// The values of commands: the command, the value, what it is.
    pub(crate) values: Vec<(String, String, String)>,
    /// The directory of the session.
    pub(crate) cwd: PathBuf,
}

/// Completes with what the session offers now.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChatCompleter {
    offered: Arc<Mutex<Completions>>,
}

impl ChatCompleter {
    /// Changes what is offered.
    pub(crate) fn set(&self, completions: Completions) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = completions;
    }
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let typed = line.get(..pos).unwrap_or(line);
        CompletionResult::fresh(offered.suggestions(typed))
    }
}

impl Completions {
    fn suggestions(&self, typed: &str) -> Vec<Suggestion> {
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = &typed[start..];
        let span = Span::new(start, typed.len());
        if let Some(path) = word.strip_prefix('@') {
            return self
                .files(path)
                .into_iter()
                .map(|path| suggestion(format!("@{path}"), String::new(), span))
                .collect();
        }
        match typed.strip_prefix('/') {
            Some(command) if start == 0 => self.commands_like(command, span),
            Some(rest) => self.values_like(rest.split_whitespace().next().unwrap_or_default(), word, span),
            None => Vec::new(),
        }
    }

    fn commands_like(&self, typed: &str, span: Span) -> Vec<Suggestion> {
        let fitting = self.commands.iter().filter(|(name, _)| name.starts_with(typed));
        fitting.map(|(name, what)| suggestion(format!("/{name}"), what.clone(), span)).collect()
    }

    fn values_like(&self, command: &str, typed: &str, span: Span) -> Vec<Suggestion> {
        let of_command =
            self.values.iter().filter(|(known, value, _)| known == command && value.starts_with(typed));
        of_command.map(|(_, value, what)| suggestion(value.clone(), what.clone(), span)).collect()
    }

    /// The files in the directory that was typed; then those anywhere below whose name has what was typed.
    fn files(&self, typed: &str) -> Vec<String> {
        let (folder, name) = typed.rsplit_once('/').map_or(("", typed), |(folder, name)| (folder, name));
        let prefix = if typed.contains('/') { format!("{folder}/") } else { String::new() };
        let mut found = entries(&self.cwd.join(&prefix), name);
        found.iter_mut().for_each(|entry| *entry = format!("{prefix}{entry}"));
        if prefix.is_empty() && name.len() > 1 {
            let deeper = files_below(&self.cwd, name).into_iter().filter(|path| path.contains('/'));
            found.extend(deeper);
        }
        found.retain(|path| !path.contains(|c: char| is_hostile(c) || c == '"'));
        found.truncate(MAX_OFFERED);
        let quoted = |path: String| if path.contains(' ') { format!("\"{path}\"") } else { path };
        found.into_iter().map(quoted).collect()
    }
}

fn suggestion(value: String, description: String, span: Span) -> Suggestion {
    let description = (!description.is_empty()).then_some(description);
    let append_whitespace = !value.ends_with('/');
    Suggestion { value, description, span, append_whitespace, ..Suggestion::default() }
}

/// The names in a directory that begin with this; directories end with a slash.
fn entries(folder: &Path, beginning: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_LOOKED_AT);
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_hidden = name.starts_with('.') && !beginning.starts_with('.');
            let slash = if entry.path().is_dir() { "/" } else { "" };
            (name.starts_with(beginning) && !is_hidden).then(|| name + slash)
        })
        .collect();
    names.sort();
    names
}

/// The files below a directory whose name has this text, without those that git ignores.
fn files_below(root: &Path, part: &str) -> Vec<String> {
    let part = part.to_lowercase();
    let walk = WalkBuilder::new(root).max_depth(Some(MAX_DEPTH)).build().flatten().take(MAX_LOOKED_AT);
    let mut paths: Vec<String> = walk
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter(|entry| entry.file_name().to_string_lossy().to_lowercase().contains(&part))
        .filter_map(|entry| Some(entry.path().strip_prefix(root).ok()?.to_str()?.to_owned()))
        .collect();
    paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(cwd: &Path) -> Completions {
        let command = |name: &str| (name.to_owned(), String::new());
        Completions {
            commands: vec![command("mode"), command("model"), command("help")],
            values: vec![("mode".to_owned(), "ask".to_owned(), String::new())],
            cwd: cwd.to_owned(),
        }
    }

    fn values(completions: &Completions, typed: &str) -> Vec<String> {
        completions.suggestions(typed).into_iter().map(|suggestion| suggestion.value).collect()
    }

    #[test]
    fn commands_and_their_values_are_completed() {
        let completions = completions(Path::new("/nowhere"));
        assert_eq!(values(&completions, "/mo"), ["/mode", "/model"]);
        assert_eq!(values(&completions, "/mode a"), ["ask"]);
        assert_eq!(values(&completions, "/model a"), Vec::<String>::new());
        assert_eq!(values(&completions, "say /mo"), Vec::<String>::new());
    }

    #[test]
    fn files_are_completed_here_and_below() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for name in ["src/main.rs", "src/deep/main_test.rs", "notes main.txt", ".hidden", "evil\u{1b}main"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let completions = completions(folder.path());
        assert_eq!(values(&completions, "look at @s"), ["@src/"]);
        assert_eq!(values(&completions, "@src/"), ["@src/deep/", "@src/main.rs"]);
        assert_eq!(values(&completions, "@main"), ["@src/main.rs", "@src/deep/main_test.rs"]);
        assert_eq!(values(&completions, "@no"), ["@\"notes main.txt\""]);
        assert_eq!(values(&completions, "@.h"), ["@.hidden"]);
    }
}
