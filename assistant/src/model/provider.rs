//! One provider: how it is configured, what it said of its models itself, and what is true of a model of its.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use rethread::lock::locked;

use super::Model;
use super::catalog::{self, ModelFacts};
use super::config::{self, ProviderConfig, ProviderKind};
use super::unsupported::Unsupported;

pub(super) struct Provider {
    pub(super) config: Arc<ProviderConfig>,
    pub(super) address: String,
    state: Mutex<ProviderState>,
}

/// What a provider has told so far.
#[derive(Clone, Default)]
struct ProviderState {
    /// Its list of models, if it ever gave one.
    list: Option<Vec<String>>,
    /// Models that it does not list and that the user has chosen.
    added: Vec<String>,
    /// Why it named none when it was last asked.
    failure: Option<String>,
    /// How much its models read at a time, as far as it said so.
    windows: HashMap<String, u64>,
    /// What they turned out not to take.
    unsupported: HashSet<(String, Unsupported)>,
}

/// A model of a provider's list.
pub(super) struct ListedModel {
    pub(super) id: String,
    pub(super) window: Option<u64>,
}

impl Provider {
    pub(super) fn new(config: ProviderConfig, address: String) -> Self {
        Self { config: Arc::new(config), address, state: Mutex::default() }
    }

    /// The same provider, whose key was forgotten.
    pub(super) fn without_key(&self) -> Self {
        let config = Arc::new(self.config.as_ref().clone().without_key());
        Self { config, address: self.address.clone(), state: Mutex::new(locked(&self.state).clone()) }
    }

    /// Takes over what an earlier configuration of the same provider was told.
    pub(super) fn copy_state(&self, earlier: &Self) {
        if self.config.kind == earlier.config.kind && self.address == earlier.address {
            let state = locked(&earlier.state).clone();
            *locked(&self.state) = state;
        }
    }

    /// The well-known ones list hundreds, few of them for talking; theirs are in the table or configured.
    pub(super) fn must_be_asked(&self) -> bool {
        let elsewhere = self.config.base_url.is_some() || self.config.kind == ProviderKind::Ollama;
        self.config.models.is_empty() && elsewhere
    }

    /// Whether it has to be asked for its models and never gave a list: it may have any.
    pub(super) fn never_listed(&self) -> bool {
        self.must_be_asked() && locked(&self.state).list.is_none()
    }

    /// Whether it was ever asked for its models, and had time to answer.
    pub(super) fn was_asked(&self) -> bool {
        let state = locked(&self.state);
        state.list.is_some() || state.failure.is_some()
    }

    pub(super) fn listed(&self, models: Vec<ListedModel>) {
        let mut state = locked(&self.state);
        state.windows.extend(models.iter().filter_map(|model| Some((model.id.clone(), model.window?))));
        state.failure = models.is_empty().then(|| "it lists no models".to_owned());
        state.list = Some(models.into_iter().map(|model| model.id).collect());
    }

    /// How much some of its models read at a time.
    pub(super) fn sizes(&self, models: Vec<ListedModel>) {
        let sizes = models.into_iter().filter_map(|model| Some((model.id, model.window?)));
        locked(&self.state).windows.extend(sizes);
    }

    /// It gave no list. What it told before stays.
    pub(super) fn not_listed(&self, why: String) {
        locked(&self.state).failure = Some(why);
    }

    /// Why it last gave no list, in a line that names it and its address.
    pub(super) fn failure(&self) -> Option<String> {
        let why = locked(&self.state).failure.clone()?;
        Some(format!("{} at {}: {why}", self.config.name, config::shown(&self.address)))
    }

    /// A model turned out not to take something.
    pub(super) fn add_unsupported(&self, id: &str, feature: Unsupported) {
        locked(&self.state).unsupported.insert((id.to_owned(), feature));
    }

    /// The user has chosen a model that it may have all the same.
    pub(super) fn add(&self, id: &str) {
        if !self.ids().iter().any(|listed| listed == id) {
            locked(&self.state).added.push(id.to_owned());
        }
    }

    /// What was configured; else what the provider listed; else what is known of its kind. Then what the user added.
    pub(super) fn ids(&self) -> Vec<String> {
        let mut ids = self.listed_ids();
        let added = locked(&self.state).added.clone();
        ids.extend(added.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        ids
    }

    fn listed_ids(&self) -> Vec<String> {
        if !self.config.models.is_empty() {
            return self.config.models.iter().map(|model| model.id.clone()).collect();
        }
        match locked(&self.state).list.clone() {
            Some(list) => list,
            None if self.config.base_url.is_none() => {
                catalog::ids(self.config.kind).map(str::to_owned).collect()
            }
            None => Vec::new(),
        }
    }

    /// What is true of a model: what is configured wins, then what the provider says of its own.
    pub(super) fn facts(&self, id: &str) -> ModelFacts {
        let mut facts = catalog::facts(&self.config, id);
        let configured =
            self.config.models.iter().any(|model| model.id == id && model.context_window.is_some());
        if let Some(window) = locked(&self.state).windows.get(id).filter(|_| !configured) {
            facts.window = Some(*window);
        }
        let state = locked(&self.state);
        let unsupported = |feature| state.unsupported.contains(&(id.to_owned(), feature));
        facts.takes_temperature &= !unsupported(Unsupported::Temperature);
        facts.takes_tools &= !unsupported(Unsupported::Tools);
        facts.takes_images &= !unsupported(Unsupported::Images);
        facts.shows_thoughts &= !unsupported(Unsupported::Thoughts);
        facts
    }

    pub(super) fn model(&self, id: &str) -> Model {
        let facts = self.facts(id);
        Model {
            id: format!("{}/{id}", self.config.name),
            name: facts.name,
            provider: self.config.name.clone(),
            context_window: facts.window,
            max_output: facts.most_output,
            price: facts.price,
            efforts: facts.efforts,
            takes_temperature: facts.takes_temperature,
            max_tools: facts.max_tools,
        }
    }
}
