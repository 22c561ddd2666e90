//! A table that fits the width of a terminal: columns are made narrower where they allow it.

use super::escape::visible;
use super::target::{OutputTarget, Paint};
use super::width::{cut_end, cut_start, padded, padded_left, width};

/// The space between two columns.
const GAP: usize = 2;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// The text above it.
    pub(crate) header: &'static str,
    /// What is cut off if there is no room.
    pub(crate) cut: Cut,
}

/// What is cut off a text that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing: the column keeps its width. Numbers, which are aligned on the right.
    Number,
    /// Nothing: the column keeps its width.
    Nothing,
    /// The end, but this many columns are kept.
    End(usize),
    /// The beginning, but this many columns are kept.
    Start(usize),
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A cell with a text, which may be hostile.
    pub(crate) fn new(text: &str) -> Self {
        Self::painted(text, Paint::Normal)
    }

    /// A cell in a colour.
    pub(crate) fn painted(text: &str, paint: Paint) -> Self {
        Self { text: visible(text).into_owned(), paint }
    }
}

/// Makes the lines of a table. A column whose cells are all empty is left out.
pub(crate) fn table(target: OutputTarget, columns: &[Column], rows: &[Vec<Cell>]) -> String {
    let used: Vec<usize> = (0..columns.len())
        .filter(|at| rows.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.text.is_empty())))
        .collect();
    let columns: Vec<Column> = used.iter().map(|at| columns[*at]).collect();
    let header = columns.iter().map(|column| Cell::painted(column.header, Paint::Dim)).collect();
    let cells = |row: &Vec<Cell>| used.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
    let rows: Vec<Vec<Cell>> = std::iter::once(header).chain(rows.iter().map(cells)).collect();
    let widths = fit(&columns, &rows, target.width());
    rows.iter().map(|row| line(target, &columns, &widths, row) + "\n").collect()
}

/// The widths of the columns, made narrower until a line fits or nothing more can be cut.
fn fit(columns: &[Column], rows: &[Vec<Cell>], max: usize) -> Vec<usize> {
    let widest = |at: usize| rows.iter().map(|row| width(&row[at].text)).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > max {
        let spare = |at: &usize| match columns[*at].cut {
            Cut::Number | Cut::Nothing => 0,
            Cut::End(least) | Cut::Start(least) => widths[*at].saturating_sub(least),
        };
        // The column that is widest gives way first; of equal ones the last.
        let Some(at) = (0..columns.len()).filter(|at| spare(at) > 0).max_by_key(|at| widths[*at]) else {
            break;
        };
        widths[at] -= 1;
    }
    widths
}

fn line(target: OutputTarget, columns: &[Column], widths: &[usize], row: &[Cell]) -> String {
    let (mut line, mut room) = (String::new(), target.width());
    for (at, (cell, column)) in row.iter().zip(columns).enumerate() {
        let max = widths[at].min(room);
        let text = match column.cut {
            Cut::Start(_) => cut_start(&cell.text, max),
            Cut::Number | Cut::Nothing | Cut::End(_) => cut_end(&cell.text, max),
        };
        let last = at + 1 == row.len();
        let space = match column.cut {
            Cut::Number => padded_left("", max.saturating_sub(width(&text))),
            Cut::Nothing | Cut::End(_) | Cut::Start(_) if last => String::new(),
            Cut::Nothing | Cut::End(_) | Cut::Start(_) => padded("", max.saturating_sub(width(&text))),
        };
        let text = target.paint(cell.paint, &text);
        match column.cut {
            Cut::Number => line += &(space + &text),
            Cut::Nothing | Cut::End(_) | Cut::Start(_) => line += &(text + &space),
        }
        room = room.saturating_sub(max + GAP);
        if last || room == 0 {
            break;
        }
        line += &" ".repeat(GAP);
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::target::Color;
    use super::*;

    fn check(width: usize, rows: &[[&str; 4]], expected: &Expect) {
        let columns = [
            Column { header: "age", cut: Cut::Number },
            Column { header: "agent", cut: Cut::End(4) },
            Column { header: "directory", cut: Cut::Start(6) },
            Column { header: "title", cut: Cut::End(8) },
        ];
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.map(Cell::new).to_vec()).collect();
        let text = table(OutputTarget::Terminal { width, color: Color::Off }, &columns, &rows);
        assert!(text.lines().all(|line| super::width(line) <= width), "{text}");
        expected.assert_eq(&text);
    }

    const ROWS: [[&str; 4]; 3] = [
        ["5 min", "Claude Code", "/home/me/project", "Fix the parser of the configuration file"],
        ["12 h", "Codex", "/src", "日本語のタイトルです 👩\u{200d}🚀"],
        ["now", "gemini", "/a/b/c/d/e/f/g", "\u{1b}[2Jgone\u{202e}"],
    ];

    #[test]
    fn what_fits_is_not_cut() {
        check(
            100,
            &ROWS,
            &expect![[r#"
                  age  agent        directory         title
                5 min  Claude Code  /home/me/project  Fix the parser of the configuration file
                 12 h  Codex        /src              日本語のタイトルです 👩‍🚀
                  now  gemini       /a/b/c/d/e/f/g    \u{1b}[2Jgone\u{202e}
            "#]],
        );
    }

    #[test]
    fn wide_columns_give_way() {
        check(
            50,
            &ROWS,
            &expect![[r#"
                  age  agent        directory       title
                5 min  Claude Code  …me/me/project  Fix the parse…
                 12 h  Codex        /src            日本語のタイ…
                  now  gemini       /a/b/c/d/e/f/g  \u{1b}[2Jgone…
            "#]],
        );
        check(
            24,
            &ROWS,
            &expect![[r#"
                  age  age…  …ctory  ti…
                5 min  Cla…  …oject  Fi…
                 12 h  Cod…  /src    日…
                  now  gem…  …e/f/g  \u…
            "#]],
        );
        check(
            7,
            &ROWS,
            &expect![[r#"
                  age
                5 min
                 12 h
                  now
            "#]],
        );
    }

    #[test]
    fn empty_columns_are_left_out() {
        check(
            80,
            &[["1", "", "", "x"], ["2", "", "", "y"]],
            &expect![[r#"
                age  title
                  1  x
                  2  y
            "#]],
        );
    }
}
