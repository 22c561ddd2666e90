//! Converts the value of a request that sets an option: version 1 has a type only on booleans, the canonical form
//! always has one.

use rethread_core::{Fields, Json};

/// Converts the members of a v1 request to canonical form.
#[must_use]
pub fn value_from_v1(mut params: Fields) -> Fields {
    let value = params.get("value").map_or("", Json::text);
    if matches!(value, "true" | "false") {
        params.set("type", Json::of("boolean"));
    } else if value.starts_with('"') {
        params.set("type", Json::of("id"));
    }
    params
}

/// Converts the members of a canonical request to v1.
#[must_use]
pub fn value_to_v1(mut params: Fields) -> Fields {
    if params.text("type").as_deref() == Some("id") {
        params.take("type");
    }
    params
}
