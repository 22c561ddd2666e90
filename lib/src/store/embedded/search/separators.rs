//! FTS5 has a table of the first words of its pages, shortened to what tells them from the words before. Erasing a word leaves
//! it there: this replaces what begins with an erased word, or is the beginning of one, by a word that is still in use.

use std::collections::BTreeSet;

use rethread_core::search::words;
use rusqlite::{OptionalExtension as _, Transaction, params};

/// The byte with which words of the main index begin in that table.
const MAIN_INDEX: u8 = b'0';

/// The words that were erased.
#[derive(Debug, Default)]
pub(super) struct Separators {
    erased: BTreeSet<String>,
}

impl Separators {
    /// Notes the words of a text that was erased.
    pub(super) fn note(&mut self, text: &str) {
        for word in words(text) {
            self.erased.insert(word.form);
        }
    }

    /// Replaces what is left of erased words.
    pub(super) fn replace(&self, tx: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.erased.is_empty() {
            return Ok(());
        }
        let mut statement = tx.prepare_cached("SELECT segid, term FROM word_idx WHERE length(term) > 1")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let found = rows.collect::<Result<Vec<_>, _>>()?;
        for (segment, separator) in found.into_iter().filter(|(_, separator)| self.may_be_left(separator)) {
            replace_one(tx, segment, &separator)?;
        }
        Ok(())
    }

    /// Returns whether an erased word begins with this separator.
    fn may_be_left(&self, separator: &[u8]) -> bool {
        let Some((&MAIN_INDEX, word)) = separator.split_first() else { return false };
        let word = String::from_utf8_lossy(word);
        let word = word.trim_end_matches(char::REPLACEMENT_CHARACTER);
        self.erased.range(word.to_owned()..).next().is_some_and(|erased| erased.starts_with(word))
    }
}

/// Any word from the separator up to the first word of its page will do: the next one that is in use is the largest that
/// is known to be right for all pages.
fn replace_one(tx: &Transaction<'_>, segment: i64, separator: &[u8]) -> rusqlite::Result<()> {
    let word = String::from_utf8_lossy(&separator[1..]).into_owned();
    let word = word.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let next = "SELECT term FROM word_vocabulary WHERE term >= ?1 LIMIT 1";
    let next: Option<String> = tx.prepare_cached(next)?.query_row([word], |row| row.get(0)).optional()?;
    let Some(next) = next.filter(|next| !next.as_bytes().starts_with(&separator[1..])) else { return Ok(()) };
    let mut term = vec![MAIN_INDEX];
    term.extend(next.as_bytes());
    tx.prepare_cached("UPDATE OR IGNORE word_idx SET term = ?3 WHERE segid = ?1 AND term = ?2")?
        .execute(params![segment, separator, term])?;
    Ok(())
}
