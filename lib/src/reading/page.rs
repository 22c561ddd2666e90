//! One page of a session's items: the newest, those before or after an entry, or those around a message. Reads no more turns
//! than it needs.

use std::collections::VecDeque;

use rethread_core::stored::{RawItem, Stored, StoredError};
use rethread_core::{Json, Seq, SessionId, UpdateKind};
use serde::Serialize;

use super::item::{ReadItem, id_in, items_of, redacted_items};
use super::stretch::{FIRST, Stretch, StretchEnd, described};
use crate::secret::{Redaction, SecretFinder};
use crate::store::find_back::{Sighting, find_back};
use crate::store::{Store, StoreError};
use crate::transcript::JournalDamage;

/// A larger item is shortened, unless all of it is asked for.
const MAX_ITEM: usize = 256 * 1024;

/// All entries of a page are history.
const EVERYTHING: Seq = Seq(u64::MAX);

/// Which page.
#[derive(Clone, Debug)]
pub(crate) struct PageOrder {
    /// Where it is.
    pub(crate) place: PagePlace,
    /// At most this many items, unless several have one place.
    pub(crate) limit: usize,
    /// Whether large items are shortened.
    pub(crate) size: ItemSize,
    /// Whether secrets are replaced. What a turn that still runs has said is then left out: a secret may be split.
    pub(crate) redaction: Redaction,
    /// The largest answer.
    pub(crate) room: usize,
}

/// Where a page is.
#[derive(Clone, Debug)]
pub(crate) enum PagePlace {
    /// At the end.
    Newest,
    /// Before the item that begins with this entry.
    Before(Seq),
    /// After this entry.
    After(Seq),
    /// Around the message or tool call with this id, which has this entry if the client is right.
    Around { id: String, seq: Option<Seq> },
}

/// How large an item may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemSize {
    /// Large ones are shortened.
    Shortened,
    /// As large as an answer can be.
    Whole,
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The store cannot be read.
    Store(StoreError),
    /// The session has no message with the id.
    NoSuchMessage,
}

impl From<StoreError> for ReadFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A page of items.
#[derive(Debug, Serialize)]
pub(crate) struct ReadPage {
    items: VecDeque<Json>,
    head: Seq,
    more: MoreItems,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<DamageNote>,
}

/// Whether there are items before and after a page.
#[derive(Clone, Copy, Debug, Serialize)]
struct MoreItems {
    before: bool,
    after: bool,
}

/// Where the journal cannot be read on.
#[derive(Debug, Serialize)]
struct DamageNote {
    seq: Seq,
    message: String,
}

/// Reads a page of the session whose last entry is `head`.
pub(crate) async fn read_page(
    store: &dyn Store,
    session: &SessionId,
    head: Seq,
    order: &PageOrder,
) -> Result<ReadPage, ReadFailure> {
    let mut window = Window::open(store, session, head, &order.place, order.redaction).await?;
    match &order.place {
        PagePlace::Newest | PagePlace::Before(_) => window.fill_back(order.limit).await?,
        PagePlace::After(_) => window.fill_forward(order.limit).await?,
        PagePlace::Around { .. } => {
            window.fill_back(order.limit).await?;
            window.fill_forward(order.limit).await?;
        }
    }
    Ok(window.page(head, order))
}

/// The items that were read. Those before `middle` come before the place of the page, the others after it.
struct Window<'a> {
    store: &'a dyn Store,
    session: &'a SessionId,
    redaction: Redaction,
    items: VecDeque<ReadItem>,
    middle: usize,
    start: Seq,
    end: StretchEnd,
}

impl<'a> Window<'a> {
    /// Reads the turn in which the page is.
    async fn open(
        store: &'a dyn Store,
        session: &'a SessionId,
        head: Seq,
        place: &PagePlace,
        redaction: Redaction,
    ) -> Result<Self, ReadFailure> {
        let (before, after) = match place {
            PagePlace::Newest => (head.next(), head),
            PagePlace::Before(before) => (head.next().min(*before), Seq(before.0.saturating_sub(1))),
            PagePlace::After(after) => (head.next().min(Seq(after.0.saturating_add(2))), *after),
            PagePlace::Around { id, seq } => {
                return Self::around(store, session, id, seq.map(|seq| seq.min(head)), redaction).await;
            }
        };
        let mut window = Self::with_turn(store, session, before, redaction).await?;
        window.middle = window.items.partition_point(|item| item.seq <= after);
        Ok(window)
    }

    /// Reads the turn of a message or tool call: the one with the entry that the client names, or one that is looked for.
    async fn around(
        store: &'a dyn Store,
        session: &'a SessionId,
        id: &str,
        named: Option<Seq>,
        redaction: Redaction,
    ) -> Result<Self, ReadFailure> {
        if let Some(seq) = named {
            let window = Self::with_turn(store, session, seq.next(), redaction).await?;
            if let Some(window) = window.at_item(id) {
                return Ok(window);
            }
        }
        let seq = find_newest(store, session, id).await?.ok_or(ReadFailure::NoSuchMessage)?;
        let window = Self::with_turn(store, session, seq.next(), redaction).await?;
        window.at_item(id).ok_or(ReadFailure::NoSuchMessage)
    }

    /// The window with its middle at an item; nothing if it does not have it.
    fn at_item(self, id: &str) -> Option<Self> {
        let middle = self.items.iter().position(|item| item.is(id))?;
        Some(Self { middle, ..self })
    }

    /// Reads the turn that has the entry before another one.
    async fn with_turn(
        store: &'a dyn Store,
        session: &'a SessionId,
        before: Seq,
        redaction: Redaction,
    ) -> Result<Self, ReadFailure> {
        let stretch = Stretch::before(store, session, before).await?;
        let items: VecDeque<_> = page_items(&stretch, redaction).into();
        let (start, end) = (stretch.start, stretch.end);
        Ok(Self { store, session, redaction, items, middle: 0, start, end })
    }

