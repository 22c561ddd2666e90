//! What an agent offers against what was chosen in the session. Which choice is made again is decided in the core.

use rethread_core::{Json, Update};

use super::{Link, Offered};
use crate::edge::v1::options::Options;

impl Link {
    /// All options as this agent process tells them; nothing if it has not told them yet.
    #[must_use]
    pub fn offers(&self) -> Option<Json> {
        (self.offered == Offered::Told).then(|| self.options.to_v2())
    }

    /// The same as an update.
    #[must_use]
    pub fn offers_update(&self) -> Option<Update> {
        (self.offered == Offered::Told).then(|| self.options_update())
    }

    /// The choices of an earlier update of the options that this agent does not have.
    #[must_use]
    pub fn lacks(&self, kept: &Json) -> Vec<Lacking> {
        let list = kept.fields().take("configOptions").filter(|_| self.offered == Offered::Told);
        let kept = list.map(|list| Options::from_v2(&list)).unwrap_or_default();
        let choices = kept.iter().filter_map(|option| {
            let (id, value) = (option.text("configId")?, option.get("currentValue")?);
            // Another agent may have another name for it.
            let alike = || self.options.by_category(&option.text("category")?);
            let current = self.options.current(&id).or_else(|| self.options.current(&alike()?));
            let has = current.is_some_and(|current| current.value() == value.value());
            let option = option.text("name").unwrap_or(id);
            (!has).then(|| Lacking { option, wanted: in_words(value), now: current.map(in_words) })
        });
        choices.collect()
    }
}

/// A choice that an agent does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The option, by its name for people.
    pub option: String,
    /// What was chosen.
    pub wanted: String,
    /// What the agent has instead; nothing if it does not offer the option.
    pub now: Option<String>,
}

fn in_words(value: &Json) -> String {
    value.as_string().unwrap_or_else(|| value.text().to_owned())
}
