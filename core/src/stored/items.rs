//! The stored form of folded items: one after the other, so that two stretches are joined by joining their bytes,
//! and read without a parser for what surrounds the JSON of the updates. Versions are `stored`'s business.
//!
//! An item is the length of the rest of it, its first number, how many numbers it covers beyond that, a tag, and what
//! the tag says follows. So its place is known, and it can be skipped, before it is read. Numbers are in groups of
//! seven bits, the lowest first; a text is its length and its bytes. The kinds of entry that every turn has are written
//! member by member, all others as JSON.

use super::{ItemSort, RawItem, Stored, StoredError, StoredForm};
use crate::kind::BY_STORED;
use crate::{Entry, Folded, Json, MessageId, Seq, Stop, TurnNo, Update, UpdateKind};

/// What follows the numbers of an item. Never renumbered: segments have these bytes.
mod tag {
    pub(super) const JSON: u8 = 0;
    pub(super) const UPDATED_NEW: u8 = 1;
    pub(super) const UPDATED_KNOWN: u8 = 2;
    pub(super) const PROMPT_INSERTED: u8 = 3;
    pub(super) const PROMPT_SENT: u8 = 4;
    pub(super) const TURN_STARTED: u8 = 5;
    pub(super) const TURN_ENDED: u8 = 6;
}

/// Writes items behind whatever is there.
pub(super) fn write(items: &[Folded], bytes: &mut Vec<u8>) {
    let mut one = Vec::new();
    for item in items {
        one.clear();
        put_number(&mut one, item.first.0);
        put_number(&mut one, item.last.0.saturating_sub(item.first.0));
        put_entry(&mut one, &item.entry);
        put_number(bytes, one.len() as u64);
        bytes.extend_from_slice(&one);
    }
}

/// Finds items one by one. After one whose place cannot be read there are no more.
#[derive(Debug)]
pub(super) struct Reader<'a>(Rest<'a>);

impl<'a> Reader<'a> {
    /// Before the first item.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(Rest(bytes))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Stored<'a>, StoredError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let item = self.0.item();
        if item.is_err() {
            self.0 = Rest(&[]);
        }
        Some(item)
    }
}

/// What sort of entry these bytes of an item are.
pub(super) fn sort(entry: &[u8]) -> ItemSort {
    match entry.first() {
        Some(&(tag::PROMPT_SENT | tag::TURN_STARTED)) => ItemSort::Bookkeeping,
        Some(&tag::TURN_ENDED) => ItemSort::TurnEnded,
        Some(_) | None => ItemSort::Any,
    }
}

/// What can be seen of the entry of an item. Whatever is wrong with it is found when it is read.
pub(super) fn raw_item(entry: &[u8]) -> Option<RawItem<'_>> {
    let mut rest = Rest(entry);
    let tag = rest.byte().ok()?;
    let raw_item = match tag {
        tag::PROMPT_INSERTED => {
            let message = rest.text().ok()?;
            rest.number().and_then(|_turn| rest.number()).ok()?;
            RawItem::Prompt { message, content: rest.text().ok()? }
        }
        tag::UPDATED_NEW | tag::UPDATED_KNOWN => {
            let kind = rest.kind().ok()?;
            let (id, known) = (rest.text().ok()?, tag == tag::UPDATED_KNOWN);
            RawItem::Update { kind, id, known, body: rest.text().ok()? }
        }
        _ => return None,
    };
    rest.0.is_empty().then_some(raw_item)
}

/// Reads the entry of an item.
pub(super) fn entry(bytes: &[u8]) -> Result<Entry, StoredError> {
    let mut rest = Rest(bytes);
    let entry = rest.entry()?;
    if rest.0.is_empty() { Ok(entry) } else { Err(StoredError::Broken("an item is too long")) }
}

