//! The configured providers: the configuration as it was last read, logins, and which keys a logout removed. Sends no
//! requests.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rethread::author::{Choices, Login};
use rethread::wire::{RpcError, code};

use crate::choice;
use crate::config::AssistantConfig;
use crate::model::{Model, Models, ProviderConfig, ProviderKind};

/// The configured providers and their models.
pub(crate) struct Providers {
    pub(crate) models: Models,
    /// Why the configuration is invalid, if it is.
    wrong: Option<String>,
    /// The providers whose key a logout removed. They need a login, also if their key is optional.
    forgotten: BTreeSet<String>,
    /// The configuration file, for messages.
    file: Option<PathBuf>,
    /// The full id of the model that new sessions have.
    default_model: Option<String>,
}

impl Providers {
    /// Reads the configuration.
    pub(crate) fn read(config: &AssistantConfig) -> Self {
        let file = config.config_file.clone();
        let in_file = |provider| ProviderConfig { file: file.clone(), ..provider };
        let read = (config.providers)().map(|providers| providers.into_iter().map(in_file).collect());
        let models = read.and_then(|providers| Models::new(providers).map_err(|error| error.to_string()));
        let (models, wrong) = match models {
            Ok(models) => (models.with_limits(config.provider_limits.clone()), None),
            Err(why) => (Models::default(), Some(why)),
        };
        let default_model = config.defaults.model.clone();
        default_model.iter().for_each(|id| models.keep(id));
        Self { models, wrong, forgotten: BTreeSet::new(), file, default_model }
    }

    /// The same providers with the model lists of an earlier configuration.
    pub(crate) fn with_state_of(self, earlier: &Self) -> Self {
        Self { models: self.models.with_state_of(&earlier.models), ..self }
    }

    /// The same providers without their keys.
    pub(crate) fn without_keys(&self) -> Self {
        let had_one = self.models.providers().filter(|provider| provider.key().is_some());
        let mut forgotten = self.forgotten.clone();
        forgotten.extend(had_one.map(|provider| provider.name.clone()));
        let (wrong, file, default_model) =
            (self.wrong.clone(), self.file.clone(), self.default_model.clone());
        Self { models: self.models.without_keys(), wrong, forgotten, file, default_model }
    }

    /// The login methods: one for each provider that has a key.
    pub(crate) fn logins(&self) -> Vec<Login> {
        let takes_one = |provider: &&ProviderConfig| {
            provider.kind.usual_key_env().is_some() || provider.key_env.is_some() || provider.key().is_some()
        };
        self.models.providers().filter(takes_one).map(login).collect()
    }

    /// The environment variables that hold keys.
    pub(crate) fn key_names(&self) -> Vec<String> {
        let of_kind = |kind: ProviderKind| [kind.usual_key_env(), kind.other_key_env()];
        let usual = ProviderKind::ALL.into_iter().flat_map(of_kind).flatten().map(str::to_owned);
        let own = self.models.providers().filter_map(|provider| provider.key_env.clone());
        let names: BTreeSet<_> = usual.chain(own).collect();
        names.into_iter().collect()
    }

    /// The models to choose from. Those with a key come first, and of those the configured default, since the first one
    /// is the default. The models of a provider stay together.
    pub(crate) fn offer(&self, chosen: &Choices) -> Vec<Model> {
        let default = self.default_model.as_deref();
        let mut models = self.models.offer(chosen.get("model").or(default));
        let lacking: BTreeSet<_> = self.lacking().map(|provider| provider.name.as_str()).collect();
        let default_provider = default.and_then(|id| id.split_once('/')).map(|(provider, _)| provider);
        models.sort_by_key(|model| {
            let of_default = Some(model.provider.as_str()) == default_provider;
            let is_default = Some(model.id.as_str()) == default;
            (lacking.contains(model.provider.as_str()), !of_default, !is_default)
        });
        models
    }

    /// The chosen model; fails if its provider has no key.
    pub(crate) fn chosen(&self, choices: &Choices) -> Result<Model, RpcError> {
        let listed = self.offer(choices);
        let model = choice::model(&listed, choices).cloned();
        let model = model.ok_or_else(|| RpcError::internal("no model is configured"))?;
        let provider = self.models.providers().find(|provider| provider.name == model.provider);
        match provider.filter(|provider| self.wants_key(provider)) {
            Some(provider) => Err(no_key(provider)),
            None => Ok(model),
        }
    }

    /// The name of the configuration file, for messages.
    pub(crate) fn config_file(&self) -> String {
        self.file.as_ref().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string())
    }

    /// Fails if the configuration is invalid.
    pub(crate) fn check_config(&self) -> Result<(), RpcError> {
        match &self.wrong {
            Some(why) => Err(RpcError::internal(format!("the configuration is invalid: {why}"))
                .hint(format!("correct {}, then log in again or restart", self.config_file()))),
            None => Ok(()),
        }
    }

    /// Fails if the configuration is invalid or no provider has a key that it needs.
    pub(crate) fn check(&self) -> Result<(), RpcError> {
        self.check_config()?;
        let usable = self.models.providers().any(|provider| !self.wants_key(provider));
        match self.lacking().next().filter(|_| !usable) {
            Some(provider) => Err(no_key(provider)),
            None => Ok(()),
        }
    }

    /// The providers that need a key and have none.
    fn lacking(&self) -> impl Iterator<Item = &ProviderConfig> {
        self.models.providers().filter(|provider| self.wants_key(provider))
    }

    fn wants_key(&self, provider: &ProviderConfig) -> bool {
        provider.lacks_key() || self.forgotten.contains(&provider.name)
    }
}

/// The error about a provider that has no key.
pub(crate) fn no_key(provider: &ProviderConfig) -> RpcError {
    RpcError::new(code::AUTH_REQUIRED, format!("provider {} has no API key", provider.name))
        .hint(login(provider).description)
}

fn login(provider: &ProviderConfig) -> Login {
    let (name, file) = (&provider.name, provider.file_name());
    let variable = provider.key_variable().map(|variable| {
        format!("Set {variable} in the environment that rethread is started in, or `key` of provider {name} in {file}")
    });
    let what = variable.unwrap_or_else(|| {
        format!("Set `key` of provider {name} in {file}, or name the variable that has it in `key_env`")
    });
    Login {
        id: name.clone(),
        name: format!("API key of {name}"),
        description: format!("{what}, then log in."),
    }
}
