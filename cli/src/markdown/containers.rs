//! The quotes and list items that a block is inside: which of them a line continues, and what is printed before its lines.

use super::marks::{ItemMark, indent_of, quoted};
use super::style::{StyledText, TextStyle};
use crate::output::width::{padded, width};

/// A quote or a list item that is open.
#[derive(Debug)]
pub(crate) struct Container {
    kind: ContainerKind,
    /// Whether a block inside was printed.
    used: Used,
}

#[derive(Debug)]
enum ContainerKind {
    Quote,
    Item {
        /// The column where its text begins.
        content: usize,
        /// Printed before its first line.
        marker: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Yes,
    No,
}

/// The open containers, the outermost first.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    open: Vec<Container>,
}

impl Containers {
    /// How many are open.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether one of them is a list item.
    pub(crate) fn has_item(&self) -> bool {
        self.open.iter().any(|open| matches!(open.kind, ContainerKind::Item { .. }))
    }

    /// The number of containers that a line continues, and the rest of the line.
    pub(crate) fn matching<'a>(&self, line: &'a str) -> (usize, &'a str) {
        let mut rest = line;
        for (at, container) in self.open.iter().enumerate() {
            rest = match &container.kind {
                ContainerKind::Quote => match quoted(rest) {
                    Some(inside) => inside,
                    None => return (at, rest),
                },
                ContainerKind::Item { .. } if rest.trim().is_empty() => rest,
                ContainerKind::Item { content, .. } if indent_of(rest) >= *content => &rest[*content..],
                ContainerKind::Item { .. } => return (at, rest),
            };
        }
        (self.open.len(), rest)
    }

    /// Closes all but the first ones.
    pub(crate) fn close_to(&mut self, depth: usize) {
        self.open.truncate(depth);
    }

    /// Opens a quote.
    pub(crate) fn open_quote(&mut self) {
        self.open.push(Container { kind: ContainerKind::Quote, used: Used::No });
    }

    /// Opens a list item.
    pub(crate) fn open_item(&mut self, mark: ItemMark, marker: String) {
        let kind = ContainerKind::Item { content: mark.content, marker };
        self.open.push(Container { kind, used: Used::No });
    }

    /// The columns that the prefix takes.
    pub(crate) fn width(&self) -> usize {
        self.open.iter().map(Container::width).sum()
    }

    /// What is printed before the next line; a marker is printed once.
    pub(crate) fn prefix(&mut self) -> Vec<StyledText> {
        self.open.iter_mut().map(Container::prefix).collect()
    }

    /// What is printed in an empty line between blocks: the marks of quotes that go on.
    pub(crate) fn gap(&self) -> Vec<StyledText> {
        let going_on = self.open.iter().take_while(|open| open.used == Used::Yes);
        let mut gap: Vec<StyledText> = going_on.map(Container::blank).collect();
        while gap.last().is_some_and(|last| last.text.trim().is_empty()) {
            gap.pop();
        }
        gap
    }
}

impl Container {
    fn width(&self) -> usize {
        match &self.kind {
            ContainerKind::Quote => 2,
            ContainerKind::Item { marker, .. } => width(marker) + 1,
        }
    }

    fn blank(&self) -> StyledText {
        match &self.kind {
            ContainerKind::Quote => StyledText::new("│ ", TextStyle::DIM),
            ContainerKind::Item { .. } => StyledText::new(" ".repeat(self.width()), TextStyle::PLAIN),
        }
    }

    fn prefix(&mut self) -> StyledText {
        let used = std::mem::replace(&mut self.used, Used::Yes);
        match &self.kind {
            ContainerKind::Item { marker, .. } if used == Used::No => {
                StyledText::new(padded(marker, self.width()), TextStyle::PLAIN)
            }
            ContainerKind::Item { .. } | ContainerKind::Quote => self.blank(),
        }
    }
}
