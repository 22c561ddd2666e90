//! The terminal while a turn runs: finished text goes up into the scrollback, and one line below it says what is going on.
//! Only that line is ever drawn again.

use std::io::{self, Write as _, stdout};

use crate::output::target::{Color, OutputTarget};
use crate::output::width::{cut_end, width};

/// The terminal that a chat is shown on.
pub(crate) struct Screen {
    columns: usize,
    color: Color,
    /// The width of the status line that is shown.
    shown: Option<usize>,
    status: Option<String>,
}

impl Screen {
    /// The terminal of stdout.
    pub(crate) fn new() -> Self {
        let (columns, color) = size_and_color();
        Self { columns, color, shown: None, status: None }
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Whether colours are used.
    pub(crate) fn color(&self) -> Color {
        self.color
    }

    /// Looks at the size of the terminal again.
    pub(crate) fn resized(&mut self) -> io::Result<()> {
        (self.columns, _) = size_and_color();
        self.draw("")
    }

    /// Prints lines that stay. Each ends with a line end.
    pub(crate) fn commit(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.draw(text) }
    }

    /// Shows a text in the status line, which has been escaped; nothing removes the line.
    pub(crate) fn set_status(&mut self, status: Option<String>) -> io::Result<()> {
        if self.status == status {
            return Ok(());
        }
        self.status = status;
        self.draw("")
    }

    fn draw(&mut self, committed: &str) -> io::Result<()> {
        let mut text = self.erasure();
        text.push_str(committed);
        if let Some(status) = &self.status {
            // The last column stays free: some terminals wrap there.
            let line = cut_end(status, self.columns.saturating_sub(1));
            self.shown = Some(width(&line));
            text.push_str(&crate::markdown::style::TextStyle::DIM.paint(self.color, &line));
        }
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Removes the status line. A terminal that got narrower has broken it into several.
    fn erasure(&mut self) -> String {
        let Some(shown) = self.shown.take() else { return String::new() };
        let above = shown.saturating_sub(1) / self.columns.max(1);
        let up = if above > 0 { format!("\u{1b}[{above}A") } else { String::new() };
        format!("\r{up}\u{1b}[J")
    }
}

fn size_and_color() -> (usize, Color) {
    match OutputTarget::stdout() {
        OutputTarget::Terminal { width, color } => (width, color),
        OutputTarget::Plain => (80, Color::Off),
    }
}
