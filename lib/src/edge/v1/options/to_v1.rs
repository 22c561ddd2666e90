//! Writes the canonical options in the three v1 forms: modes, models and config options.

use rethread_core::{Fields, Json};

use super::super::meta::set_own_meta;
use super::{Options, id_of, select_of};

/// Whether a v1 client supports boolean options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BooleanOptions {
    /// It supports them.
    Offered,
    /// It does not and must not be sent any.
    Withheld,
}

/// The options of a session in the three v1 forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Options {
    /// The modes, if any.
    pub modes: Option<Json>,
    /// The models, if any.
    pub models: Option<Json>,
    /// The config options that the client supports.
    pub config_options: Json,
    /// The ids of the options that the client does not support.
    pub withheld: Vec<String>,
}

impl V1Options {
    /// Adds all three forms to an answer or an update, and lists the withheld options in `_meta.rethread`.
    pub fn write_to(&self, fields: &mut Fields) {
        for (name, view) in [("modes", &self.modes), ("models", &self.models)] {
            if let Some(view) = view {
                fields.set(name, view.clone());
            }
        }
        self.write_config(fields);
    }

    /// Adds only the config options, and lists the withheld ones in `_meta.rethread`.
    pub fn write_config(&self, fields: &mut Fields) {
        fields.set("configOptions", self.config_options.clone());
        if !self.withheld.is_empty() {
            set_own_meta(fields, "withheld", Json::of(&self.withheld));
        }
    }
}

/// Returns the current mode in a canonical `config_option_update`.
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

/// Writes an option as modes or models, which have no groups.
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
