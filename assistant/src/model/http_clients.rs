//! The HTTP clients for providers: one for this machine, without a proxy, and one for all other hosts.

use std::sync::OnceLock;

use reqwest::{Client, Url};

use super::ProviderLimits;
use super::error::ModelError;
use super::relay::Relay;
use crate::web;

/// The clients, each created when it is first needed, because that reads the system's certificates.
#[derive(Default)]
pub(super) struct HttpClients {
    here: OnceLock<Client>,
    elsewhere: OnceLock<Client>,
    /// The relay between `genai` and the network.
    pub(super) relay: Relay,
}

impl HttpClients {
    /// The client for a provider's base URL.
    pub(super) fn client(&self, address: &str, limits: &ProviderLimits) -> Result<Client, ModelError> {
        let url = Url::parse(address).map_err(|error| no_client(&error))?;
        let place = if web::is_here(&url) { &self.here } else { &self.elsewhere };
        if let Some(client) = place.get() {
            return Ok(client.clone());
        }
        let made = web::client(&url, limits.connect).build().map_err(|error| no_client(&error))?;
        Ok(place.get_or_init(|| made).clone())
    }
}

fn no_client(error: &dyn std::fmt::Display) -> ModelError {
    ModelError::Config { what: format!("the HTTP client cannot be set up: {error}") }
}
