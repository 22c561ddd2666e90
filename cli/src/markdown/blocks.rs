//! Takes Markdown apart line by line, and tells of each block as soon as it is finished: of a paragraph or a table when
//! another line shows that it has ended, of headings and of each line of code at once.

use super::containers::Containers;
use super::marks::{self, Alignment, Fence, cells};
use super::table::MarkdownTable;

/// A longer paragraph or table is printed in parts, so that memory is bounded.
const MAX_BLOCK_BYTES: usize = 256 * 1024;

/// Marks of quotes and items that are nested deeper are text.
const MAX_DEPTH: usize = 24;

/// A finished block.
#[derive(Debug)]
pub(crate) enum Block {
    Paragraph(String),
    Heading { level: usize, text: String },
    Rule,
    CodeStart { language: String },
    CodeLine(String),
    CodeEnd,
    Table(MarkdownTable),
}

/// Receives finished blocks.
pub(crate) trait BlockSink {
    /// Takes a block that is inside these containers.
    fn block(&mut self, block: Block, containers: &mut Containers, separation: Separation);
}

/// What was between a block and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// An empty line.
    BlankLine,
    /// Nothing.
    None,
}

/// The block that is not finished.
#[derive(Debug)]
enum Leaf {
    None,
    Paragraph(String),
    Fenced(Fence),
    Indented,
    Table { table: MarkdownTable, bytes: usize },
}

/// Takes the lines of one document.
#[derive(Debug)]
pub(crate) struct BlockReader {
    containers: Containers,
    leaf: Leaf,
    separation: Separation,
}

impl Default for BlockReader {
    fn default() -> Self {
        Self { containers: Containers::default(), leaf: Leaf::None, separation: Separation::None }
    }
}

impl BlockReader {
    /// The text of the paragraph that is not finished.
    pub(crate) fn open_text(&self) -> &str {
        match &self.leaf {
            Leaf::Paragraph(text) => text,
            Leaf::None | Leaf::Fenced(_) | Leaf::Indented | Leaf::Table { .. } => "",
        }
    }

    /// Takes the next line, without its line end.
    pub(crate) fn line(&mut self, line: &str, sink: &mut impl BlockSink) {
        let (matched, rest) = self.containers.matching(line);
        if matched < self.containers.depth() {
            if self.continues_lazily(rest) {
                return self.paragraph(rest, sink);
            }
            self.end_leaf(sink);
            self.containers.close_to(matched);
        }
        match &self.leaf {
            Leaf::Fenced(fence) if fence.is_closed_by(rest) => self.end_leaf(sink),
            Leaf::Fenced(fence) => {
                let code = &rest[marks::indent_of(rest).min(fence.indent)..];
                self.tell(Block::CodeLine(code.to_owned()), sink);
            }
            Leaf::None | Leaf::Paragraph(_) | Leaf::Indented | Leaf::Table { .. } => {
                self.unfenced(rest, sink);
            }
        }
    }

    /// Ends what is open.
    pub(crate) fn finish(&mut self, sink: &mut impl BlockSink) {
        self.end_leaf(sink);
        self.containers.close_to(0);
    }

    /// A paragraph goes on in a line without the marks of its quotes and items.
    fn continues_lazily(&self, rest: &str) -> bool {
        let starts_block = rest.trim().is_empty()
            || marks::heading(rest).is_some()
            || marks::fence(rest).is_some()
            || marks::is_rule(rest)
            || marks::quoted(rest).is_some()
            || marks::item(rest).is_some();
        matches!(self.leaf, Leaf::Paragraph(_)) && !starts_block
    }

    fn unfenced(&mut self, line: &str, sink: &mut impl BlockSink) {
        let rest = self.open_containers(line, sink);
        let rest = rest.as_str();
        if rest.trim().is_empty() {
            self.end_leaf(sink);
            self.separation = Separation::BlankLine;
            return;
        }
        match &self.leaf {
            Leaf::Paragraph(text) => {
                if let Some(level) = marks::underline(rest).filter(|_| !text.trim().is_empty()) {
                    return self.underlined(level, sink);
                }
                if let Some(columns) = table_below(text, rest) {
                    return self.begin_table(columns, sink);
                }
            }
            Leaf::Table { .. } if rest.contains('|') => return self.table_row(rest, sink),
            Leaf::Table { .. } | Leaf::None | Leaf::Indented | Leaf::Fenced(_) => {}
        }
        self.leaf_line(rest, sink);
    }

