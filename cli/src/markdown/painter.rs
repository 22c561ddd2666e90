//! Prints finished blocks: wraps and styles them, with the marks of the quotes and items around them, and with an empty line
//! where one belongs.

use super::blocks::{Block, BlockSink, Separation};
use super::code::CodePainter;
use super::containers::Containers;
use super::inline::inline;
use super::style::{StyledText, TextColor, TextStyle, painted};
use super::wrap::wrap;
use crate::output::target::Color;

/// The space before code.
const CODE_INDENT: &str = "  ";
/// The least width of text inside quotes and items.
const NARROWEST: usize = 10;

/// Prints the blocks of one document.
pub(crate) struct BlockPainter {
    width: usize,
    color: Color,
    base: TextStyle,
    code: Option<CodePainter>,
    previous: Option<BlockShape>,
    out: String,
}

/// How a block is set apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockShape {
    /// With empty lines around it.
    Apart,
    /// Without.
    Flowing,
}

impl BlockPainter {
    pub(crate) fn new(width: usize, color: Color, base: TextStyle) -> Self {
        Self { width, color, base, code: None, previous: None, out: String::new() }
    }

    pub(crate) fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// The lines since the last call.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn end_document(&mut self) {
        self.previous = None;
        self.code = None;
    }

    fn room(&self, containers: &Containers) -> usize {
        self.width.saturating_sub(containers.width()).max(NARROWEST)
    }

    fn separate(&mut self, shape: BlockShape, containers: &Containers, separation: Separation) {
        let Some(previous) = self.previous.replace(shape) else { return };
        let apart = previous == BlockShape::Apart || shape == BlockShape::Apart;
        if separation == Separation::BlankLine || (apart && !containers.has_item()) {
            let gap = painted(&containers.gap(), self.color);
            self.out.push_str(gap.trim_end());
            self.out.push('\n');
        }
    }

    fn lines(&mut self, lines: Vec<Vec<StyledText>>, containers: &mut Containers) {
        for line in lines {
            let mut pieces = containers.prefix();
            pieces.iter_mut().for_each(|piece| piece.style = self.base.and(piece.style));
            pieces.extend(line);
            while pieces.last().is_some_and(|last| last.text.trim().is_empty()) {
                pieces.pop();
            }
            self.out.push_str(&painted(&pieces, self.color));
            self.out.push('\n');
        }
    }

    fn heading(&self, level: usize, text: &str) -> Vec<StyledText> {
        let underline = level == 1;
        let style = TextStyle { underline, ..TextStyle::BOLD };
        let style = if level < 3 { style.and(TextStyle::colored(TextColor::Blue)) } else { style };
        let marks = match self.color {
            Color::On => String::new(),
            Color::Off => "#".repeat(level) + " ",
        };
        let mut pieces = vec![StyledText::new(marks, self.base)];
        pieces.extend(inline(text, self.base.and(style), self.color));
        pieces
    }

    fn code_line(&mut self, line: &str) -> Vec<StyledText> {
        let pieces = self.code.as_mut().map_or_else(Vec::new, |code| code.line(line));
        let based = pieces.into_iter().map(|piece| StyledText { style: self.base.and(piece.style), ..piece });
        std::iter::once(StyledText::new(CODE_INDENT, TextStyle::PLAIN)).chain(based).collect()
    }
}

impl BlockSink for BlockPainter {
    fn block(&mut self, block: Block, containers: &mut Containers, separation: Separation) {
        let room = self.room(containers);
        match block {
            Block::Paragraph(text) => {
                self.separate(BlockShape::Flowing, containers, separation);
                let pieces = inline(text.trim_end(), self.base, self.color);
                self.lines(wrap(&pieces, room), containers);
            }
            Block::Heading { level, text } => {
                self.separate(BlockShape::Apart, containers, separation);
                let pieces = self.heading(level, &text);
                self.lines(wrap(&pieces, room), containers);
            }
            Block::Rule => {
                self.separate(BlockShape::Apart, containers, separation);
                let rule = StyledText::new("─".repeat(room.min(40)), self.base.and(TextStyle::DIM));
                self.lines(vec![vec![rule]], containers);
            }
            Block::CodeStart { language } => {
                self.separate(BlockShape::Apart, containers, separation);
                self.code = Some(CodePainter::new(&language, self.color));
            }
            // Long lines are left to the terminal, so that they can be copied.
            Block::CodeLine(line) => {
                let gaps = usize::from(separation == Separation::BlankLine);
                let line = self.code_line(&line);
                self.lines(vec![Vec::new(); gaps], containers);
                self.lines(vec![line], containers);
            }
            Block::CodeEnd => self.code = None,
            Block::Table(table) => {
                self.separate(BlockShape::Apart, containers, separation);
                let lines = table.lines(room, self.base, self.color);
                self.lines(lines, containers);
            }
        }
    }
}
