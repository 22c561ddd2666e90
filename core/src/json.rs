//! JSON kept as the text it came in, so that what nobody here understands travels on untouched.
//! Holds no meaning of any field.

mod members;

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use members::RawMembers;

/// One JSON value as text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

/// Text that is not one JSON value, or not of the asked shape.
#[derive(Debug, thiserror::Error)]
#[error("not the expected JSON: {0}")]
pub struct JsonError(#[from] serde_json::Error);

impl Json {
    /// Takes text that must be one JSON value.
    pub fn parse(text: String) -> Result<Self, JsonError> {
        Ok(Self(RawValue::from_string(text)?))
    }

    /// Writes a value that always serialises: one built from strings, numbers, maps with text keys.
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("plain data always serialises"))
    }

    /// The text of the value.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The raw value, to be embedded or borrowed from.
    #[must_use]
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// Reads the value as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(self.0.get())?)
    }

    /// The value as a tree. Some valid text has none (a number out of range, half of a surrogate pair, a very
    /// deep nest): it comes back as a string of itself, so what must stay exact is never built this way.
    #[must_use]
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(self.0.get()).unwrap_or_else(|_| self.0.get().into())
    }

    /// The members of the value, or none if it is not an object.
    #[must_use]
    pub fn fields(&self) -> Fields {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }

    /// The members of the value without copies, or none if it is not an object.
    #[must_use]
    pub fn members(&self) -> RawMembers<'_> {
        RawMembers::of(self.raw())
    }

    /// The items of the value without copies, or `None` if it is not an array.
    #[must_use]
    pub fn raw_items(&self) -> Option<Vec<&RawValue>> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The items of the value, or `None` if it is not an array.
    #[must_use]
    pub fn items(&self) -> Option<Vec<Json>> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The value as a string, if it is one.
    #[must_use]
    pub fn as_string(&self) -> Option<String> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// Says whether the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.get() == "null"
    }
}

impl From<JsonError> for serde_json::Error {
    fn from(error: JsonError) -> Self {
        error.0
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::of(&value)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// How many members are looked through one by one.
const FEW: usize = 16;

/// The members of a JSON object in the order they came, each value untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Json)>);

impl Fields {
    /// No members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The value of a member, if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_string()
    }

    /// Sets a member, in its old place if it was there.
    pub fn set(&mut self, name: &str, value: Json) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes a member out.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Renames a member and keeps its place.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some((key, _)) = self.0.iter_mut().find(|(key, _)| key == from) {
            to.clone_into(key);
        }
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Says whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a member is. `places` has the members that were looked for so far, once there are many of them.
    fn place(&self, name: &str, places: &mut HashMap<String, usize>) -> Option<usize> {
        if self.0.len() <= FEW {
            return self.0.iter().position(|(key, _)| key == name);
        }
        for (at, (key, _)) in self.0.iter().enumerate().skip(places.len()) {
            places.insert(key.clone(), at);
        }
        places.get(name).copied()
    }

    /// The object as one value.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::of(self)
    }
}

impl<K: Into<String>> FromIterator<(K, Json)> for Fields {
    fn from_iter<I: IntoIterator<Item = (K, Json)>>(members: I) -> Self {
        Self(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::new();
                let mut places = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    // The last of several members of one name counts, as everywhere in JSON.
                    match fields.place(&key, &mut places) {
                        Some(place) => fields.0[place].1 = value,
                        None => fields.0.push((key, value)),
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Members)
    }
}
