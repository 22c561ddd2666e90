//! Searches for the beginnings of words among the newest messages. FTS5 reads all places of all words with a beginning before it
//! gives the first hit, which takes seconds for one or two letters; but such words are in most messages, so that a look at
//! a few of the newest finds enough of them.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rethread_core::search::{TermEnd, TextQuery, TextTerm};
use rusqlite::Connection;

use super::IndexFault;
use super::find::{HitCollector, message_if, text_expression};
use crate::store::search::{EXCERPT_BYTES, MessagePlace};

/// How many letters a short beginning has. Most longer ones are found quickly by FTS5.
const SHORT: usize = 2;
const LIMIT_FOR_SHORT: Duration = Duration::from_millis(40);
const LIMIT_FOR_LONG: Duration = Duration::from_millis(8);
/// After how many messages the clock is read.
const STEP: usize = 16;

/// How a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanEnd {
    /// The page is full, or there are no more messages.
    Complete,
    /// It is not known what is before this place.
    StoppedAt(MessagePlace),
}

impl HitCollector<'_> {
    /// Looks at the newest messages that have everything except the beginnings of words, for a short time.
    pub(super) fn scan_newest(
        &mut self,
        connection: &Connection,
        scope: &[String],
        before: MessagePlace,
    ) -> Result<ScanEnd, IndexFault> {
        let text = self.query().text.clone();
        let Some(limit) = scan_limit(&text) else { return Ok(ScanEnd::StoppedAt(before)) };
        let whole: Vec<&TextTerm> = text.terms().iter().filter(|term| term.end == TermEnd::Whole).collect();
        let condition =
            (!whole.is_empty()).then(|| format!("{{text}} : ({})", text_expression(whole.iter().copied())));
        let expression = condition.into_iter().chain(scope.iter().cloned()).collect::<Vec<_>>().join(" AND ");
        let (until, mut seen, mut end) = (Instant::now() + limit, 0_usize, ScanEnd::Complete);
        self.each_place(connection, &expression, before, |hits, place| {
            seen += 1;
            if seen.is_multiple_of(STEP) && Instant::now() > until {
                end = ScanEnd::StoppedAt(MessagePlace(place.0.saturating_add(1)));
                return Ok(ControlFlow::Break(()));
            }
            let excerpt = |found: &str| text.matches(found).then(|| text.excerpt(found, EXCERPT_BYTES));
            match message_if(connection, place, excerpt)? {
                Some(found) => hits.offer(found),
                None => Ok(ControlFlow::Continue(())),
            }
        })?;
        Ok(end)
    }
}

/// How long it is worth to look: not at all if there are only whole words.
fn scan_limit(query: &TextQuery) -> Option<Duration> {
    let beginnings = query.terms().iter().filter(|term| term.end == TermEnd::Prefix);
    let letters = |term: &TextTerm| term.words.last().map_or(0, |word| word.chars().count());
    match beginnings.map(letters).min()? {
        0..=SHORT => Some(LIMIT_FOR_SHORT),
        _ => Some(LIMIT_FOR_LONG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_of_words_are_looked_for() {
        let limit = |query: &str| scan_limit(&TextQuery::parse(query).expect("a query"));
        assert_eq!([limit("word"), limit("\"two words\"")], [None, None]);
        assert_eq!([limit("a* word"), limit("word*")], [Some(LIMIT_FOR_SHORT), Some(LIMIT_FOR_LONG)]);
    }
}
