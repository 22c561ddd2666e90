//! Turns the text of a block (emphasis, code, links) into styled pieces. Without colours the marks of Markdown stay.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::style::{StyledText, TextColor, TextStyle};
use crate::output::target::Color;

/// Reads the text of one block, which has been escaped.
pub(crate) fn inline(text: &str, base: TextStyle, color: Color) -> Vec<StyledText> {
    let mut reader = InlineReader { color, base, pieces: Vec::new(), styles: Vec::new(), links: Vec::new() };
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        reader.event(event);
    }
    reader.pieces
}

struct InlineReader {
    color: Color,
    base: TextStyle,
    pieces: Vec<StyledText>,
    styles: Vec<TextStyle>,
    /// The open links: the address, and the number of pieces before it.
    links: Vec<(String, usize)>,
}

impl InlineReader {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.push(&text, TextStyle::PLAIN),
            Event::Code(text) => self.code(&text),
            Event::SoftBreak => self.push(" ", TextStyle::PLAIN),
            Event::HardBreak => self.push("\n", TextStyle::PLAIN),
            Event::Html(text) | Event::InlineHtml(text) => self.html(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.code(&text),
            Event::FootnoteReference(name) => self.push(&format!("[^{name}]"), TextStyle::PLAIN),
            Event::Rule => self.push("---", TextStyle::PLAIN),
            Event::TaskListMarker(_) => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the caller has taken the blocks apart: only inline tags count"
    )]
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.open(TextStyle { italic: true, ..TextStyle::PLAIN }, "*"),
            Tag::Strong => self.open(TextStyle::BOLD, "**"),
            Tag::Strikethrough => self.open(TextStyle { strike: true, ..TextStyle::PLAIN }, "~~"),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.pieces.len()));
                self.open(TextStyle { underline: true, ..TextStyle::PLAIN }, "");
            }
            Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.pieces.len()));
                self.push("[image: ", TextStyle::DIM);
            }
            _ => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the caller has taken the blocks apart: only inline tags count"
    )]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.close("*"),
            TagEnd::Strong => self.close("**"),
            TagEnd::Strikethrough => self.close("~~"),
            TagEnd::Link => {
                self.close("");
                self.address();
            }
            TagEnd::Image => {
                self.push("]", TextStyle::DIM);
                self.address();
            }
            _ => {}
        }
    }

    /// The address of a link is shown, so that a text cannot hide where it leads.
    fn address(&mut self) {
        let Some((address, start)) = self.links.pop() else { return };
        let text: String = self.pieces.iter().skip(start).map(|piece| piece.text.as_str()).collect();
        let plain = address.strip_prefix("mailto:").unwrap_or(&address);
        if !address.is_empty() && text != plain && text != address {
            self.push(&format!(" ({address})"), TextStyle::DIM);
        }
    }

    fn code(&mut self, text: &str) {
        match self.color {
            Color::On => self.push(text, TextStyle::colored(TextColor::Cyan)),
            Color::Off => self.push(&format!("`{text}`"), TextStyle::PLAIN),
        }
    }

    fn html(&mut self, text: &str) {
        let is_break = matches!(text.trim().to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />");
        if is_break { self.push("\n", TextStyle::PLAIN) } else { self.push(text, TextStyle::DIM) }
    }

    fn open(&mut self, style: TextStyle, mark: &str) {
        self.mark(mark);
        self.styles.push(style);
    }

    fn close(&mut self, mark: &str) {
        self.styles.pop();
        self.mark(mark);
    }

    fn mark(&mut self, mark: &str) {
        match self.color {
            Color::On => {}
            Color::Off => self.push(mark, TextStyle::PLAIN),
        }
    }

    fn push(&mut self, text: &str, style: TextStyle) {
        if text.is_empty() {
            return;
        }
        let style = self.styles.iter().fold(self.base, |all, style| all.and(*style)).and(style);
        match self.pieces.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            Some(_) | None => self.pieces.push(StyledText::new(text, style)),
        }
    }
}
