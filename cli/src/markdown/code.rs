//! Colours code line by line. The grammars are loaded with the first code whose language is known.

use std::str::FromStr as _;
use std::sync::OnceLock;

use syntect::easy::HighlightLines;
use syntect::highlighting::{Color as ThemeColor, ScopeSelectors, StyleModifier, Theme, ThemeItem};
use syntect::parsing::SyntaxSet;

use super::style::{StyledText, TextColor, TextStyle};
use crate::output::target::Color;

/// Longer lines are not coloured: they are data, and grammars take long for them.
const MAX_LINE_BYTES: usize = 2000;

/// The colours of the parts of a language.
const SCOPES: [(&str, TextStyle); 10] = [
    ("comment, punctuation.definition.comment", TextStyle::DIM),
    ("string, markup.inserted", TextStyle::colored(TextColor::Green)),
    ("constant.numeric, constant.language, constant.character.escape", TextStyle::colored(TextColor::Yellow)),
    ("keyword, storage.modifier", TextStyle::colored(TextColor::Magenta)),
    ("storage.type, support.type, entity.name.type", TextStyle::colored(TextColor::Cyan)),
    ("entity.name.function, support.function, variable.function", TextStyle::colored(TextColor::Blue)),
    ("entity.name.tag", TextStyle::colored(TextColor::Magenta)),
    ("entity.other.attribute-name, meta.mapping.key string", TextStyle::colored(TextColor::Blue)),
    ("markup.deleted", TextStyle::colored(TextColor::Red)),
    ("markup.heading, meta.diff.range", TextStyle::colored(TextColor::Cyan)),
];

/// Colours the lines of one piece of code.
pub(crate) struct CodePainter {
    lines: Option<HighlightLines<'static>>,
}

impl CodePainter {
    /// A painter for this language. Without colours, or if the language is not known, all text is plain.
    pub(crate) fn new(language: &str, color: Color) -> Self {
        let lines = match color {
            Color::On if !language.is_empty() => Self::of(language),
            Color::On | Color::Off => None,
        };
        Self { lines }
    }

    fn of(language: &str) -> Option<HighlightLines<'static>> {
        let syntax = grammars().find_syntax_by_token(language)?;
        Some(HighlightLines::new(syntax, theme()))
    }

    /// Colours the next line, which has been escaped and has no line end.
    pub(crate) fn line(&mut self, line: &str) -> Vec<StyledText> {
        let plain = || vec![StyledText::new(line, TextStyle::PLAIN)];
        let Some(lines) = self.lines.as_mut().filter(|_| line.len() <= MAX_LINE_BYTES) else {
            return plain();
        };
        let ended = format!("{line}\n");
        match lines.highlight_line(&ended, grammars()) {
            Ok(pieces) => pieces
                .into_iter()
                .map(|(style, text)| StyledText::new(text.trim_end_matches('\n'), style_of(style.foreground)))
                .filter(|piece| !piece.text.is_empty())
                .collect(),
            Err(_) => {
                // The grammar failed, so it cannot know the state of the next line.
                self.lines = None;
                plain()
            }
        }
    }
}

/// Loads the grammars, so that the first code is not delayed. Takes a tenth of a second.
pub(crate) fn load_grammars() {
    grammars();
}

fn grammars() -> &'static SyntaxSet {
    static GRAMMARS: OnceLock<SyntaxSet> = OnceLock::new();
    GRAMMARS.get_or_init(two_face::syntax::extra_newlines)
}

/// A theme whose colours are the places of the styles in the table.
fn theme() -> &'static Theme {
    static THEME: OnceLock<Theme> = OnceLock::new();
    THEME.get_or_init(|| {
        let items = (1_u8..).zip(SCOPES).filter_map(|(place, (scopes, _))| {
            let scope = ScopeSelectors::from_str(scopes).ok()?;
            let foreground = Some(ThemeColor { r: place, g: 0, b: 0, a: 0 });
            Some(ThemeItem { scope, style: StyleModifier { foreground, ..StyleModifier::default() } })
        });
        let mut theme = Theme { scopes: items.collect(), ..Theme::default() };
        theme.settings.foreground = Some(ThemeColor { r: 0, g: 0, b: 0, a: 0 });
        theme
    })
}

fn style_of(color: ThemeColor) -> TextStyle {
    let place = usize::from(color.r).checked_sub(1);
    place.and_then(|place| SCOPES.get(place)).map_or(TextStyle::PLAIN, |(_, style)| *style)
}