    /// Opens the quotes and list items that begin in this line; returns the rest.
    fn open_containers(&mut self, line: &str, sink: &mut impl BlockSink) -> String {
        let mut rest = line.to_owned();
        while self.containers.depth() < MAX_DEPTH {
            let inside_paragraph = matches!(self.leaf, Leaf::Paragraph(_));
            if let Some(inside) = marks::quoted(&rest) {
                let inside = inside.to_owned();
                self.end_leaf(sink);
                self.containers.open_quote();
                rest = inside;
                continue;
            }
            let item = marks::item(&rest).filter(|mark| {
                let has_text = rest.len() > mark.content;
                let interrupts = has_text && mark.number.is_none_or(|number| number == 1);
                !marks::is_rule(&rest) && (!inside_paragraph || interrupts || self.containers.has_item())
            });
            let underlines = inside_paragraph && marks::underline(&rest).is_some();
            let Some(mark) = item.filter(|_| !underlines) else { return rest };
            self.end_leaf(sink);
            let inside = rest.get(mark.content..).unwrap_or_default();
            let (inside, marker) = match task(inside) {
                Some((marker, inside)) => (inside, marker.to_owned()),
                None => (inside, mark.marker.clone()),
            };
            let inside = inside.to_owned();
            self.containers.open_item(mark, marker);
            rest = inside;
        }
        rest
    }

    fn leaf_line(&mut self, rest: &str, sink: &mut impl BlockSink) {
        if let Some(fence) = marks::fence(rest) {
            self.end_leaf(sink);
            self.tell(Block::CodeStart { language: fence.language.clone() }, sink);
            self.leaf = Leaf::Fenced(fence);
        } else if let Some((level, text)) = marks::heading(rest) {
            self.end_leaf(sink);
            self.tell(Block::Heading { level, text: text.to_owned() }, sink);
        } else if marks::is_rule(rest) {
            self.end_leaf(sink);
            self.tell(Block::Rule, sink);
        } else if marks::indent_of(rest) >= 4 && !matches!(self.leaf, Leaf::Paragraph(_)) {
            self.indented(&rest[4..], sink);
        } else {
            self.paragraph(rest, sink);
        }
    }

    fn indented(&mut self, code: &str, sink: &mut impl BlockSink) {
        if !matches!(self.leaf, Leaf::Indented) {
            self.end_leaf(sink);
            self.tell(Block::CodeStart { language: String::new() }, sink);
            self.leaf = Leaf::Indented;
        }
        self.tell(Block::CodeLine(code.to_owned()), sink);
    }

    fn paragraph(&mut self, rest: &str, sink: &mut impl BlockSink) {
        if let Leaf::Paragraph(text) = &mut self.leaf {
            text.push('\n');
            // Spaces at the end of a line force a break.
            text.push_str(rest.trim_start());
            if text.len() > MAX_BLOCK_BYTES {
                self.end_leaf(sink);
            }
            return;
        }
        self.end_leaf(sink);
        self.leaf = Leaf::Paragraph(rest.trim_start().to_owned());
    }

    fn underlined(&mut self, level: usize, sink: &mut impl BlockSink) {
        if let Leaf::Paragraph(text) = std::mem::replace(&mut self.leaf, Leaf::None) {
            self.tell(Block::Heading { level, text }, sink);
        }
    }

    fn begin_table(&mut self, columns: Vec<Alignment>, sink: &mut impl BlockSink) {
        let Leaf::Paragraph(text) = std::mem::replace(&mut self.leaf, Leaf::None) else { return };
        let (before, head) = text.rsplit_once('\n').map_or((None, text.as_str()), |(a, b)| (Some(a), b));
        if let Some(before) = before {
            self.tell(Block::Paragraph(before.to_owned()), sink);
        }
        let table = MarkdownTable { head: cells(head), columns, rows: Vec::new() };
        self.leaf = Leaf::Table { table, bytes: 0 };
    }

    fn table_row(&mut self, line: &str, sink: &mut impl BlockSink) {
        let Leaf::Table { table, bytes } = &mut self.leaf else { return };
        table.rows.push(cells(line));
        *bytes += line.len();
        if *bytes > MAX_BLOCK_BYTES {
            let (head, columns) = (table.head.clone(), table.columns.clone());
            self.end_leaf(sink);
            let table = MarkdownTable { head, columns, rows: Vec::new() };
            self.leaf = Leaf::Table { table, bytes: 0 };
        }
    }

    fn end_leaf(&mut self, sink: &mut impl BlockSink) {
        match std::mem::replace(&mut self.leaf, Leaf::None) {
            Leaf::None => {}
            Leaf::Paragraph(text) => self.tell(Block::Paragraph(text), sink),
            Leaf::Fenced(_) | Leaf::Indented => self.tell(Block::CodeEnd, sink),
            Leaf::Table { table, .. } => self.tell(Block::Table(table), sink),
        }
    }

    fn tell(&mut self, block: Block, sink: &mut impl BlockSink) {
        let separation = std::mem::replace(&mut self.separation, Separation::None);
        sink.block(block, &mut self.containers, separation);
    }
}

/// The columns of a table whose head is the last line of a paragraph.
fn table_below(paragraph: &str, line: &str) -> Option<Vec<Alignment>> {
    let head = paragraph.lines().next_back().filter(|head| head.contains('|'))?;
    let columns = marks::table_columns(line)?;
    (cells(head).len() == columns.len()).then_some(columns)
}

/// The box of a task, and the text behind it.
fn task(text: &str) -> Option<(&'static str, &str)> {
    let boxes = [("[ ] ", "☐"), ("[x] ", "☑"), ("[X] ", "☑")];
    boxes.into_iter().find_map(|(mark, shown)| Some((shown, text.strip_prefix(mark)?)))
}
