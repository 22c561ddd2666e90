//! Shows the canonical options in the three views of the first version, always in step with each other.

use rethread_core::{Fields, Json};

use super::super::meta::remark;
use super::{Options, id_of, select_of};

/// Whether the client takes options that are on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BooleanOptions {
    /// It said so.
    Offered,
    /// It did not: it must not be sent any.
    Withheld,
}

/// The options of a session as the first version shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Options {
    /// The modes, if there are any.
    pub modes: Option<Json>,
    /// The models, if there are any.
    pub models: Option<Json>,
    /// The config options that this client can be shown.
    pub config_options: Json,
    /// The ids of those that it cannot be shown.
    pub withheld: Vec<String>,
}

impl V1Options {
    /// Adds the views to an answer or an update, and a remark on what was withheld.
    pub fn write_to(&self, fields: &mut Fields) {
        for (name, view) in [("modes", &self.modes), ("models", &self.models)] {
            if let Some(view) = view {
                fields.set(name, view.clone());
            }
        }
        self.write_config(fields);
    }

    /// Adds the config options only, and a remark on what was withheld.
    pub fn write_config(&self, fields: &mut Fields) {
        fields.set("configOptions", self.config_options.clone());
        if !self.withheld.is_empty() {
            remark(fields, "withheld", Json::of(&self.withheld));
        }
    }
}

/// The current mode that a canonical `config_option_update` names.
#[must_use]
pub fn current_mode(body: &Json) -> Option<String> {
    let options = Options::from_v2(body.fields().get("configOptions")?);
    select_of(&options.0, "mode")?.text("currentValue")
}

pub(super) fn views(list: &[Fields], booleans: BooleanOptions) -> V1Options {
    let (shown, withheld): (Vec<&Fields>, Vec<&Fields>) =
        list.iter().partition(|option| is_shown(option, booleans));
    let config: Vec<Fields> = shown.into_iter().map(option_to_v1).collect();
    V1Options {
        modes: select_of(list, "mode").map(|option| view(option, "currentModeId", "availableModes", "id")),
        models: select_of(list, "model")
            .map(|option| view(option, "currentModelId", "availableModels", "modelId")),
        config_options: Json::of(&config),
        withheld: withheld.into_iter().map(id_of).collect(),
    }
}

fn is_shown(option: &Fields, booleans: BooleanOptions) -> bool {
    match (option.text("type").as_deref(), booleans) {
        (Some("select"), _) | (Some("boolean"), BooleanOptions::Offered) => true,
        (_, BooleanOptions::Offered | BooleanOptions::Withheld) => false,
    }
}

fn option_to_v1(option: &Fields) -> Fields {
    let mut option = option.clone();
    option.rename("configId", "id");
    if let Some(values) = option.get("options").and_then(Json::items) {
        let values: Vec<Json> = values.iter().map(group_to_v1).collect();
        option.set("options", Json::of(&values));
    }
    option
}

fn group_to_v1(value: &Json) -> Json {
    let mut fields = value.fields();
    if fields.get("groupId").is_none() {
        return value.clone();
    }
    fields.rename("groupId", "group");
    fields.json()
}

/// One of the two older views of an option, which know no groups.
fn view(option: &Fields, current: &str, available: &str, id: &str) -> Json {
    let values = option.get("options").and_then(Json::items).unwrap_or_default();
    let values: Vec<Fields> = values.iter().flat_map(ungroup).map(|value| renamed(value, id)).collect();
    let value = option.get("currentValue").cloned().unwrap_or_else(|| Json::of(""));
    let mut view: Fields = [(current, value), (available, Json::of(&values))].into_iter().collect();
    if let Some(meta) = option.get("_meta") {
        view.set("_meta", meta.clone());
    }
    view.json()
}

fn ungroup(value: &Json) -> Vec<Fields> {
    let fields = value.fields();
    match fields.get("options").and_then(Json::items) {
        Some(inner) if fields.get("groupId").is_some() => inner.iter().map(Json::fields).collect(),
        Some(_) | None => vec![fields],
    }
}

fn renamed(mut value: Fields, id: &str) -> Fields {
    value.rename("value", id);
    value
}
