//! One page of a session's items: the newest, those before or after an entry, or those around a message. Reads no more turns
//! than it needs.

use std::collections::VecDeque;

use rethread_core::stored::{RawItem, Stored, StoredError};
use rethread_core::{Json, Seq, SessionId, UpdateKind};
use serde::Serialize;

use super::item::{ReadItem, id_in, items_of, redacted_items};
use super::stretch::{FIRST, Stretch, StretchEnd, described};
use crate::secret::{Redaction, SecretFinder};
use crate::store::{Store, StoreError};
use crate::transcript::JournalDamage;

/// A larger item is shortened, unless all of it is asked for.
const MAX_ITEM: usize = 256 * 1024;

/// How much is read at once in search of a message.
const SEARCH_BUDGET: usize = 512 * 1024;

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
    /// Around the message or tool call with this id.
    Around(String),
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
        PagePlace::Around(_) => {
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
            PagePlace::Around(id) => {
                let seq = find_message(store, session, id).await?.ok_or(ReadFailure::NoSuchMessage)?;
                (seq.next(), Seq(0))
            }
        };
        let stretch = Stretch::before(store, session, before).await?;
        let items: VecDeque<_> = page_items(&stretch, redaction).into();
        let middle = match place {
            PagePlace::Newest | PagePlace::Before(_) | PagePlace::After(_) => {
                items.partition_point(|item| item.seq <= after)
            }
            PagePlace::Around(id) => {
                items.iter().position(|item| item.is(id)).ok_or(ReadFailure::NoSuchMessage)?
            }
        };
        let (start, end) = (stretch.start, stretch.end);
        Ok(Self { store, session, redaction, items, middle, start, end })
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
            PagePlace::Around(_) => while choice.grow_forward() | choice.grow_back() {},
        }
        let at_end = match &order.place {
            PagePlace::Newest => true,
            PagePlace::Before(before) => *before > head,
            PagePlace::After(_) | PagePlace::Around(_) => choice.high == self.items.len() && self.end.is_last,
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
async fn find_message(store: &dyn Store, session: &SessionId, id: &str) -> Result<Option<Seq>, StoreError> {
    let mut before = Seq(u64::MAX - 1);
    while before > FIRST {
        let from = store.seek_back(session, before, SEARCH_BUDGET).await?;
        let (mut next, mut found) = (from, None);
        while next < before {
            let page = store.read(session, next, SEARCH_BUDGET).await?;
            for item in page.items() {
                let item = item?;
                let first = item.first;
                if speaks_of(item, id).map_err(|cause| page.damaged(first, cause))? {
                    found = Some(first);
                }
            }
            if page.end {
                break;
            }
            next = page.next;
        }
        if found.is_some() {
            return Ok(found);
        }
        before = from;
    }
    Ok(None)
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
