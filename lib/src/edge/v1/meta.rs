//! Helpers for `_meta.rethread` and for members that have no meaning when null. Never changes what others have put into
//! `_meta`.

use rethread_core::{Fields, Json};

/// Sets a member of `_meta.rethread`.
pub(super) fn set_own_meta(fields: &mut Fields, name: &str, value: Json) {
    let mut meta = fields.get("_meta").map(Json::fields).unwrap_or_default();
    let mut ours = meta.get("rethread").map(Json::fields).unwrap_or_default();
    ours.set(name, value);
    meta.set("rethread", ours.json());
    fields.set("_meta", meta.json());
}

/// Removes the given members where they are null.
pub(super) fn drop_nulls(fields: &mut Fields, names: &[&str]) {
    for name in names {
        if fields.get(name).is_some_and(Json::is_null) {
            fields.take(name);
        }
    }
}

/// Returns a member that is present and not null.
pub(super) fn present<'a>(fields: &'a Fields, name: &str) -> Option<&'a Json> {
    fields.get(name).filter(|value| !value.is_null())
}

/// Converts each item of a list; a value that is not a list stays unchanged.
pub(super) fn each(list: &Json, convert: impl Fn(&Json) -> Json) -> Json {
    match list.items() {
        Some(items) => Json::of(&items.iter().map(convert).collect::<Vec<_>>()),
        None => list.clone(),
    }
}
