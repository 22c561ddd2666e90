//! Folds the updates of one object (a message, a tool call, a plan) in a turn into as few items as possible. Handles their
//! order; the JSON is merged in `merge`.

use super::Folded;
use crate::kind::FoldRule;
use crate::merge::{Apart, Base, Chunk, Piece, Whole, Word};
use crate::{Entry, Seq, Update, UpdateKind};

/// An update at its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) known: bool,
    pub(super) update: &'a Update,
}

/// A message, tool call, terminal or compaction, or the info of the session.
///
/// Where its content is known from the start on, all is one upsert. Where it is not, chunks stay chunks, and an
/// upsert stays behind the chunks that it came after, because a terminal's end is its last word.
pub(super) struct Thing<'a> {
    kind: UpdateKind,
    base: Base,
    parts: Vec<Part<'a>>,
}

/// One item in the making. Its place is that of its first update, which also names the thing.
struct Part<'a> {
    placed: Placed<'a>,
    said: Said,
    form: Form,
}

/// How an item is written.
#[derive(Clone, Copy)]
enum Form {
    /// As the only update that it came from: untouched.
    AsItCame,
    /// Anew.
    Anew,
}

/// What an item comes to.
enum Said {
    Whole(Whole),
    Piece(Piece),
}

impl<'a> Thing<'a> {
    /// Begins a thing of this kind.
    pub(super) fn new(kind: UpdateKind, base: Base) -> Self {
        let base = if known_is_recorded(kind) { base } else { Base::Unknown };
        Self { kind, base, parts: Vec::new() }
    }

    /// Adds what an update says. What cannot be merged goes out as it is, and all before it with it.
    pub(super) fn add(&mut self, placed: Placed<'a>, folded: &mut Vec<Folded>) {
        // Whoever wrote the entry may not have known, but here it is certain.
        let known = placed.known || (known_is_recorded(self.kind) && self.base == Base::Unknown);
        let placed = Placed { known, ..placed };
        match Word::read(placed.update, self.base) {
            Some(Word::Patch(whole)) => self.patch(placed, whole),
            Some(Word::Chunk(chunk)) => self.append(placed, &chunk),
            None => {
                self.close(folded);
                folded.push(placed.item(placed.update.clone()));
            }
        }
    }

    /// Puts out what is there. What comes after adds to something unknown.
    pub(super) fn close(&mut self, folded: &mut Vec<Folded>) {
        folded.extend(self.parts.drain(..).map(Part::item));
        self.base = Base::Unknown;
    }

    fn patch(&mut self, placed: Placed<'a>, whole: Whole) {
        let replaces = whole.says_content();
        match self.parts.last_mut() {
            Some(part @ Part { said: Said::Whole(_), .. }) => part.patch(placed, whole),
            Some(Part { said: Said::Piece(_), .. }) | None => {
                self.parts.push(Part::new(placed, Said::Whole(whole)));
            }
        }
        if replaces {
            self.gather();
        }
    }

    /// Makes one item of all that is there: the last part says all of the content.
    fn gather(&mut self) {
        let mut parts = self.parts.drain(..);
        let Some(mut all) = parts.next() else { return };
        for part in parts {
            all.overlay(part);
        }
        self.parts.push(all);
    }

    fn append(&mut self, placed: Placed<'a>, chunk: &Chunk<'a>) {
        let at_hand = self.content_is_at_hand();
        let grows = match self.parts.last_mut() {
            Some(part) if at_hand => Some(part),
            None if at_hand => {
                return self.parts.push(Part::new(placed, Said::Whole(Whole::of_chunk(chunk))));
            }
            // An upsert in between does not speak of the content, so the chunks on both sides of it can be one.
            Some(_) | None => self.parts.iter_mut().rev().find(|part| matches!(part.said, Said::Piece(_))),
        };
        if grows.is_none_or(|part| part.append(placed, chunk).is_err()) {
            self.parts.push(Part::new(placed, Said::Piece(Piece::of_chunk(chunk))));
        }
    }

    fn content_is_at_hand(&self) -> bool {
        match self.parts.last() {
            Some(Part { said: Said::Whole(whole), .. }) => self.base == Base::Empty || whole.says_content(),
            Some(Part { said: Said::Piece(_), .. }) => false,
            None => self.base == Base::Empty,
        }
    }
}

impl<'a> Part<'a> {
    fn new(placed: Placed<'a>, said: Said) -> Self {
        let whole = placed.update.kind == placed.update.kind.whole();
        let form = match said {
            // A first chunk is turned into a message, however short.
            Said::Whole(_) if !whole => Form::Anew,
            Said::Whole(_) | Said::Piece(_) => Form::AsItCame,
        };
        Self { placed, said, form }
    }

    fn patch(&mut self, placed: Placed<'a>, whole: Whole) {
        if let Said::Whole(so_far) = &mut self.said {
            so_far.patch(whole);
            self.cover(placed.last);
        }
    }

    fn append(&mut self, placed: Placed<'a>, chunk: &Chunk<'a>) -> Result<(), Apart> {
        match &mut self.said {
            Said::Whole(whole) => whole.append(chunk),
            Said::Piece(piece) => piece.append(chunk)?,
        }
        self.cover(placed.last);
        Ok(())
    }

    /// Lays a later part over this one, which has no content that lasts.
    fn overlay(&mut self, later: Self) {
        match (&mut self.said, later.said) {
            (Said::Whole(so_far), Said::Whole(whole)) => so_far.patch(whole),
            (said @ Said::Piece(_), whole @ Said::Whole(_)) => *said = whole,
            (_, Said::Piece(_)) => {}
        }
        self.cover(later.placed.last);
    }

    fn cover(&mut self, last: Seq) {
        self.placed.last = self.placed.last.max(last);
        self.form = Form::Anew;
    }

    fn item(self) -> Folded {
        let id = &self.placed.update.id;
        let update = match (self.form, self.said) {
            (Form::AsItCame, _) => self.placed.update.clone(),
            (Form::Anew, Said::Whole(whole)) => whole.update(id),
            (Form::Anew, Said::Piece(piece)) => piece.update(id),
        };
        self.placed.item(update)
    }
}

/// A plan: only the last word on it counts, but one that was removed comes back in another place.
#[derive(Default)]
pub(super) struct Plan<'a> {
    removed: Option<Placed<'a>>,
    set: Option<Placed<'a>>,
}

impl<'a> Plan<'a> {
    /// The plan is this now.
    pub(super) fn set(&mut self, placed: Placed<'a>) {
        self.set = Some(placed.after(self.set));
    }

    /// The plan is gone.
    pub(super) fn remove(&mut self, placed: Placed<'a>) {
        let set = self.set.take();
        let before = self.removed.or(set);
        self.removed = Some(placed.after(before));
    }

    /// Puts out what is there.
    pub(super) fn close(self, folded: &mut Vec<Folded>) {
        let words = self.removed.into_iter().chain(self.set);
        folded.extend(words.map(|placed| placed.item(placed.update.clone())));
    }
}

impl<'a> Placed<'a> {
    /// Takes the place of an earlier one.
    fn after(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        Self { first: earlier.first, last: self.last.max(earlier.last), known: earlier.known, ..self }
    }

    fn item(self, update: Update) -> Folded {
        let entry = Entry::Updated { update, known: self.known };
        Folded { first: self.first, last: self.last, entry }
    }
}

/// Says whether entries record that a thing of this kind was there before.
fn known_is_recorded(kind: UpdateKind) -> bool {
    kind.meaning().fold == FoldRule::Merge
}
