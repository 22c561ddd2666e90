//! Content that grows: a list of blocks or items kept as JSON text, or bytes. Appending costs what is appended.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kind::ContentStyle;
use crate::{Fields, Json};

/// What one chunk carries.
pub(super) enum Bit<'a> {
    /// The text of a plain text block, still escaped.
    Text(&'a str),
    /// Any other block.
    Block(&'a RawValue),
    /// An item that stays apart.
    Item(&'a RawValue),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl<'a> Bit<'a> {
    /// Reads what a chunk carries, or nothing if it should be bytes and is not.
    pub(super) fn read(style: ContentStyle, content: &'a RawValue) -> Option<Self> {
        match style {
            ContentStyle::Blocks => Some(plain_text(content).map_or(Self::Block(content), Self::Text)),
            ContentStyle::Items => Some(Self::Item(content)),
            ContentStyle::Bytes => bytes(content).map(Self::Bytes),
        }
    }

    /// The style of content that it can be appended to.
    pub(super) fn style(&self) -> ContentStyle {
        match self {
            Self::Text(_) | Self::Block(_) => ContentStyle::Blocks,
            Self::Item(_) => ContentStyle::Items,
            Self::Bytes(_) => ContentStyle::Bytes,
        }
    }
}

/// Content that was appended to.
pub(super) enum Grown {
    List(List),
    Bytes(Bytes),
}

impl Grown {
    /// No content.
    pub(super) fn new(style: ContentStyle) -> Self {
        match style {
            ContentStyle::Blocks | ContentStyle::Items => {
                Self::List(List { text: "[".to_owned(), tail: Tail::None })
            }
            ContentStyle::Bytes => Self::Bytes(Bytes { data: Vec::new(), output: Fields::new() }),
        }
    }

    /// Says whether a whole content can be taken over.
    pub(super) fn can_read(style: ContentStyle, content: &Json) -> bool {
        match style {
            ContentStyle::Blocks | ContentStyle::Items => content.text().starts_with('['),
            ContentStyle::Bytes => output(content).is_some(),
        }
    }

    /// Takes a whole content over.
    pub(super) fn read(style: ContentStyle, content: &Json) -> Option<Self> {
        match style {
            ContentStyle::Blocks | ContentStyle::Items => {
                let mut grown = Self::new(style);
                let blocks: Vec<&RawValue> = serde_json::from_str(content.text()).ok()?;
                blocks
                    .into_iter()
                    .filter_map(|block| Bit::read(style, block))
                    .for_each(|bit| grown.push(&bit));
                Some(grown)
            }
            ContentStyle::Bytes => output(content).map(Self::Bytes),
        }
    }

    /// Appends.
    pub(super) fn push(&mut self, bit: &Bit<'_>) {
        match (self, bit) {
            (Self::List(list), Bit::Text(text)) => list.push_text(text),
            (Self::List(list), Bit::Block(value) | Bit::Item(value)) => list.push(value),
            (Self::Bytes(grown), Bit::Bytes(more)) => grown.data.extend_from_slice(more),
            // A chunk is read in the style of its thing, so the two always agree.
            (Self::List(_), Bit::Bytes(_)) => {}
            (Self::Bytes(_), Bit::Text(_) | Bit::Block(_) | Bit::Item(_)) => {}
        }
    }

    /// Says whether what is there and the bit can be one block.
    pub(super) fn joins(&self, bit: &Bit<'_>) -> bool {
        match (self, bit) {
            (Self::List(list), Bit::Text(_)) => list.tail == Tail::Text,
            (Self::Bytes(_), Bit::Bytes(_)) => true,
            (Self::List(_), Bit::Block(_) | Bit::Item(_) | Bit::Bytes(_)) => false,
            (Self::Bytes(_), Bit::Text(_) | Bit::Block(_) | Bit::Item(_)) => false,
        }
    }

    /// The content as a whole has it.
    pub(super) fn whole(self) -> Json {
        match self {
            Self::List(list) => json(list.finished() + "]"),
            Self::Bytes(mut grown) => {
                grown.output.set("data", Json::of(&STANDARD.encode(&grown.data)));
                grown.output.json()
            }
        }
    }

    /// The content as a chunk has it: its only block, item or string of bytes.
    pub(super) fn piece(self) -> Json {
        match self {
            Self::List(list) => json(list.finished().split_off(1)),
            Self::Bytes(grown) => Json::of(&STANDARD.encode(&grown.data)),
        }
    }
}

/// A JSON array without its closing bracket, and without the end of its last block if that is a plain text.
pub(super) struct List {
    text: String,
    tail: Tail,
}

/// What a list ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// It is empty.
    None,
    /// A plain text block that is still open.
    Text,
    /// Anything else.
    Value,
}

impl List {
    fn push_text(&mut self, text: &str) {
        if self.tail != Tail::Text {
            self.separate();
            self.text.push_str(r#"{"type":"text","text":""#);
        }
        self.text.push_str(text);
        self.tail = Tail::Text;
    }

    fn push(&mut self, value: &RawValue) {
        self.separate();
        self.text.push_str(value.get());
        self.tail = Tail::Value;
    }

    fn separate(&mut self) {
        self.end_text();
        if self.tail != Tail::None {
            self.text.push(',');
        }
    }

    fn end_text(&mut self) {
        if self.tail == Tail::Text {
            self.text.push_str(r#""}"#);
        }
    }

    fn finished(mut self) -> String {
        self.end_text();
        self.text
    }
}

/// Bytes, with what else the object that holds them says.
pub(super) struct Bytes {
    data: Vec<u8>,
    output: Fields,
}

/// The still escaped text of a block that is a text and nothing else.
fn plain_text(block: &RawValue) -> Option<&str> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct PlainText<'a> {
        #[serde(borrow, rename = "type")]
        kind: &'a RawValue,
        #[serde(borrow)]
        text: &'a RawValue,
    }

    // The derived reader would also take an array for the struct.
    let block = Some(block.get()).filter(|text| text.starts_with('{'))?;
    let block: PlainText<'_> = serde_json::from_str(block).ok()?;
    if block.kind.get() != r#""text""# {
        return None;
    }
    block.text.get().strip_prefix('"')?.strip_suffix('"')
}

/// A snapshot of output, if its bytes can be read.
fn output(content: &Json) -> Option<Bytes> {
    let output: Fields = content.read().ok()?;
    let data = bytes(output.get("data")?.raw())?;
    Some(Bytes { data, output })
}

fn bytes(data: &RawValue) -> Option<Vec<u8>> {
    // Read as a string first: some writers escape the slashes of base64.
    let data: String = serde_json::from_str(data.get()).ok()?;
    STANDARD.decode(data).ok()
}

fn json(text: String) -> Json {
    Json::parse(text).expect("values joined by commas are a JSON array")
}
