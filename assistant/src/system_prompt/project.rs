//! Reads the AGENTS.md files of a session: in each root and in the directories above it, up to the root of the repository.
//! Notes say what was left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::tools::{ToolError, Toolbox};

/// The name of instruction files.
const NAME: &str = "AGENTS.md";
/// The maximum lengths of one file and of all files, in bytes.
const LONGEST: usize = 64 * 1024;
const LONGEST_ALL: usize = 256 * 1024;

/// The instructions of the project.
#[derive(Default)]
pub(super) struct Instructions {
    /// The files, each under a heading, the outer ones first.
    pub(super) parts: Vec<String>,
    /// What was cut or skipped, and why.
    pub(super) notes: Vec<String>,
}

/// Reads the files for these roots.
pub(super) async fn read(roots: &[PathBuf]) -> Instructions {
    let (mut all, mut seen) = (Instructions::default(), BTreeSet::new());
    let mut left = LONGEST_ALL;
    for root in roots {
        let top = repository(root).unwrap_or_else(|| root.clone());
        // Symbolic links are followed only inside the repository.
        let reader = Toolbox::new([&top]);
        for folder in between(&top, root) {
            if seen.insert(folder.clone()) {
                all.add(&reader, &folder.join(NAME), &mut left).await;
            }
        }
    }
    all
}

/// The root of the repository that contains a directory.
pub(super) fn repository(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

/// The directories from `top` to `folder`, including both.
fn between(top: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> =
        folder.ancestors().take_while(|folder| folder.starts_with(top)).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

impl Instructions {
    async fn add(&mut self, reader: &Toolbox, path: &Path, left: &mut usize) {
        // Checks the entry itself: a dangling link is reported below.
        if std::fs::symlink_metadata(path).is_err() {
            return;
        }
        let shown = path.display();
        let text = match reader.start_of(path, LONGEST as u64 + 1).await {
            Ok(text) => text,
            Err(ToolError::File { why, .. }) => {
                return self.notes.push(format!("{shown} was skipped: {why}"));
            }
            Err(error) => return self.notes.push(format!("{shown} was skipped: {error}")),
        };
        let text = text.trim_end();
        if text.len() > *left {
            let most = LONGEST_ALL / 1024;
            return self
                .notes
                .push(format!("{shown} was skipped: all files together are longer than {most} KiB"));
        }
        let kept = &text[..text.floor_char_boundary(LONGEST)];
        *left -= kept.len();
        let mut part = format!("Instructions of the project, from {shown}:\n\n{kept}");
        if kept.len() < text.len() {
            let most = LONGEST / 1024;
            part.push_str(&format!("\n\n[The rest of {shown} was left out: it is longer than {most} KiB.]"));
            self.notes.push(format!("{shown} was cut: it is longer than {most} KiB"));
        }
        if !kept.trim().is_empty() {
            self.parts.push(part);
        }
    }
}