    /// Reads turns until there are more than `count` items before the place, so that it is known whether there is more.
    async fn fill_back(&mut self, count: usize) -> Result<(), ReadFailure> {
        while self.middle <= count && self.start > FIRST {
            let earlier = Stretch::before(self.store, self.session, self.start).await?;
            let items = page_items(&earlier, self.redaction);
            self.middle += items.len();
            items.into_iter().rev().for_each(|item| self.items.push_front(item));
            self.start = earlier.start;
        }
        Ok(())
    }

    /// The same for items after the place.
    async fn fill_forward(&mut self, count: usize) -> Result<(), ReadFailure> {
        while self.items.len() - self.middle <= count && !self.end.is_last {
            let later = match Stretch::after(self.store, self.session, &self.end).await {
                Ok(later) => later,
                // What comes before the damage is shown first.
                Err(error @ StoreError::Damaged { at, .. }) if self.items.len() > self.middle => {
                    (self.end.damage, self.end.is_last) = (Some(described(error, at)), true);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            self.items.extend(page_items(&later, self.redaction));
            self.end = later.end;
        }
        Ok(())
    }

    fn page(self, head: Seq, order: &PageOrder) -> ReadPage {
        let mut choice = Choice {
            window: &self,
            order,
            items: VecDeque::new(),
            bytes: 0,
            low: self.middle,
            high: self.middle,
        };
        match &order.place {
            PagePlace::Newest | PagePlace::Before(_) => while choice.grow_back() {},
            PagePlace::After(_) => while choice.grow_forward() {},
            // The message itself comes first.
            PagePlace::Around { .. } => while choice.grow_forward() | choice.grow_back() {},
        }
        let at_end = match &order.place {
            PagePlace::Newest => true,
            PagePlace::Before(before) => *before > head,
            PagePlace::After(_) | PagePlace::Around { .. } => {
                choice.high == self.items.len() && self.end.is_last
            }
        };
        let more = MoreItems { before: choice.low > 0 || self.start > FIRST, after: !at_end };
        let items = choice.items;
        let damage = self.end.damage.filter(|_| !more.after);
        let damage = damage.map(|JournalDamage { at, message }| DamageNote { seq: at, message });
        ReadPage { items, head, more, damage }
    }
}

/// The items of a window that are on the page.
struct Choice<'a> {
    window: &'a Window<'a>,
    order: &'a PageOrder,
    items: VecDeque<Json>,
    bytes: usize,
    low: usize,
    high: usize,
}

impl Choice<'_> {
    /// Adds the item before, and those that have the same place: a place is the beginning of the next page.
    fn grow_back(&mut self) -> bool {
        let items = &self.window.items;
        let Some(last) = self.low.checked_sub(1) else { return false };
        let seq = items[last].seq;
        let count = items.range(..self.low).rev().take_while(|item| item.seq == seq).count();
        let added: Vec<_> = items.range(self.low - count..self.low).map(|item| self.encoded(item)).collect();
        if !self.fits(&added) {
            return false;
        }
        added.into_iter().rev().for_each(|item| self.items.push_front(item));
        self.low -= count;
        true
    }

    /// The same after.
    fn grow_forward(&mut self) -> bool {
        let items = &self.window.items;
        let Some(seq) = items.get(self.high).map(|item| item.seq) else { return false };
        let count = items.range(self.high..).take_while(|item| item.seq == seq).count();
        let added: Vec<_> =
            items.range(self.high..self.high + count).map(|item| self.encoded(item)).collect();
        if !self.fits(&added) {
            return false;
        }
        self.items.extend(added);
        self.high += count;
        true
    }

    fn fits(&mut self, added: &[Json]) -> bool {
        let bytes = self.bytes + added.iter().map(|item| item.text().len() + 1).sum::<usize>();
        let fits = self.items.is_empty() || self.items.len() < self.order.limit && bytes <= self.order.room;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    fn encoded(&self, item: &ReadItem) -> Json {
        let longest = match self.order.size {
            ItemSize::Shortened => MAX_ITEM.min(self.order.room),
            ItemSize::Whole => self.order.room,
        };
        let mut item = item.clone().with_last();
        item.cut_to(longest);
        Json::of(&item)
    }
}

/// The items of whole turns as a client is shown them.
fn page_items(stretch: &Stretch, redaction: Redaction) -> Vec<ReadItem> {
    let items = items_of(stretch, EVERYTHING);
    match redaction {
        Redaction::Off => items,
        Redaction::Secrets => redacted_items(stretch, items, &mut SecretFinder::default()),
    }
}

/// Finds an entry that speaks of a message or tool call: the newest one.
async fn find_newest(store: &dyn Store, session: &SessionId, id: &str) -> Result<Option<Seq>, StoreError> {
    let sighting = |speaks| if speaks { Sighting::Beginning } else { Sighting::None };
    let found = find_back(store, session, |item| speaks_of(item, id).map(sighting)).await?;
    Ok(found.map(|place| place.first))
}

/// Says of most items without decoding them whether they have this id.
fn speaks_of(item: Stored<'_>, id: &str) -> Result<bool, StoredError> {
    match item.raw_item() {
        Some(RawItem::Prompt { message, .. }) => Ok(message == id),
        Some(RawItem::Update { kind: UpdateKind::Other, id: child, .. }) if !child.is_empty() => {
            Ok(id_in(&*item.entry()?).as_deref() == Some(id))
        }
        Some(RawItem::Update { id: named, .. }) => Ok(named == id),
        None => Ok(id_in(&*item.entry()?).as_deref() == Some(id)),
    }
}
