//! Converts modes, models and config options of a v1 agent to one canonical list of options.

use rethread_core::{Fields, Json};

use super::super::meta::{drop_nulls, present};
use super::{Options, Source, Sources, id_of, select_of};

/// The member names of modes or models, the older forms of an option.
struct LegacySelector {
    source: Source,
    category: &'static str,
    name: &'static str,
    current: &'static str,
    available: &'static str,
    id: &'static str,
}

const MODES: LegacySelector = LegacySelector {
    source: Source::Mode,
    category: "mode",
    name: "Mode",
    current: "currentModeId",
    available: "availableModes",
    id: "id",
};

const MODELS: LegacySelector = LegacySelector {
    source: Source::Model,
    category: "model",
    name: "Model",
    current: "currentModelId",
    available: "availableModels",
    id: "modelId",
};

pub(super) fn merge(
    modes: Option<&Json>,
    models: Option<&Json>,
    config_options: Option<&Json>,
) -> (Options, Sources) {
    let mut list = config_options.map(list_from_v1).unwrap_or_default();
    let mut sources = Sources::default();
    for (selector, state) in [(MODES, modes), (MODELS, models)] {
        let Some(state) = state.map(Json::fields).filter(|state| !state.is_empty()) else { continue };
        // A config option of the same category is the newer form of the same option.
        if select_of(&list, selector.category).is_none() {
            let option = selector.option(state, &list);
            sources.0.push((id_of(&option), selector.source));
            list.push(option);
        }
    }
    (Options(list), sources)
}

/// Converts a list of v1 config options to canonical options.
#[must_use]
pub fn list_from_v1(config_options: &Json) -> Vec<Fields> {
    let items = config_options.items().unwrap_or_default();
    items.iter().map(|option| option_from_v1(option.fields())).collect()
}

fn option_from_v1(mut option: Fields) -> Fields {
    option.rename("id", "configId");
    drop_nulls(&mut option, &["description", "category", "_meta"]);
    if let Some(values) = option.get("options").and_then(Json::items) {
        let values: Vec<Json> = values.iter().map(group_from_v1).collect();
        option.set("options", Json::of(&values));
    }
    option
}

fn group_from_v1(value: &Json) -> Json {
    let mut fields = value.fields();
    if fields.get("group").is_none() {
        return value.clone();
    }
    fields.rename("group", "groupId");
    fields.json()
}

impl LegacySelector {
    fn option(&self, mut state: Fields, taken: &[Fields]) -> Fields {
        let current = state.take(self.current).unwrap_or_else(|| Json::of(""));
        let available = state.take(self.available).and_then(|list| list.items()).unwrap_or_default();
        let values: Vec<Json> = available.iter().map(|value| self.value(value.fields())).collect();
        let mut option: Fields = [
            ("configId", Json::of(&self.free_id(taken))),
            ("name", Json::of(self.name)),
            ("category", Json::of(self.category)),
            ("type", Json::of("select")),
            ("currentValue", current),
            ("options", Json::of(&values)),
        ]
        .into_iter()
        .collect();
        drop_nulls(&mut state, &["_meta"]);
        for (name, value) in state.iter().filter(|(name, _)| *name == "_meta") {
            option.set(name, value.clone());
        }
        option
    }

    fn free_id(&self, taken: &[Fields]) -> String {
        let mut id = self.category.to_owned();
        while taken.iter().any(|option| id_of(option) == id) {
            id.insert(0, '_');
        }
        id
    }

    fn value(&self, mut value: Fields) -> Json {
        value.rename(self.id, "value");
        drop_nulls(&mut value, &["description", "_meta"]);
        if present(&value, "name").is_none() {
            let id = value.get("value").cloned().unwrap_or_else(|| Json::of(""));
            value.set("name", id);
        }
        value.json()
    }
}
