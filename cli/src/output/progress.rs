//! Progress bars on a terminal. They are written to stderr, appear only if the work takes a while, and are gone when it is
//! done.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rethread::store::{IndexProgress, ProgressCallback};

/// How long work may take before a bar appears.
const APPEARS_AFTER: Duration = Duration::from_millis(200);

/// How often the bar is drawn in a second.
const DRAWS_PER_SECOND: u8 = 10;

/// A callback that shows a bar with this label, such as `Indexing`.
pub(crate) fn progress_bar(label: &'static str) -> ProgressCallback {
    if !stderr().is_terminal() {
        return Box::new(|_| {});
    }
    let began = Instant::now();
    let mut bar: Option<ShownBar> = None;
    Box::new(move |progress| {
        if bar.is_none() && began.elapsed() > APPEARS_AFTER && progress.done < progress.total {
            bar = Some(ShownBar::new(label, progress));
        }
        if let Some(bar) = &bar {
            bar.show(progress);
        }
    })
}

/// A bar that is removed when it is dropped.
struct ShownBar(ProgressBar);

impl ShownBar {
    /// Shows the progress from the first drawing on.
    fn new(label: &'static str, progress: IndexProgress) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(Some(progress.total as u64), target);
        let bar = bar.with_position(progress.done as u64);
        let template = "{prefix} {wide_bar} {pos}/{len} sessions";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(label);
        Self(bar)
    }

    fn show(&self, progress: IndexProgress) {
        self.0.set_length(progress.total as u64);
        self.0.set_position(progress.done as u64);
    }
}

impl Drop for ShownBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
