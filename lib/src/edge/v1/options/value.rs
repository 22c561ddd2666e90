//! The value of a request that sets an option: the first version tags only booleans, the canonical shape tags all.

use rethread_core::{Fields, Json};

/// The canonical members of a request that sets an option.
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

/// The members of such a request in the first version.
#[must_use]
pub fn value_to_v1(mut params: Fields) -> Fields {
    if params.text("type").as_deref() == Some("id") {
        params.take("type");
    }
    params
}
