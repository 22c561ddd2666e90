//! One provider: its configuration, its list of models, and the properties of each model.

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

/// What is known from a provider's answers.
#[derive(Clone, Default)]
struct ProviderState {
    /// The list of models, if it has sent one.
    list: Option<Vec<String>>,
    /// Models that it does not list but the user has chosen.
    added: Vec<String>,
    /// Why the last request for the list failed.
    failure: Option<String>,
    /// Context windows, by model id.
    windows: HashMap<String, u64>,
    /// Features that models have rejected.
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

    /// The same provider without its key.
    pub(super) fn without_key(&self) -> Self {
        let config = Arc::new(self.config.as_ref().clone().without_key());
        Self { config, address: self.address.clone(), state: Mutex::new(locked(&self.state).clone()) }
    }

    /// Copies the state of an earlier configuration of the same provider.
    pub(super) fn copy_state(&self, earlier: &Self) {
        if self.config.kind == earlier.config.kind && self.address == earlier.address {
            let state = locked(&earlier.state).clone();
            *locked(&self.state) = state;
        }
    }

    /// Whether the models come from the provider's list. The well-known providers list hundreds, so the catalog is used.
    pub(super) fn must_be_asked(&self) -> bool {
        let elsewhere = self.config.base_url.is_some() || self.config.kind == ProviderKind::Ollama;
        self.config.models.is_empty() && elsewhere
    }

    /// Whether its models come from its list and it has not sent one yet.
    pub(super) fn never_listed(&self) -> bool {
        self.must_be_asked() && locked(&self.state).list.is_none()
    }

    /// Whether a request for its models has ended, with or without a list.
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

    /// Stores the context windows of models.
    pub(super) fn sizes(&self, models: Vec<ListedModel>) {
        let sizes = models.into_iter().filter_map(|model| Some((model.id, model.window?)));
        locked(&self.state).windows.extend(sizes);
    }

    /// Stores why it sent no list. An earlier list stays.
    pub(super) fn not_listed(&self, why: String) {
        locked(&self.state).failure = Some(why);
    }

    /// Why it sent no list, with its name and address.
    pub(super) fn failure(&self) -> Option<String> {
        let why = locked(&self.state).failure.clone()?;
        Some(format!("{} at {}: {why}", self.config.name, config::shown(&self.address)))
    }

    /// Stores that a model rejected a feature.
    pub(super) fn add_unsupported(&self, id: &str, feature: Unsupported) {
        locked(&self.state).unsupported.insert((id.to_owned(), feature));
    }

    /// Adds a model that the user has chosen but the provider does not list.
    pub(super) fn add(&self, id: &str) {
        if !self.ids().iter().any(|listed| listed == id) {
            locked(&self.state).added.push(id.to_owned());
        }
    }

    /// The ids of the configured models, else of the list, else of the catalog; then those that the user added.
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

    /// The properties of a model: the configuration wins over the provider's answers.
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
