//! What is known of the tokens, and until when each works by a clock that nobody can set: a clock that is set forward or back ends
//! no token early and keeps none for ever.

use std::collections::{HashMap, HashSet};

use rethread::clock;
use subtle::ConstantTimeEq;

use crate::token_file::FileStamp;
use crate::tokens::StoredToken;

/// What was read last.
#[derive(Debug, Default)]
pub(crate) struct KnownTokens {
    /// The version of the file that it was read from.
    pub(crate) stamp: FileStamp,
    /// When a store was asked last and when it answered last, in milliseconds since the machine started.
    pub(crate) asked_at: Option<u64>,
    pub(crate) read_at: Option<u64>,
    tokens: Vec<StoredToken>,
    /// By the id of the token, in milliseconds since the machine started.
    deadlines: HashMap<String, u64>,
}

/// The current time by both clocks, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenTime {
    pub(crate) since_1970: u64,
    pub(crate) since_boot: u64,
}

impl TokenTime {
    pub(crate) fn now() -> Self {
        Self { since_1970: clock::now(), since_boot: clock::since_boot().0 }
    }

    pub(crate) fn after(self, milliseconds: u64) -> Self {
        Self { since_1970: self.since_1970 + milliseconds, since_boot: self.since_boot + milliseconds }
    }
}

impl KnownTokens {
    /// Takes what there is now. A token that is new here works for what is left of its time, and never for longer than it was
    /// made for, whatever the clock shows.
    pub(crate) fn replace(&mut self, tokens: Vec<StoredToken>, now: TokenTime) {
        let mut deadlines = HashMap::new();
        for token in &tokens {
            let Some(expires) = token.expires else { continue };
            let left = expires.saturating_sub(now.since_1970).min(expires.saturating_sub(token.created));
            let known = self.deadlines.get(&token.id).copied();
            deadlines.insert(token.id.clone(), known.unwrap_or(now.since_boot.saturating_add(left)));
        }
        (self.tokens, self.deadlines) = (tokens, deadlines);
    }

    /// The token with this hash, if it works.
    pub(crate) fn find(&self, hash: &str, now: TokenTime) -> Option<StoredToken> {
        let mut found = None;
        // All of them are compared, each in constant time: the time says nothing of which one it was.
        for token in &self.tokens {
            if bool::from(token.hash.as_bytes().ct_eq(hash.as_bytes())) {
                found = Some(token);
            }
        }
        found.filter(|token| self.works(token, now)).cloned()
    }

    /// The ids of the tokens that work.
    pub(crate) fn working(&self, now: TokenTime) -> HashSet<String> {
        let working = self.tokens.iter().filter(|token| self.works(token, now));
        working.map(|token| token.id.clone()).collect()
    }

    fn works(&self, token: &StoredToken, now: TokenTime) -> bool {
        self.deadlines.get(&token.id).is_none_or(|deadline| now.since_boot < *deadline)
    }
}
