//! A part of a journal that was read from a store, in its stored form. Items are decoded when they are visited.

use std::cell::Cell;
use std::ops::Range;

use rethread_core::stored::{SegmentItems, Stored, StoredError};
use rethread_core::{Folded, Seq, SessionId};

use super::StoreError;

/// A part of a journal.
#[derive(Debug)]
pub struct Page {
    session: SessionId,
    parts: Vec<PagePart>,
    /// The sequence number to continue at.
    pub next: Seq,
    /// Whether the journal has no more entries for now.
    pub end: bool,
    start: PageStart,
}

/// What a page begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageStart {
    /// Entries as they were appended, or nothing.
    Entries,
    /// A folded part: an item of it may have begun before the page.
    FoldedPart,
}

/// A run of items from one place.
#[derive(Debug)]
enum PagePart {
    /// A decompressed segment, of which the items that begin in this range count.
    Segment { plain: Vec<u8>, range: Range<Seq> },
    /// Entries in compact form, each with its place in `bytes`.
    Entries { bytes: Vec<u8>, entries: Vec<(Seq, Range<usize>)> },
    /// Decoded items.
    Items(Vec<Folded>),
}

impl Page {
    /// Visits the items in the order of their first sequence number.
    pub fn items(&self) -> impl Iterator<Item = Result<Stored<'_>, StoreError>> {
        self.parts.iter().flat_map(|part| self.part_items(part))
    }

    /// Returns whether the page begins in a folded part of the journal. Then an item that began before it may go on after
    /// its beginning, and is not on it.
    #[must_use]
    pub fn begins_folded(&self) -> bool {
        self.start == PageStart::FoldedPart
    }

    /// Decodes all items.
    pub fn decode(&self) -> Result<Vec<Folded>, StoreError> {
        self.items()
            .map(|item| {
                let item = item?;
                let first = item.first;
                item.folded().map_err(|cause| self.damaged(first, cause))
            })
            .collect()
    }

    /// The error for an item that cannot be decoded.
    #[must_use]
    pub fn damaged(&self, at: Seq, cause: StoredError) -> StoreError {
        StoreError::Damaged { session: self.session.clone(), at, source: cause.into() }
    }

    fn part_items<'a>(
        &'a self,
        part: &'a PagePart,
    ) -> Box<dyn Iterator<Item = Result<Stored<'a>, StoreError>> + 'a> {
        match part {
            PagePart::Segment { plain, range } => match SegmentItems::of(plain) {
                Ok(items) => Box::new(
                    items
                        .map(|item| item.map_err(|cause| self.damaged(range.start, cause)))
                        .filter(|item| item.as_ref().map_or(true, |item| range.contains(&item.first))),
                ),
                Err(cause) => Box::new(std::iter::once(Err(self.damaged(range.start, cause)))),
            },
            PagePart::Entries { bytes, entries } => {
                Box::new(entries.iter().map(|(seq, place)| Ok(Stored::compact(*seq, &bytes[place.clone()]))))
            }
            PagePart::Items(items) => Box::new(items.iter().map(|item| Ok(Stored::at_hand(item)))),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        for part in self.parts.drain(..) {
            if let PagePart::Segment { plain, .. } = part {
                keep_buffer(plain);
            }
        }
    }
}

thread_local! {
    /// The buffer of a page that this thread has used: the system need not provide new memory for the next one.
    static SPARE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer is not kept.
const MAX_KEPT_BUFFER: usize = 256 * 1024;

/// An empty buffer with room for this many bytes.
pub(super) fn buffer(room: usize) -> Vec<u8> {
    let mut buffer = SPARE_BUFFER.take();
    buffer.reserve_exact(room);
    buffer
}

fn keep_buffer(mut buffer: Vec<u8>) {
    let spare = SPARE_BUFFER.take();
    let better = buffer.capacity() > spare.capacity() && buffer.capacity() <= MAX_KEPT_BUFFER;
    buffer.clear();
    SPARE_BUFFER.set(if better { buffer } else { spare });
}

/// Collects the parts of a page up to a budget.
pub(super) struct PageBuilder {
    session: SessionId,
    parts: Vec<PagePart>,
    /// Whether there is any item: segments may have none in their range.
    content: PageContent,
    start: PageStart,
    room: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PageContent {
    None,
    Some,
}

impl PageBuilder {
    /// Makes an empty page of about `budget` bytes.
    pub(super) fn new(session: &SessionId, budget: usize) -> Self {
        let (content, start) = (PageContent::None, PageStart::Entries);
        Self { session: session.clone(), parts: Vec::new(), content, start, room: budget }
    }

    /// Returns whether something of this size fits. An empty page accepts any size.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.is_empty() || size <= self.room
    }

    /// Returns whether there is no item.
    pub(super) fn is_empty(&self) -> bool {
        self.content == PageContent::None
    }

    /// Adds the items of a segment that begin in this range.
    pub(super) fn add_segment(&mut self, plain: Vec<u8>, range: Range<Seq>) {
        self.room = self.room.saturating_sub(plain.len());
        self.begin_folded();
        // What cannot be decoded is found when the items are visited.
        let counts = |item: Result<Stored<'_>, _>| item.map_or(true, |item| range.contains(&item.first));
        if SegmentItems::of(&plain).map_or(true, |mut items| items.any(counts)) {
            self.content = PageContent::Some;
        }
        self.parts.push(PagePart::Segment { plain, range });
    }

    /// Notes that what is added next is folded.
    pub(super) fn begin_folded(&mut self) {
        if self.parts.is_empty() {
            self.start = PageStart::FoldedPart;
        }
    }

    /// Adds one entry in compact form.
    pub(super) fn add_entry(&mut self, seq: Seq, entry: &[u8]) {
        if !matches!(self.parts.last(), Some(PagePart::Entries { .. })) {
            self.parts.push(PagePart::Entries { bytes: Vec::new(), entries: Vec::new() });
        }
        if let Some(PagePart::Entries { bytes, entries }) = self.parts.last_mut() {
            let start = bytes.len();
            bytes.extend_from_slice(entry);
            entries.push((seq, start..bytes.len()));
        }
        self.content = PageContent::Some;
        self.room = self.room.saturating_sub(entry.len());
    }

    /// Adds one decoded item of about this size.
    pub(super) fn add_item(&mut self, item: Folded, size: usize) {
        match self.parts.last_mut() {
            Some(PagePart::Items(items)) => items.push(item),
            Some(PagePart::Segment { .. } | PagePart::Entries { .. }) | None => {
                self.parts.push(PagePart::Items(vec![item]));
            }
        }
        self.content = PageContent::Some;
        self.room = self.room.saturating_sub(size);
    }

    /// Ends the page before this entry, because its budget is used up.
    pub(super) fn cut(self, next: Seq) -> Page {
        Page { session: self.session, parts: self.parts, next, end: false, start: self.start }
    }

    /// Ends the page at the end of the journal.
    pub(super) fn end(self, next: Seq) -> Page {
        Page { session: self.session, parts: self.parts, next, end: true, start: self.start }
    }
}
