//! Prints the demonstration: headings, and text that comes word by word and is wrapped to the terminal.

use crate::failure::Failure;
use crate::output::stream::print;
use crate::output::target::{OutputTarget, Paint};
use crate::output::width::width;

/// The space before text.
const INDENT: &str = "    ";
/// Text is not wider, whatever the terminal is.
const MAX_WIDTH: usize = 92;
/// The width where the output is not a terminal.
const PLAIN_WIDTH: usize = 80;

/// The page that is printed.
pub(super) struct DemoPage {
    target: OutputTarget,
    width: usize,
    column: usize,
    /// The spaces between the last word and the next one.
    spaces: usize,
}

impl DemoPage {
    /// Looks at the terminal.
    pub(super) fn new() -> Self {
        let target = OutputTarget::stdout();
        let width = match target {
            OutputTarget::Terminal { width, .. } => width.saturating_sub(1).min(MAX_WIDTH),
            OutputTarget::Plain => PLAIN_WIDTH,
        };
        Self { target, width, column: 0, spaces: 0 }
    }

    /// Begins a section with a heading.
    pub(super) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        print(if self.column > 0 { "\n\n" } else { "\n" })?;
        self.column = 0;
        self.wrapped(text, Paint::Bold, "")?;
        print("\n")?;
        self.column = 0;
        Ok(())
    }

    /// Begins a text below a heading.
    pub(super) fn begin_text(&mut self) -> Result<(), Failure> {
        print("\n")
    }

    /// Prints more words of a text.
    pub(super) fn words(&mut self, words: &str, paint: Paint) -> Result<(), Failure> {
        self.wrapped(words, paint, INDENT)
    }

    /// Ends the page with these lines.
    pub(super) fn end(&mut self, lines: &[(&str, &str)]) -> Result<(), Failure> {
        print("\n\n")?;
        for (what, command) in lines {
            print(&format!("{what}  {}\n", self.target.paint(Paint::Cyan, command)))?;
        }
        print("\n")
    }

    fn wrapped(&mut self, words: &str, paint: Paint, indent: &str) -> Result<(), Failure> {
        for word in words.split_inclusive(' ') {
            let shown = word.trim_end();
            let spaces = std::mem::replace(&mut self.spaces, width(word) - width(shown));
            if self.column > width(indent) && self.column + spaces + width(shown) > self.width {
                print("\n")?;
                self.column = 0;
            }
            let before = if self.column == 0 { indent.to_owned() } else { " ".repeat(spaces) };
            print(&format!("{before}{}", self.target.paint(paint, shown)))?;
            self.column += width(&before) + width(shown);
        }
        Ok(())
    }
}
