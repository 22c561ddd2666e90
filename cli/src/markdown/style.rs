//! Styled text: pieces with emphasis and colour, and their codes for a terminal.

use crate::output::target::Color;

/// A piece of text in one style. Its text has been escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StyledText {
    /// The text; a line end is a forced break.
    pub(crate) text: String,
    /// How it is shown.
    pub(crate) style: TextStyle,
}

impl StyledText {
    /// Makes a piece.
    pub(crate) fn new(text: impl Into<String>, style: TextStyle) -> Self {
        Self { text: text.into(), style }
    }
}

/// How a piece of text is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextStyle {
    /// Bold.
    pub(crate) bold: bool,
    /// Less visible.
    pub(crate) dim: bool,
    /// Italic.
    pub(crate) italic: bool,
    /// Underlined.
    pub(crate) underline: bool,
    /// Struck through.
    pub(crate) strike: bool,
    /// The colour; that of other text if there is none.
    pub(crate) color: Option<TextColor>,
}

/// A colour of the terminal's own palette, so that it fits light and dark terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextColor {
    /// Errors and removed lines.
    Red,
    /// Success, strings and added lines.
    Green,
    /// Warnings and numbers.
    Yellow,
    /// Names of functions, links.
    Blue,
    /// Keywords.
    Magenta,
    /// Code and types.
    Cyan,
}

impl TextColor {
    fn code(self) -> u8 {
        match self {
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Blue => 34,
            Self::Magenta => 35,
            Self::Cyan => 36,
        }
    }
}

impl TextStyle {
    /// Less visible.
    pub(crate) const DIM: Self = Self { dim: true, ..Self::PLAIN };
    /// Bold.
    pub(crate) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// As other text.
    pub(crate) const PLAIN: Self =
        Self { bold: false, dim: false, italic: false, underline: false, strike: false, color: None };

    /// Only a colour.
    pub(crate) const fn colored(color: TextColor) -> Self {
        Self { color: Some(color), ..Self::PLAIN }
    }

    /// This style with all that the other one has.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bold: self.bold || other.bold,
            dim: self.dim || other.dim,
            italic: self.italic || other.italic,
            underline: self.underline || other.underline,
            strike: self.strike || other.strike,
            color: other.color.or(self.color),
        }
    }

    /// Adds the codes of this style to a text that has been escaped.
    pub(crate) fn paint(self, color: Color, text: &str) -> String {
        if color == Color::Off || self == Self::PLAIN || text.is_empty() {
            return text.to_owned();
        }
        let flags = [(self.bold, 1), (self.dim, 2), (self.italic, 3), (self.underline, 4), (self.strike, 9)];
        let codes = flags.into_iter().filter_map(|(set, code)| set.then_some(code));
        let codes: Vec<String> =
            codes.chain(self.color.map(TextColor::code)).map(|code| code.to_string()).collect();
        format!("\u{1b}[{}m{text}\u{1b}[0m", codes.join(";"))
    }
}

/// Adds the codes of all pieces of one line.
pub(crate) fn painted(line: &[StyledText], color: Color) -> String {
    let same = line.chunk_by(|one, next| one.style == next.style);
    same.map(|pieces| {
        let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        pieces[0].style.paint(color, &text)
    })
    .collect()
}
