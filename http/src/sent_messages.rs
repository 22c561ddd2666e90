//! What a client has sent and may have to send again: a server that is reached again says how many messages it has taken.

use std::collections::VecDeque;

use bytes::Bytes;

/// How many bytes are kept.
const MOST_KEPT: usize = 8 * 1024 * 1024;

/// The newest messages of a client, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct SentMessages {
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// How many are not kept any more.
    dropped: u64,
}

impl SentMessages {
    /// Keeps one more.
    pub(crate) fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.kept.push_back(message);
        while self.bytes > MOST_KEPT && self.kept.len() > 1 {
            if let Some(oldest) = self.kept.pop_front() {
                self.bytes -= oldest.len();
                self.dropped += 1;
            }
        }
    }

    /// What was sent after the first so many; nothing if that is not kept any more.
    pub(crate) fn after(&self, taken: u64) -> Option<Vec<Bytes>> {
        let skipped = usize::try_from(taken.checked_sub(self.dropped)?).ok()?;
        (skipped <= self.kept.len()).then(|| self.kept.range(skipped..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_sent_again() {
        let mut sent = SentMessages::default();
        for text in ["one", "two", "three"] {
            sent.push(text.into());
        }
        assert_eq!(sent.after(1).unwrap(), ["two", "three"]);
        assert!(sent.after(3).unwrap().is_empty());
        assert_eq!(sent.after(4), None, "more than was sent");
        for _ in 0..3 {
            sent.push(vec![b'x'; MOST_KEPT / 2].into());
        }
        assert_eq!(sent.after(1), None, "too old");
        assert!(sent.after(5).is_some());
    }
}
