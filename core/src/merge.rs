//! Merges consecutive updates of one object into its current form: patches by member, content by appending. Works on JSON
//! only; the order of entries is handled in `fold`.

mod grown;

use serde_json::value::RawValue;

use crate::{Fields, Json, RawMembers, Update, UpdateForm, UpdateKind};
use grown::{Bit, Grown};

/// What is known of a thing before the first update at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// It was not there.
    Empty,
    /// It was there, or may have been.
    Unknown,
}

/// One update, read as far as merging needs it.
pub(crate) enum Word<'a> {
    /// An upsert: its members say what changes.
    Patch(Whole),
    /// One more bit of content and nothing else.
    Chunk(Chunk<'a>),
}

impl<'a> Word<'a> {
    /// Reads an update, or gives nothing if merging it would lose some of it.
    pub(crate) fn read(update: &'a Update, base: Base) -> Option<Self> {
        match update.kind.meaning().form {
            UpdateForm::Chunk => Chunk::read(update.kind, &update.body).map(Self::Chunk),
            UpdateForm::Upsert | UpdateForm::Complete | UpdateForm::Removal | UpdateForm::Event => {
                Whole::read(update.kind, &update.body, base).map(Self::Patch)
            }
        }
    }
}

/// A chunk that says nothing beyond its content.
pub(crate) struct Chunk<'a> {
    kind: UpdateKind,
    id: &'a RawValue,
    bit: Bit<'a>,
}

impl<'a> Chunk<'a> {
    fn read(kind: UpdateKind, body: &'a Json) -> Option<Self> {
        let (place, id_field) = (kind.meaning().content?, kind.meaning().id.name()?);
        let members: RawMembers<'a> = serde_json::from_str(body.text()).ok()?;
        let (mut id, mut content) = (None, None);
        for (name, value) in members.iter() {
            let old = match name {
                "sessionUpdate" => None,
                "_meta" if value.get() == "null" => None,
                name if name == id_field => id.replace(value),
                name if name == place.chunk => content.replace(value),
                _ => return None,
            };
            if old.is_some() {
                return None;
            }
        }
        Some(Self { kind, id: id?, bit: Bit::read(place.style, content?)? })
    }
}

/// Two chunks that one chunk cannot carry.
pub(crate) struct Apart;

/// What upserts and chunks of a thing come to: an upsert.
pub(crate) struct Whole {
    kind: UpdateKind,
    fields: Fields,
    /// The content, once a chunk was appended to it; its member in `fields` then only keeps the place.
    grown: Option<Grown>,
}

impl Whole {
    /// Makes a thing of its first chunk.
    pub(crate) fn of_chunk(chunk: &Chunk<'_>) -> Self {
        let kind = chunk.kind.whole();
        let mut whole = Self { kind, fields: heading(kind, chunk.id.to_owned().into()), grown: None };
        whole.append(chunk);
        whole
    }

    /// Lays a later upsert over this one.
    pub(crate) fn patch(&mut self, later: Self) {
        if later.says_content() {
            self.grown = later.grown;
        }
        for (name, value) in later.fields.iter() {
            let value = match self.fields.get(name) {
                Some(old) if name == "_meta" => patched_meta(old, value),
                _ => value.clone(),
            };
            self.fields.set(name, value);
        }
    }

    /// Says whether the content is given as a whole, so that nothing before matters to it.
    pub(crate) fn says_content(&self) -> bool {
        self.kind.meaning().content.is_some_and(|place| self.fields.get(place.whole).is_some())
    }

    /// Appends to the content; a thing that says nothing of its content is taken to have none.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>) {
        let Some(place) = self.kind.meaning().content else { return };
        if self.grown.is_none() {
            let said = self.fields.get(place.whole);
            self.grown = said.and_then(|said| Grown::read(place.style, said));
            self.fields.set(place.whole, Json::of(&()));
        }
        self.grown.get_or_insert_with(|| Grown::new(place.style)).push(&chunk.bit);
    }

    /// The update that says all of it.
    pub(crate) fn update(mut self, id: &str) -> Update {
        if let (Some(grown), Some(place)) = (self.grown, self.kind.meaning().content) {
            self.fields.set(place.whole, grown.whole());
        }
        Update { kind: self.kind, id: id.to_owned(), body: self.fields.json() }
    }

    fn read(kind: UpdateKind, body: &Json, base: Base) -> Option<Self> {
        let fields: Fields = body.read().ok()?;
        let meta_is_clear = fields.get("_meta").is_none_or(|meta| meta_can_merge(meta, base));
        let content_is_clear = kind
            .meaning()
            .content
            .and_then(|place| Some((place.style, fields.get(place.whole)?)))
            .is_none_or(|(style, content)| content.is_null() || Grown::can_read(style, content));
        (meta_is_clear && content_is_clear).then_some(Self { kind, fields, grown: None })
    }
}

/// Several chunks of one thing as one chunk, for where the content before it is not at hand.
pub(crate) struct Piece {
    kind: UpdateKind,
    id: Json,
    grown: Grown,
}

impl Piece {
    /// Starts with one chunk.
    pub(crate) fn of_chunk(chunk: &Chunk<'_>) -> Self {
        let mut grown = Grown::new(chunk.bit.style());
        grown.push(&chunk.bit);
        Self { kind: chunk.kind, id: chunk.id.to_owned().into(), grown }
    }

    /// Appends a chunk that one chunk can carry together with what is there.
    pub(crate) fn append(&mut self, chunk: &Chunk<'_>) -> Result<(), Apart> {
        if !self.grown.joins(&chunk.bit) {
            return Err(Apart);
        }
        self.grown.push(&chunk.bit);
        Ok(())
    }

    /// The update that says all of it.
    pub(crate) fn update(self, id: &str) -> Update {
        let mut fields = heading(self.kind, self.id);
        if let Some(place) = self.kind.meaning().content {
            fields.set(place.chunk, self.grown.piece());
        }
        Update { kind: self.kind, id: id.to_owned(), body: fields.json() }
    }
}

/// The members that every update of a thing begins with.
fn heading(kind: UpdateKind, id: Json) -> Fields {
    let tag = ("sessionUpdate", Json::of(kind.meaning().tag));
    let id = kind.meaning().id.name().map(|member| (member, id));
    std::iter::once(tag).chain(id).collect()
}

/// Metadata is patched by key. Clearing all of what is unknown and then setting some of it takes two updates,
/// so a clearing update of such a thing merges with nothing.
fn meta_can_merge(meta: &Json, base: Base) -> bool {
    match base {
        Base::Empty => meta.is_null() || meta.read::<Fields>().is_ok(),
        Base::Unknown => meta.read::<Fields>().is_ok(),
    }
}

pub(crate) fn patched_meta(old: &Json, new: &Json) -> Json {
    match (old.read::<Fields>(), new.read::<Fields>()) {
        (Ok(mut merged), Ok(patch)) => {
            for (key, value) in patch.iter() {
                // The removal stays: it may be meant for what came before.
                merged.set(key, value.clone());
            }
            merged.json()
        }
        _ => new.clone(),
    }
}