pub(super) fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    match entry {
        Entry::Updated { update, known } => {
            bytes.push(if *known { tag::UPDATED_KNOWN } else { tag::UPDATED_NEW });
            bytes.push(update.kind.meaning().stored);
            put_text(bytes, &update.id);
            put_text(bytes, update.body.text());
        }
        Entry::PromptInserted { message, turn, content, at } => {
            bytes.push(tag::PROMPT_INSERTED);
            put_text(bytes, message.as_str());
            put_number(bytes, turn.0);
            put_number(bytes, *at);
            put_text(bytes, content.text());
        }
        Entry::PromptSent { message } => {
            bytes.push(tag::PROMPT_SENT);
            put_text(bytes, message.as_str());
        }
        Entry::TurnStarted { turn, at, state } => {
            bytes.push(tag::TURN_STARTED);
            put_number(bytes, turn.0);
            put_number(bytes, *at);
            put_text(bytes, state.text());
        }
        Entry::TurnEnded { turn, stop: Stop { reason, error: None }, at, state } => {
            bytes.push(tag::TURN_ENDED);
            put_number(bytes, turn.0);
            put_number(bytes, *at);
            put_text(bytes, reason);
            put_text(bytes, state.text());
        }
        Entry::TurnEnded { .. }
        | Entry::Opened { .. }
        | Entry::RootsSet { .. }
        | Entry::AgentBound { .. }
        | Entry::AgentLost { .. }
        | Entry::PromptHeld { .. }
        | Entry::PromptDropped { .. }
        | Entry::StateChanged { .. }
        | Entry::QuestionAsked { .. }
        | Entry::QuestionAnswered { .. }
        | Entry::QuestionWithdrawn { .. }
        | Entry::OptionAsked { .. }
        | Entry::OptionSettled { .. }
        | Entry::CancelAsked { .. }
        | Entry::TitleSet { .. } => {
            bytes.push(tag::JSON);
            put_text(bytes, Json::of(entry).text());
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// What has not been read yet.
#[derive(Debug)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn item(&mut self) -> Result<Stored<'a>, StoredError> {
        let mut item = Rest(self.bytes()?);
        let first = item.number()?;
        let last = first.checked_add(item.number()?).ok_or(StoredError::Broken("a number is too large"))?;
        Ok(Stored { first: Seq(first), last: Seq(last), form: StoredForm::Compact(item.0) })
    }

    fn entry(&mut self) -> Result<Entry, StoredError> {
        match self.byte()? {
            tag::JSON => serde_json::from_str(self.text()?).map_err(StoredError::Damaged),
            tag::UPDATED_NEW => Ok(Entry::Updated { update: self.update()?, known: false }),
            tag::UPDATED_KNOWN => Ok(Entry::Updated { update: self.update()?, known: true }),
            tag::PROMPT_INSERTED => self.prompt_inserted(),
            tag::PROMPT_SENT => Ok(Entry::PromptSent { message: MessageId(self.owned()?) }),
            tag::TURN_STARTED => self.turn_started(),
            tag::TURN_ENDED => self.turn_ended(),
            _ => Err(StoredError::Broken("no such kind of item")),
        }
    }

    fn update(&mut self) -> Result<Update, StoredError> {
        let kind = self.kind()?;
        Ok(Update { kind, id: self.owned()?, body: self.json()? })
    }

    fn kind(&mut self) -> Result<UpdateKind, StoredError> {
        let kind = BY_STORED.get(usize::from(self.byte()?));
        kind.copied().ok_or(StoredError::Broken("no such kind of update"))
    }

    // The members are read in the order in which they are written here.
    fn prompt_inserted(&mut self) -> Result<Entry, StoredError> {
        let message = MessageId(self.owned()?);
        let turn = TurnNo(self.number()?);
        let at = self.number()?;
        Ok(Entry::PromptInserted { message, turn, at, content: self.json()? })
    }

    fn turn_started(&mut self) -> Result<Entry, StoredError> {
        let turn = TurnNo(self.number()?);
        let at = self.number()?;
        Ok(Entry::TurnStarted { turn, at, state: self.json()? })
    }

    fn turn_ended(&mut self) -> Result<Entry, StoredError> {
        let turn = TurnNo(self.number()?);
        let at = self.number()?;
        let stop = Stop { reason: self.owned()?, error: None };
        Ok(Entry::TurnEnded { turn, stop, at, state: self.json()? })
    }

    fn byte(&mut self) -> Result<u8, StoredError> {
        let (byte, rest) = self.0.split_first().ok_or(StoredError::Broken("it ends too early"))?;
        self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, StoredError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if group << shift >> shift != group {
                break;
            }
            number |= group << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(StoredError::Broken("a number is too large"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], StoredError> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let cut = self.0.split_at_checked(length);
        let (bytes, rest) = cut.ok_or(StoredError::Broken("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, StoredError> {
        str::from_utf8(self.bytes()?).map_err(|_| StoredError::Broken("a text is not UTF-8"))
    }

    fn owned(&mut self) -> Result<String, StoredError> {
        self.text().map(str::to_owned)
    }

    fn json(&mut self) -> Result<Json, StoredError> {
        Json::parse(self.owned()?).map_err(|error| StoredError::Damaged(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_come_back() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        numbers.iter().for_each(|number| put_number(&mut bytes, *number));
        let mut rest = Rest(&bytes);
        numbers.iter().for_each(|number| assert_eq!(rest.number().ok(), Some(*number)));
        assert!(rest.0.is_empty());
    }

    #[test]
    fn a_number_that_is_too_large_is_refused() {
        for bytes in [&[0xff; 10][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]] {
            assert!(matches!(Rest(bytes).number(), Err(StoredError::Broken("a number is too large"))));
        }
        let both = [&[11][..], &[0xff; 9], &[1, 1]].concat();
        assert!(matches!(Rest(&both).item(), Err(StoredError::Broken("a number is too large"))));
    }
}
