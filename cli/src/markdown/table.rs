//! Lays out a Markdown table for a width: columns get narrower and their cells are wrapped; if that does not help, each row
//! becomes a list of its cells.

use super::inline::inline;
use super::marks::Alignment;
use super::style::{StyledText, TextStyle};
use super::wrap::wrap;
use crate::output::target::Color;
use crate::output::width::width;

/// The least width of a column that is made narrower.
const NARROWEST: usize = 8;
/// Between two columns.
const BETWEEN: &str = " │ ";

/// A table as it was written.
#[derive(Debug)]
pub(crate) struct MarkdownTable {
    pub(crate) head: Vec<String>,
    pub(crate) columns: Vec<Alignment>,
    pub(crate) rows: Vec<Vec<String>>,
}

type StyledLine = Vec<StyledText>;

impl MarkdownTable {
    /// The lines of the table.
    pub(crate) fn lines(&self, max: usize, base: TextStyle, color: Color) -> Vec<StyledLine> {
        let cell = |text: Option<&String>, style: TextStyle| {
            inline(text.map_or("", String::as_str), base.and(style), color)
        };
        let row = |row: &Vec<String>, style: TextStyle| -> Vec<StyledLine> {
            (0..self.columns.len()).map(|at| cell(row.get(at), style)).collect()
        };
        let head = row(&self.head, TextStyle::BOLD);
        let rows: Vec<_> = self.rows.iter().map(|cells| row(cells, TextStyle::PLAIN)).collect();
        match self.widths(&head, &rows, max) {
            Some(widths) => self.grid(&head, &rows, &widths),
            None => records(&head, &rows, max),
        }
    }

    /// The widths of the columns; nothing if they cannot fit.
    fn widths(&self, head: &[StyledLine], rows: &[Vec<StyledLine>], max: usize) -> Option<Vec<usize>> {
        let widest = |at: usize| {
            let cells = rows.iter().map(|row| &row[at]).chain([&head[at]]);
            cells.map(|cell| line_width(cell)).max().unwrap_or(0).max(1)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let max = max.checked_sub(width(BETWEEN) * self.columns.len().saturating_sub(1))?;
        while widths.iter().sum::<usize>() > max {
            let at = (0..widths.len()).max_by_key(|at| widths[*at]).filter(|at| widths[*at] > NARROWEST)?;
            widths[at] -= 1;
        }
        Some(widths)
    }

    fn grid(&self, head: &[StyledLine], rows: &[Vec<StyledLine>], widths: &[usize]) -> Vec<StyledLine> {
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("─┼─");
        let mut lines = self.row(head, widths);
        lines.push(vec![StyledText::new(rule, TextStyle::DIM)]);
        lines.extend(rows.iter().flat_map(|row| self.row(row, widths)));
        lines
    }

    fn row(&self, cells: &[StyledLine], widths: &[usize]) -> Vec<StyledLine> {
        let cells: Vec<Vec<StyledLine>> =
            cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let empty = StyledLine::new();
        (0..height)
            .map(|line| {
                let mut pieces = StyledLine::new();
                for (at, cell) in cells.iter().enumerate() {
                    let between = if at > 0 { BETWEEN } else { "" };
                    pieces.push(StyledText::new(between, TextStyle::DIM));
                    pieces.extend(aligned(cell.get(line).unwrap_or(&empty), widths[at], self.columns[at]));
                }
                trimmed(pieces)
            })
            .collect()
    }
}

fn line_width(line: &[StyledText]) -> usize {
    let lines = line.iter().flat_map(|piece| piece.text.split('\n'));
    if line.iter().any(|piece| piece.text.contains('\n')) {
        lines.map(width).max().unwrap_or(0)
    } else {
        line.iter().map(|piece| width(&piece.text)).sum()
    }
}

fn aligned(cell: &[StyledText], to: usize, alignment: Alignment) -> StyledLine {
    let space = to.saturating_sub(line_width(cell));
    let before = match alignment {
        Alignment::Left => 0,
        Alignment::Center => space / 2,
        Alignment::Right => space,
    };
    let blank = |length: usize| StyledText::new(" ".repeat(length), TextStyle::PLAIN);
    [blank(before)].into_iter().chain(cell.to_vec()).chain([blank(space - before)]).collect()
}

/// Takes the spaces off the end of a line.
fn trimmed(mut line: StyledLine) -> StyledLine {
    while let Some(last) = line.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        line.pop();
    }
    line
}

/// Each row as lines `head: cell`.
fn records(head: &[StyledLine], rows: &[Vec<StyledLine>], max: usize) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            lines.push(StyledLine::new());
        }
        for (name, cell) in head.iter().zip(row) {
            let colon = StyledText::new(": ", TextStyle::PLAIN);
            let line: StyledLine = name.iter().cloned().chain([colon]).chain(cell.iter().cloned()).collect();
            lines.extend(wrap(&line, max));
        }
    }
    lines
}
