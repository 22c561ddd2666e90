//! Searching in text: the words that a text is found by, the query language, and excerpts with the matches marked. All
//! stores use it, so that a query finds the same in each of them. Where the text comes from and how it is indexed is up to
//! the store.

mod excerpt;
mod query;
mod words;

pub use excerpt::{Excerpt, ExcerptPart, PartKind};
pub use query::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, QueryError, TermEnd, TextQuery, TextTerm};
pub use words::{TextWord, index_text, words};
