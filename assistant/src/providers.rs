//! What the assistant knows of the providers: the configuration as it was last read, and whose keys it was told to
//! forget. Reads it, and asks nobody.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rethread::author::{Choices, Login};
use rethread::wire::{RpcError, code};

use crate::choice;
use crate::config::AssistantConfig;
use crate::model::{Model, Models, ProviderConfig, ProviderKind};

/// What is known of the providers.
pub(crate) struct Providers {
    pub(crate) models: Models,
    /// Why there are none, if the configuration makes no sense.
    wrong: Option<String>,
    /// The providers whose key was forgotten. They want it again, also where they could do without.
    forgotten: BTreeSet<String>,
    /// The configuration file, to name it in messages.
    file: Option<PathBuf>,
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
        Self { models, wrong, forgotten: BTreeSet::new(), file }
    }

    /// The same with what the providers told before.
    pub(crate) fn with_state_of(self, earlier: &Self) -> Self {
        Self { models: self.models.with_state_of(&earlier.models), ..self }
    }

    /// The same without any key.
    pub(crate) fn without_keys(&self) -> Self {
        let had_one = self.models.providers().filter(|provider| provider.key().is_some());
        let mut forgotten = self.forgotten.clone();
        forgotten.extend(had_one.map(|provider| provider.name.clone()));
        let (wrong, file) = (self.wrong.clone(), self.file.clone());
        Self { models: self.models.without_keys(), wrong, forgotten, file }
    }

    /// The ways to log in: one for each provider that takes a key.
    pub(crate) fn logins(&self) -> Vec<Login> {
        let takes_one = |provider: &&ProviderConfig| {
            provider.kind.usual_key_env().is_some() || provider.key_env.is_some() || provider.key().is_some()
        };
        self.models.providers().filter(takes_one).map(login).collect()
    }

    /// The variables that keys are kept in.
    pub(crate) fn key_names(&self) -> Vec<String> {
        let of_kind = |kind: ProviderKind| [kind.usual_key_env(), kind.other_key_env()];
        let usual = ProviderKind::ALL.into_iter().flat_map(of_kind).flatten().map(str::to_owned);
        let own = self.models.providers().filter_map(|provider| provider.key_env.clone());
        let names: BTreeSet<_> = usual.chain(own).collect();
        names.into_iter().collect()
    }

    /// The models to choose from, given what was chosen. Those that can be asked come first: the first is the standard.
    pub(crate) fn offer(&self, chosen: &Choices) -> Vec<Model> {
        let mut models = self.models.offer(chosen.get("model"));
        let lacking: BTreeSet<_> = self.lacking().map(|provider| provider.name.as_str()).collect();
        models.sort_by_key(|model| lacking.contains(model.provider.as_str()));
        models
    }

    /// The model that was chosen, if it may be asked.
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

    /// The configuration file, to tell the user.
    pub(crate) fn config_file(&self) -> String {
        self.file.as_ref().map_or_else(|| "config.toml".to_owned(), |file| file.display().to_string())
    }

    /// Refuses a configuration that makes no sense.
    pub(crate) fn check_sense(&self) -> Result<(), RpcError> {
        match &self.wrong {
            Some(why) => Err(RpcError::internal(format!("the configuration is not usable: {why}"))
                .hint(format!("correct {}, then log in or start again", self.config_file()))),
            None => Ok(()),
        }
    }

    /// Refuses to work while every provider lacks its key.
    pub(crate) fn check(&self) -> Result<(), RpcError> {
        self.check_sense()?;
        let usable = self.models.providers().any(|provider| !self.wants_key(provider));
        match self.lacking().next().filter(|_| !usable) {
            Some(provider) => Err(no_key(provider)),
            None => Ok(()),
        }
    }

    /// The providers that cannot be asked before the user gives a key.
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
