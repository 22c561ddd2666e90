//! Compares the options that an agent offers with those that were chosen in the session. Which choice is requested
//! again is decided in the core.

use rethread_core::{Json, Update};

use super::{AgentTranslator, OptionReport};
use crate::edge::v1::options::Options;

impl AgentTranslator {
    /// Returns all options that this agent process offers, or `None` if it has not reported them yet.
    #[must_use]
    pub fn offered_options(&self) -> Option<Json> {
        (self.option_report == OptionReport::Received).then(|| self.options.to_v2())
    }

    /// Returns the offered options as a `config_option_update`.
    #[must_use]
    pub fn offered_options_update(&self) -> Option<Update> {
        (self.option_report == OptionReport::Received).then(|| self.options_update())
    }

    /// Returns the choices in `kept`, an earlier `config_option_update`, that differ from the agent's current values.
    #[must_use]
    pub fn missing_choices(&self, kept: &Json) -> Vec<MissingChoice> {
        let list =
            kept.fields().take("configOptions").filter(|_| self.option_report == OptionReport::Received);
        let kept = list.map(|list| Options::from_v2(&list)).unwrap_or_default();
        let choices = kept.iter().filter_map(|option| {
            let (id, value) = (option.text("configId")?, option.get("currentValue")?);
            // Another agent may use a different id for an option of the same category.
            let alike = || self.options.by_category(&option.text("category")?);
            let current = self.options.current(&id).or_else(|| self.options.current(&alike()?));
            let has = current.is_some_and(|current| current.value() == value.value());
            let option = option.text("name").unwrap_or(id);
            (!has).then(|| MissingChoice { option, wanted: in_words(value), now: current.map(in_words) })
        });
        choices.collect()
    }
}

/// A chosen value that the agent does not currently have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingChoice {
    /// The display name of the option.
    pub option: String,
    /// The value that was chosen.
    pub wanted: String,
    /// The agent's current value; `None` if it does not offer the option.
    pub now: Option<String>,
}

fn in_words(value: &Json) -> String {
    value.as_string().unwrap_or_else(|| value.text().to_owned())
}
