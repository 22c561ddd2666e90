//! Asking providers which models they have. A provider that does not say so in time has none to add.

use futures::future::join_all;
use genai::resolver::{AuthData, Endpoint, ProviderConfig as Target};

use crate::lock::locked;

use super::config::ProviderKind;
use super::{Models, Provider, target};

impl Models {
    /// Asks every provider that has to be asked, side by side and for a bounded time. `list` tells what came of it.
    pub async fn discover(&self) {
        let asked = self.providers.iter().filter(|provider| provider.must_be_asked());
        join_all(asked.map(|provider| self.ask_for_models(provider))).await;
    }

    async fn ask_for_models(&self, provider: &Provider) {
        let Ok(client) = self.client() else { return };
        let auth = match provider.config.key() {
            Some(key) => AuthData::from_single(key.reveal()),
            None => AuthData::None,
        };
        let at = Target { endpoint: Some(Endpoint::from_owned(provider.address.as_str())), auth: Some(auth) };
        let names = client.all_model_names(target::adapter(provider.config.kind), at);
        // Whether it is down, slow or has no such list: what was known stays.
        if let Ok(Ok(names)) = tokio::time::timeout(self.patience.listing, names).await {
            *locked(&provider.found) = names.into_iter().filter(|name| !name.is_empty()).collect();
        }
    }
}

impl Provider {
    /// The well-known ones list hundreds, few of them for talking; theirs are in the table or configured.
    fn must_be_asked(&self) -> bool {
        let elsewhere = self.config.base_url.is_some() || self.config.kind == ProviderKind::Ollama;
        self.config.models.is_empty() && elsewhere
    }
}
