//! The members of a JSON object that is only read: names and values are borrowed from its text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object in the order they came, repeated names and all.
#[derive(Debug, Default)]
pub struct RawMembers<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string that is copied only if it has escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> RawMembers<'a> {
    /// The members of a value, or none if it is not an object.
    #[must_use]
    pub fn of(value: &'a RawValue) -> Self {
        serde_json::from_str(value.get()).unwrap_or_default()
    }

    /// The value of a member. The last of several members of one name counts, as everywhere in JSON.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The value of a member, if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let BorrowedText(text) = serde_json::from_str(self.get(name)?.get()).ok()?;
        Some(text)
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(4);
                while let Some((BorrowedText(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(RawMembers(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use crate::Json;

    #[test]
    fn members_are_found_by_their_decoded_names_and_the_last_counts() {
        let json =
            Json::parse(r#"{"a":1,"\u0062":"t\n","a":{"c":2},"n":null}"#.to_owned()).expect("it is JSON");
        let members = json.members();
        assert_eq!(members.get("a").map(|value| value.get()), Some(r#"{"c":2}"#));
        assert_eq!(members.text("b").as_deref(), Some("t\n"));
        assert_eq!((members.text("a"), members.text("n"), members.get("x").is_none()), (None, None, true));
        assert_eq!(members.iter().count(), 4);
        assert_eq!(Json::parse("[1]".to_owned()).expect("it is JSON").members().iter().count(), 0);
    }
}
