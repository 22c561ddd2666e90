//! A progress bar on stderr, for work that may take long. Without a terminal nothing is shown.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::target::OutputTarget;

/// Work of fewer steps is done before anybody could look.
const FEW: usize = 100;

/// How often the bar is drawn, per second.
const DRAWS: u8 = 10;

/// A progress bar. It disappears on drop.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows a bar for this many steps.
    pub(crate) fn new(what: &'static str, steps: usize) -> Self {
        let target = match OutputTarget::stderr() {
            OutputTarget::Terminal { .. } if steps >= FEW => ProgressDrawTarget::stderr_with_hz(DRAWS),
            OutputTarget::Terminal { .. } | OutputTarget::Plain => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Notes that a step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
