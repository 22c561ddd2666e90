//! The rows of the table, their bounds, and the summary of the bounds that were missed.

use std::fmt;

use crate::figure::{Pair, Spread, number};

/// One row: what was measured, the figure as text, and how it compares with its bound.
pub(crate) struct Row {
    what: String,
    figure: String,
    bound: Bound,
    verdict: Verdict,
}

/// What a figure is compared with. The text is the unit of the figure.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64, &'static str),
    AtLeast(f64, &'static str),
    /// The figure is shown for comparison only.
    Information,
}

#[derive(Clone, Copy)]
enum Verdict {
    Holds,
    /// The bound was missed with this value.
    Missed(f64),
    /// The base is not available.
    Skipped,
    Information,
}

impl Row {
    /// A figure that is compared with a number.
    pub(crate) fn new(what: impl Into<String>, figure: impl Into<String>, value: f64, bound: Bound) -> Self {
        Self { what: what.into(), figure: figure.into(), bound, verdict: bound.verdict(value) }
    }

    /// A figure in the unit of its bound, measured in several rounds.
    pub(crate) fn spread(what: impl Into<String>, spread: Spread, bound: Bound) -> Self {
        Self::new(what, spread.text(bound.unit()), spread.median, bound)
    }

    /// A ratio to a base, or only our own figure if the base is not available.
    pub(crate) fn ratio(what: impl Into<String>, pair: &Pair, unit: &str, bound: Bound) -> Self {
        match pair.ratio() {
            Some(ratio) => Self::new(what, pair.text(unit), ratio.median, bound),
            None => Self::skipped(what, pair.text(unit), bound),
        }
    }

    /// A figure that cannot be compared with its bound on this machine.
    pub(crate) fn skipped(what: impl Into<String>, figure: impl Into<String>, bound: Bound) -> Self {
        Self { what: what.into(), figure: figure.into(), bound, verdict: Verdict::Skipped }
    }

    /// Whether the bound was missed.
    pub(crate) fn is_missed(&self) -> bool {
        matches!(self.verdict, Verdict::Missed(_))
    }

    fn is_compared(&self) -> bool {
        matches!(self.verdict, Verdict::Holds | Verdict::Missed(_))
    }
}

impl Bound {
    fn verdict(self, value: f64) -> Verdict {
        let holds = match self {
            Self::AtMost(limit, _) => value <= limit,
            Self::AtLeast(limit, _) => value >= limit,
            Self::Information => return Verdict::Information,
        };
        if holds { Verdict::Holds } else { Verdict::Missed(value) }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::AtMost(_, unit) | Self::AtLeast(_, unit) => unit,
            Self::Information => "",
        }
    }

    /// Describes by how much a value misses the bound.
    fn miss(self, value: f64) -> String {
        match self {
            Self::AtMost(limit, _) => format!("{} times the bound", number(value / limit)),
            Self::AtLeast(limit, _) => format!("{} of the bound", number(value / limit)),
            Self::Information => String::new(),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit, unit) => write!(f, "{}", format!("<= {limit} {unit}").trim_end()),
            Self::AtLeast(limit, unit) => write!(f, "{}", format!(">= {limit} {unit}").trim_end()),
            Self::Information => Ok(()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Holds => "holds",
            Verdict::Missed(_) => "MISSED",
            Verdict::Skipped => "skipped",
            Verdict::Information => "information",
        };
        write!(f, "| {} | {} | {} | {verdict} |", self.what, self.figure, self.bound)
    }
}

/// The number of missed bounds, and by how much each was missed.
pub(crate) fn summary(rows: &[Row]) -> String {
    let compared = rows.iter().filter(|row| row.is_compared()).count();
    let skipped = rows.iter().filter(|row| matches!(row.verdict, Verdict::Skipped)).count();
    let missed: Vec<_> = rows.iter().filter_map(missed_by).collect();
    let mut text = format!("missed: {} of {compared} bounds", missed.len());
    if skipped > 0 {
        text += &format!(", {skipped} skipped");
    }
    for line in missed {
        text += &format!("\n- {line}");
    }
    text
}

fn missed_by(row: &Row) -> Option<String> {
    let Verdict::Missed(value) = row.verdict else { return None };
    let figure = format!("{} {}", number(value), row.bound.unit());
    let (figure, bound, miss) = (figure.trim_end(), row.bound, row.bound.miss(value));
    Some(format!("{}: {figure} instead of {bound} ({miss})", row.what))
}
