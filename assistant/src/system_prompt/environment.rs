//! Describes the environment of a session for the system prompt: directories, date, operating system, shell, state of git.
//! Reads git's files and does not run git, because a repository can configure commands that git runs.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rethread::clock;

use super::project::repository;
use crate::choice::Settings;
use crate::tools::{TerminalAccess, shell};

/// The maximum number of bytes of a git file that are read.
const LONGEST: u64 = 4096;
/// The length of a short commit id.
const SHORT: usize = 12;

/// The description of the environment.
pub(super) async fn described(roots: &[PathBuf], settings: &Settings) -> String {
    let Some(cwd) = roots.first().cloned() else { return String::new() };
    let shown: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
    let commands = match settings.access.terminal {
        TerminalAccess::Enabled => format!(
            "The tool run is not bound to these directories: a command runs with {} as the user, without a sandbox, and \
             can reach whatever the user can. That is why the user may be asked first.",
            shell().name()
        ),
        TerminalAccess::Disabled => "You cannot run commands now.".to_owned(),
    };
    let date = clock::rfc3339(clock::now());
    let day = date.split('T').next().unwrap_or_default();
    let system = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
    let state = tokio::task::spawn_blocking(move || git(&cwd)).await.ok().flatten();
    let state = state.unwrap_or_else(|| "The working directory is not in a git repository.".to_owned());
    format!(
        "The working directory is {}. Relative paths begin there. The tools for files reach these directories and nothing \
         else: {}. {commands}\n\nToday is {day} (UTC). The system is {system}. {state}",
        shown.first().map_or("", String::as_str),
        shown.join(", ")
    )
}

/// What is checked out, if the directory is in a repository.
fn git(folder: &Path) -> Option<String> {
    let top = repository(folder)?;
    let place = git_folder(&top);
    let head = place.as_deref().and_then(|place| line_of(&place.join("HEAD")));
    let state = match head.as_deref().map(|head| (head.strip_prefix("ref: refs/heads/"), commit(head))) {
        Some((Some(branch), _)) if is_plain(branch) => {
            let tip = place.and_then(|place| line_of(&place.join("refs/heads").join(branch)));
            let tip = tip.as_deref().and_then(commit).map(|tip| format!(" at commit {tip}"));
            format!("on branch {branch}{}", tip.unwrap_or_default())
        }
        Some((_, Some(commit))) => format!("at commit {commit}, on no branch"),
        Some(_) | None => "in an unknown state".to_owned(),
    };
    Some(format!(
        "The git repository {} is {state}; what has changed since the last commit was not looked at.",
        top.display()
    ))
}

/// Where git keeps what is checked out: a worktree has a file that names the place.
fn git_folder(top: &Path) -> Option<PathBuf> {
    let place = top.join(".git");
    if place.is_dir() {
        return Some(place);
    }
    Some(top.join(line_of(&place)?.strip_prefix("gitdir: ")?))
}

/// The first line of a small file.
fn line_of(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file =
        std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    text.lines().next().map(|line| line.trim_end().to_owned())
}

/// The short name of a commit, if this is one.
fn commit(text: &str) -> Option<&str> {
    let is_one = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.get(..SHORT)).flatten()
}

/// Whether this can be the name of a branch and nothing else.
fn is_plain(branch: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "/-_.#+@".contains(c);
    !branch.is_empty() && branch.len() <= 200 && !branch.contains("..") && branch.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::git;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn what_is_checked_out_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path();
        std::fs::create_dir_all(top.join(".git/refs/heads/a")).unwrap();
        std::fs::create_dir_all(top.join("sub")).unwrap();
        let text = |head: &str| {
            std::fs::write(top.join(".git/HEAD"), head).unwrap();
            git(&top.join("sub")).unwrap()
        };
        assert!(text("ref: refs/heads/a/b\n").contains("is on branch a/b;"));
        std::fs::write(top.join(".git/refs/heads/a/b"), format!("{COMMIT}\n")).unwrap();
        assert!(text("ref: refs/heads/a/b\n").contains("is on branch a/b at commit 0123456789ab;"));
        assert!(text(&format!("{COMMIT}\n")).contains("at commit 0123456789ab, on no branch"));
        for odd in ["ref: refs/heads/x; do this\n", "ref: refs/heads/../../x\n", "nonsense", ""] {
            assert!(text(odd).contains("is in an unknown state"), "{odd}");
        }
        std::fs::create_dir_all(top.join("elsewhere")).unwrap();
        std::fs::write(top.join("elsewhere/HEAD"), "ref: refs/heads/tree\n").unwrap();
        std::fs::remove_dir_all(top.join(".git")).unwrap();
        std::fs::write(top.join(".git"), "gitdir: elsewhere\n").unwrap();
        assert!(git(top).unwrap().contains("is on branch tree;"));
    }
}
