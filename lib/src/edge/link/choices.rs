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

    /// The choices of an earlier update of the options that this agent does not have, as `option=value`.
    #[must_use]
    pub fn lacks(&self, kept: &Json) -> Vec<String> {
        let list = kept.fields().take("configOptions").filter(|_| self.offered == Offered::Told);
        let kept = list.map(|list| Options::from_v2(&list)).unwrap_or_default();
        let choices = kept.iter().filter_map(|option| {
            let (id, value) = (option.text("configId")?, option.get("currentValue")?);
            // Another agent may have another name for it.
            let alike = || self.options.by_category(&option.text("category")?);
            let current = self.options.current(&id).or_else(|| self.options.current(&alike()?));
            let has = current.is_some_and(|current| current.value() == value.value());
            (!has).then(|| format!("{id}={value}"))
        });
        choices.collect()
    }
}
