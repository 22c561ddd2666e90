//! Tokens in a store that several hosts share, so that all of them know the same. What a token is worth is for those who check it.

use super::StoreFuture;

/// The tokens of a store.
pub trait TokenLedger: Send + Sync + 'static {
    /// Returns all tokens, oldest first.
    fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>>;

    /// Adds a token. One with the same id is replaced.
    fn add_token(&self, token: TokenRecord) -> StoreFuture<'_, ()>;

    /// Removes a token, and returns it if it was there.
    fn remove_token(&self, id: &str) -> StoreFuture<'_, Option<TokenRecord>>;
}

/// A token as a store has it: never its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Names the token; not secret.
    pub id: String,
    /// What is known of it, in JSON.
    pub record: String,
}
