//! Proofs for the tests beside the conversions: what was made is read by the schema's own types.

use rethread_core::Json;
use serde::{Serialize, de::DeserializeOwned};

/// Text as JSON.
pub(super) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// Reads the value as `T`.
#[track_caller]
pub(super) fn parses<T: DeserializeOwned>(value: &Json) -> T {
    value.read().unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Reads the value as `T` and finds that `T` has kept all of it.
#[track_caller]
pub(super) fn holds<T: DeserializeOwned + Serialize>(value: &Json) -> T {
    let typed: T = parses(value);
    assert_eq!(serde_json::to_value(&typed).unwrap(), value.value());
    typed
}
