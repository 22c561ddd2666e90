//! Shows Markdown on a terminal: its source, with headings, quotes, code and diffs in colour.

use super::target::{OutputTarget, Paint};

/// Styles Markdown that has been escaped. Code blocks must be closed. Without a terminal the text stays as it is.
pub(crate) fn styled(target: OutputTarget, markdown: &str) -> String {
    match target {
        OutputTarget::Plain => return markdown.to_owned(),
        OutputTarget::Terminal { .. } => {}
    }
    let mut block = Block::Prose;
    let mut text = String::with_capacity(markdown.len() + 256);
    for line in markdown.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let paint = block.line(line);
        text += &target.paint(paint, line);
        text += end;
    }
    text
}

/// What a line is in.
#[derive(Clone, PartialEq, Eq)]
enum Block {
    Prose,
    Code { fence: String, language: CodeLanguage },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeLanguage {
    Diff,
    Other,
}

impl Block {
    /// How a line is shown.
    fn line(&mut self, line: &str) -> Paint {
        let bare = line.trim_start_matches(['>', ' ']);
        let ticks = bare.len() - bare.trim_start_matches('`').len();
        match self {
            Self::Code { fence, .. } if bare.trim_end() == fence => {
                *self = Self::Prose;
                Paint::Dim
            }
            Self::Code { language: CodeLanguage::Diff, .. } => diff_line(bare),
            Self::Code { language: CodeLanguage::Other, .. } => Paint::Normal,
            Self::Prose if ticks >= 3 && !bare[ticks..].contains('`') => {
                let language = match bare[ticks..].trim() {
                    "diff" => CodeLanguage::Diff,
                    _ => CodeLanguage::Other,
                };
                *self = Self::Code { fence: "`".repeat(ticks), language };
                Paint::Dim
            }
            Self::Prose => prose_line(line),
        }
    }
}

fn diff_line(line: &str) -> Paint {
    match line.chars().next() {
        Some('+') => Paint::Green,
        Some('-') => Paint::Red,
        Some('@') => Paint::Cyan,
        Some(_) | None => Paint::Normal,
    }
}

fn prose_line(line: &str) -> Paint {
    let hashes = line.len() - line.trim_start_matches('#').len();
    match line.chars().next() {
        Some('#') if (1..=6).contains(&hashes) && line[hashes..].starts_with(' ') => Paint::Bold,
        Some('>') => Paint::Dim,
        Some(_) | None => Paint::Normal,
    }
}
