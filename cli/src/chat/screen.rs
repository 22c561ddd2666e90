//! The terminal while a turn runs: finished text goes up into the scrollback, and a few lines below it show what is not
//! finished and what is going on. Only those lines are ever drawn again.

use std::io::{self, Write as _, stdout};

use crate::markdown::style::TextStyle;
use crate::output::target::{Color, OutputTarget};
use crate::output::width::{cut_end, width};

/// The most lines of unfinished text.
const MAX_LIVE_ROWS: usize = 6;

/// The terminal that a chat is shown on.
pub(crate) struct Screen {
    columns: usize,
    color: Color,
    live: LiveLines,
    /// The widths of the live lines that are on the terminal.
    shown: Vec<usize>,
}

/// The lines below the finished text. They have been escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveLines {
    /// The end of the text that is not finished.
    pub(crate) text: Vec<String>,
    /// What is going on.
    pub(crate) status: Option<String>,
}

impl LiveLines {
    /// Only a status.
    pub(crate) fn status(status: impl Into<String>) -> Self {
        Self { text: Vec::new(), status: Some(status.into()) }
    }
}

impl Screen {
    /// The terminal of stdout.
    pub(crate) fn new() -> Self {
        let (columns, color) = size_and_color();
        Self { columns, color, live: LiveLines::default(), shown: Vec::new() }
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// How many lines of unfinished text can be shown: the cursor must be able to go back above them.
    pub(crate) fn live_rows(&self) -> usize {
        let rows = crossterm::terminal::size().map_or(MAX_LIVE_ROWS, |(_, rows)| usize::from(rows));
        rows.saturating_sub(4).min(MAX_LIVE_ROWS)
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

    /// Shows other live lines; none removes them.
    pub(crate) fn set_live(&mut self, live: LiveLines) -> io::Result<()> {
        if self.live == live {
            return Ok(());
        }
        self.live = live;
        self.draw("")
    }

    fn draw(&mut self, committed: &str) -> io::Result<()> {
        let mut text = self.erasure();
        text.push_str(committed);
        // The last column stays free: some terminals wrap there.
        let room = self.columns.saturating_sub(1);
        let lines = self.live.text.iter().map(|line| (line, TextStyle::PLAIN));
        let lines = lines.chain(self.live.status.iter().map(|status| (status, TextStyle::DIM)));
        for (at, (line, style)) in lines.enumerate() {
            let line = cut_end(line, room);
            text.push_str(if at > 0 { "\n" } else { "" });
            text.push_str(&style.paint(self.color, &line));
            self.shown.push(width(&line));
        }
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Removes the live lines. A terminal that got narrower has broken them into more lines.
    fn erasure(&mut self) -> String {
        let shown = std::mem::take(&mut self.shown);
        let rows: usize = shown.iter().map(|width| width.saturating_sub(1) / self.columns.max(1) + 1).sum();
        match rows {
            0 => String::new(),
            1 => "\r\u{1b}[J".to_owned(),
            rows => format!("\r\u{1b}[{}A\u{1b}[J", rows - 1),
        }
    }
}

fn size_and_color() -> (usize, Color) {
    match OutputTarget::stdout() {
        OutputTarget::Terminal { width, color } => (width, color),
        OutputTarget::Plain => (80, Color::Off),
    }
}
