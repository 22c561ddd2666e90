//! Test helpers that parse converted values with the types of the protocol's schema crate.

use rethread_core::Json;
use serde::{Serialize, de::DeserializeOwned};

pub(super) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

/// Parses the value as `T`.
#[track_caller]
pub(super) fn parses<T: DeserializeOwned>(value: &Json) -> T {
    value.read().unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Parses the value as `T` and checks that nothing was lost.
#[track_caller]
pub(super) fn roundtrips<T: DeserializeOwned + Serialize>(value: &Json) -> T {
    let typed: T = parses(value);
    assert_eq!(serde_json::to_value(&typed).unwrap(), value.value());
    typed
}
