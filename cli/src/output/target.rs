//! What the output goes to: a terminal with a width and perhaps colours, or a pipe or file.

use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The width of a terminal that does not report one.
const DEFAULT_WIDTH: usize = 80;

/// What the output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputTarget {
    /// A terminal.
    Terminal {
        /// The number of columns.
        width: usize,
        /// Whether colours are used.
        color: Color,
    },
    /// A pipe or a file: lines of any width, no colours.
    Plain,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    /// Colours are used.
    On,
    /// Colours are not used.
    Off,
}

/// How a text is shown on a terminal with colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// As other text.
    Normal,
    /// Bold.
    Bold,
    /// Less visible.
    Dim,
    /// For success and activity.
    Green,
    /// For what needs attention.
    Yellow,
    /// For errors.
    Red,
    /// For names and ids.
    Cyan,
}

impl OutputTarget {
    /// What stdout is.
    pub(crate) fn stdout() -> Self {
        Self::of(stdout().as_fd(), stdout().is_terminal())
    }

    /// What stderr is.
    pub(crate) fn stderr() -> Self {
        Self::of(stderr().as_fd(), stderr().is_terminal())
    }

    fn of(file: BorrowedFd<'_>, is_terminal: bool) -> Self {
        if !is_terminal {
            return Self::Plain;
        }
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let plain = set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb");
        let width = columns(file).or_else(|| set("COLUMNS")?.to_str()?.parse().ok());
        Self::Terminal {
            width: width.filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH),
            color: if plain { Color::Off } else { Color::On },
        }
    }

    /// The number of columns that a line may have.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Terminal { width, .. } => width,
            Self::Plain => usize::MAX,
        }
    }

    /// Adds the codes of a colour to a text that has been escaped.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Normal => return text.to_owned(),
            Paint::Bold => 1,
            Paint::Dim => 2,
            Paint::Red => 31,
            Paint::Green => 32,
            Paint::Yellow => 33,
            Paint::Cyan => 36,
        };
        match self {
            Self::Terminal { color: Color::On, .. } if !text.is_empty() => {
                format!("\u{1b}[{code}m{text}\u{1b}[0m")
            }
            Self::Terminal { .. } | Self::Plain => text.to_owned(),
        }
    }
}

fn columns(file: BorrowedFd<'_>) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open and the struct is valid for the call.
    let known = unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } == 0;
    (known && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
