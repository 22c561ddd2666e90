//! Markdown for terminals. [`MarkdownStream`] takes text as it comes and returns what is finished: a paragraph, a list
//! item, a line of code. What was returned is never changed. Pure: text in, text out.

mod blocks;
mod code;
mod containers;
mod inline;
mod marks;
mod painter;
pub(crate) mod style;
mod table;
#[cfg(test)]
mod tests;
mod wrap;

use blocks::BlockReader;
use painter::BlockPainter;
use style::TextStyle;

use crate::output::escape::visible_lines;
use crate::output::target::{Color, OutputTarget};

pub(crate) use code::{CodePainter, load_grammars};
pub(crate) use wrap::wrap;

/// A line without an end is taken apart at this length, so that memory is bounded.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// More of a text that is not finished need not be shown.
const MAX_OPEN_CHARACTERS: usize = 2000;

/// The columns that a tab goes to.
const TAB: usize = 4;

/// Text is not wider than this, also on wider terminals: longer lines are hard to read.
const MAX_TEXT_WIDTH: usize = 120;

/// Prints a document that comes in pieces, and whose control characters are escaped: styled on a terminal, elsewhere as it is.
pub(crate) struct DocumentPrinter(Option<MarkdownStream>);

impl DocumentPrinter {
    /// Starts a document.
    pub(crate) fn new(target: OutputTarget) -> Self {
        match target {
            OutputTarget::Plain => Self(None),
            OutputTarget::Terminal { width, color } => {
                Self(Some(MarkdownStream::new(width, color, TextStyle::PLAIN)))
            }
        }
    }

    /// Takes more text, and returns what is finished.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.0.as_mut().map_or_else(|| text.to_owned(), |stream| stream.push(text))
    }

    /// Ends the document, and returns the rest.
    pub(crate) fn finish(&mut self) -> String {
        self.0.as_mut().map(MarkdownStream::finish).unwrap_or_default()
    }
}

/// Renders a document that comes in pieces.
pub(crate) struct MarkdownStream {
    /// The line that has no end yet, as it came.
    line: String,
    blocks: BlockReader,
    painter: BlockPainter,
}

impl MarkdownStream {
    /// Starts a document for a terminal of this width. All text has the base style.
    pub(crate) fn new(width: usize, color: Color, base: TextStyle) -> Self {
        let painter = BlockPainter::new(width.min(MAX_TEXT_WIDTH), color, base);
        Self { line: String::new(), blocks: BlockReader::default(), painter }
    }

    /// Takes more text, and returns the lines that are finished.
    pub(crate) fn push(&mut self, text: &str) -> String {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > MAX_LINE_BYTES {
                self.end_line();
            }
        }
        self.painter.take()
    }

    /// Ends the document, and returns the rest. The stream can be used for another document.
    pub(crate) fn finish(&mut self) -> String {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.blocks.finish(&mut self.painter);
        self.painter.end_document();
        self.painter.take()
    }

    /// Uses another width for what is to come.
    pub(crate) fn resize(&mut self, width: usize) {
        self.painter.resize(width.min(MAX_TEXT_WIDTH));
    }

    /// The text that is not finished, as it was written; at most its end.
    pub(crate) fn open_text(&self) -> String {
        let open = self.blocks.open_text();
        let gap = if open.is_empty() || self.line.is_empty() { "" } else { "\n" };
        let text = format!("{}{gap}{}", end_of(open), end_of(&self.line));
        visible_lines(&text.replace('\r', "")).into_owned()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        self.blocks.line(&without_tabs(&visible_lines(line)), &mut self.painter);
    }
}

/// The end of a text.
fn end_of(text: &str) -> &str {
    let start = text.char_indices().rev().nth(MAX_OPEN_CHARACTERS).map_or(0, |(at, _)| at);
    &text[start..]
}

/// Replaces tabs by spaces up to the next tab stop.
fn without_tabs(line: &str) -> String {
    let mut expanded = String::with_capacity(line.len());
    for (at, part) in line.split('\t').enumerate() {
        if at > 0 {
            let columns = crate::output::width::width(&expanded);
            expanded.push_str(&" ".repeat(TAB - columns % TAB));
        }
        expanded.push_str(part);
    }
    expanded
}
