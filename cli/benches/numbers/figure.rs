//! Figures of several rounds: medians, spreads, and ratios to a base that was measured in the same rounds.

/// The median of several rounds, with the lowest and the highest figure.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    /// The spread of at least one figure.
    pub(crate) fn of(figures: &[f64]) -> Self {
        let at = |share| percentile(figures, share);
        Self { median: at(0.5), low: at(0.0), high: at(1.0) }
    }

    /// The median with the spread in parentheses.
    pub(crate) fn text(self, unit: &str) -> String {
        let median = format!("{} {unit}", number(self.median));
        format!("{} ({})", median.trim_end(), self.range())
    }

    fn range(self) -> String {
        format!("{}-{}", number(self.low), number(self.high))
    }
}

/// Our figures and those of a base, one of each per round.
#[derive(Default)]
pub(crate) struct Pair {
    ours: Vec<f64>,
    base: Vec<f64>,
}

impl Pair {
    /// Adds a round. Either all rounds have a base or none.
    pub(crate) fn push(&mut self, ours: f64, base: Option<f64>) {
        self.ours.push(ours);
        self.base.extend(base);
    }

    /// Whether no round was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.ours.is_empty()
    }

    /// The median of our figures.
    pub(crate) fn our_median(&self) -> f64 {
        median(&self.ours)
    }

    /// Our figure divided by that of the base, for each round.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.base).map(|(ours, base)| ours / base).collect();
        (!ratios.is_empty()).then(|| Spread::of(&ratios))
    }

    /// The ratio with its spread and both medians, or our figure alone if there is no base.
    pub(crate) fn text(&self, unit: &str) -> String {
        let ours = Spread::of(&self.ours);
        let Some(ratio) = self.ratio() else { return ours.text(unit) };
        let base = number(Spread::of(&self.base).median);
        let ours = number(ours.median);
        format!("{} ({}; {ours} {unit} against {base} {unit})", number(ratio.median), ratio.range())
    }
}

/// The median of many samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

/// The sample below which this share of the samples is.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
