//! The capabilities of a client: decodes its `initialize` request, selects the version, and encodes the request for the
//! agent.

use rethread_core::{Fields, Json};
use serde_json::json;

use super::has_object;
use crate::edge::Version;
use crate::edge::air::AirClient;
use crate::edge::params::Params;
use crate::edge::v1::options::BooleanOptions;
use crate::edge::v1::plan::PlanForm;
use crate::edge::v1::{Compaction, Notices, Subagents};
use crate::wire::{RpcError, code};

/// What a client reported in `initialize`.
#[derive(Clone, Debug)]
pub struct ClientProfile {
    /// The version that the connection uses.
    pub version: Version,
    info: Option<Json>,
    capabilities: Fields,
    air: Option<AirClient>,
}

impl ClientProfile {
    /// Decodes `initialize` and selects the version: 1 for 1, 2 for anything higher, an error for 0.
    pub fn read(params: &Params) -> Result<Self, RpcError> {
        let requested = params.get("protocolVersion").and_then(|version| version.read::<u64>().ok());
        match requested {
            Some(1) => {
                let capabilities = params.get("clientCapabilities").map(Json::fields).unwrap_or_default();
                Ok(Self::of(Version::V1, params.get("clientInfo").cloned(), capabilities))
            }
            Some(0) => Err(RpcError::new(code::UNSUPPORTED_VERSION, "protocol version 0 is not supported")
                .with("requested", 0)
                .with("supported", json!([1, 2]))),
            Some(version) => Self::read_v2(params, version),
            None => Err(params.wrong("protocolVersion", "a whole number from 1 to 65535")),
        }
    }

    /// Version 2 is checked strictly; newer versions are read as far as possible.
    fn read_v2(params: &Params, requested: u64) -> Result<Self, RpcError> {
        let named = params
            .get("info")
            .map(Json::fields)
            .is_some_and(|info| info.text("name").is_some() && info.text("version").is_some());
        if requested == 2 && !named {
            return Err(params.wrong("info", "an object with name and version"));
        }
        if requested > u64::from(u16::MAX) {
            return Err(params.wrong("protocolVersion", "a whole number from 1 to 65535"));
        }
        let info = params.get("info").filter(|_| named).cloned();
        let unknown = || json!({"name": "unknown", "version": "unknown"}).into();
        let capabilities = params.get("capabilities").map(Json::fields).unwrap_or_default();
        Ok(Self::of(Version::V2, Some(info.unwrap_or_else(unknown)), capabilities))
    }

    fn of(version: Version, info: Option<Json>, capabilities: Fields) -> Self {
        let air = AirClient::read(&capabilities);
        Self { version, info, capabilities, air }
    }

    /// What a JetBrains AIR client has declared; nothing if it is none.
    #[must_use]
    pub fn air(&self) -> Option<&AirClient> {
        self.air.as_ref()
    }

    /// The version that the client gave itself.
    #[must_use]
    pub fn program_version(&self) -> Option<String> {
        self.info.as_ref()?.fields().text("version").filter(|version| !version.is_empty())
    }

    /// The `initialize` parameters that offer `offer` to the agent on behalf of this client.
    #[must_use]
    pub fn initialize_params(&self, offer: Version) -> Json {
        let info = self
            .info
            .clone()
            .unwrap_or_else(|| json!({"name": "rethread", "version": env!("CARGO_PKG_VERSION")}).into());
        let mut params: Fields = [
            ("protocolVersion", json!(offer.number()).into()),
            ("clientCapabilities", self.capabilities_v1().json()),
            ("clientInfo", info.clone()),
        ]
        .into_iter()
        .collect();
        // A v1 agent answers an offer of 2 with 1. It must find the v1 members too, or it would assume that the client
        // has no capabilities.
        if offer == Version::V2 {
            params.set("info", info);
            params.set("capabilities", self.capabilities_v2().json());
        }
        params.json()
    }

    /// What an agent is offered in this client's name, whatever version it is offered in: clients that offer the same
    /// can share an agent process.
    #[must_use]
    pub fn offers(&self) -> String {
        let version = self.version.number();
        format!("{version} {} {}", self.capabilities_v1().json(), self.capabilities_v2().json())
    }

    /// The name that the client gave itself.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let info = self.info.as_ref()?.fields();
        info.text("title").or_else(|| info.text("name")).filter(|name| !name.is_empty())
    }

    /// Says whether the client itself carries out this method of version 1 for an agent.
    #[must_use]
    pub fn serves(&self, method: &str) -> bool {
        let fs = || self.capabilities.get("fs").map(Json::fields).unwrap_or_default();
        let is_true = |value: Option<&Json>| value.is_some_and(|value| value.text() == "true");
        match (self.version, method) {
            (Version::V2, _) => false,
            (Version::V1, "fs/read_text_file") => is_true(fs().get("readTextFile")),
            (Version::V1, "fs/write_text_file") => is_true(fs().get("writeTextFile")),
            (Version::V1, _) => is_true(self.capabilities.get("terminal")),
        }
    }

    fn capabilities_v1(&self) -> Fields {
        match self.version {
            Version::V1 => self.capabilities.clone(),
            Version::V2 => {
                let mut fields: Fields = [
                    // The client has none of these; Rethread provides them.
                    ("fs", json!({"readTextFile": true, "writeTextFile": true}).into()),
                    ("terminal", json!(true).into()),
                    (
                        "session",
                        json!({"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}}).into(),
                    ),
                    ("plan", json!({}).into()),
                    ("subagents", json!({}).into()),
                ]
                .into_iter()
                .collect();
                if let Some(elicitation) = self.capabilities.get("elicitation") {
                    fields.set("elicitation", elicitation.clone());
                }
                if let Some(auth) = self.capabilities.get("auth").map(Json::fields) {
                    fields.set("auth", json!({"terminal": has_object(&auth, "terminal")}).into());
                }
                self.forward_meta(&mut fields);
                fields
            }
        }
    }

    fn capabilities_v2(&self) -> Fields {
        match self.version {
            Version::V2 => self.capabilities.clone(),
            Version::V1 => {
                let mut fields = Fields::new();
                let auth = self.capabilities.get("auth").map(Json::fields).unwrap_or_default();
                if auth.get("terminal").is_some_and(|value| value.text() == "true") {
                    fields.set("auth", json!({"terminal": {}}).into());
                }
                if let Some(elicitation) = self.capabilities.get("elicitation") {
                    fields.set("elicitation", elicitation.clone());
                }
                self.forward_meta(&mut fields);
                fields
            }
        }
    }

    /// Forwards the `_meta` of the capabilities in either version.
    fn forward_meta(&self, to: &mut Fields) {
        if let Some(meta) = self.capabilities.get("_meta").filter(|meta| !meta.is_null()) {
            to.set("_meta", meta.clone());
        }
    }

    fn session(&self) -> Fields {
        self.capabilities.get("session").map(Json::fields).unwrap_or_default()
    }

    /// Whether a v1 client supports boolean options.
    #[must_use]
    pub fn booleans(&self) -> BooleanOptions {
        let options = self.session().get("configOptions").map(Json::fields).unwrap_or_default();
        match has_object(&options, "boolean") {
            true => BooleanOptions::Offered,
            false => BooleanOptions::Withheld,
        }
    }

    /// Whether a v1 client supports notices.
    #[must_use]
    pub fn notices(&self) -> Notices {
        if has_object(&self.session(), "notices") { Notices::Accepted } else { Notices::AsText }
    }

    /// Whether a v1 client supports compaction updates.
    #[must_use]
    pub fn compaction(&self) -> Compaction {
        if has_object(&self.session(), "compaction") { Compaction::Accepted } else { Compaction::AsText }
    }

    /// Whether a v1 client supports plans with ids.
    #[must_use]
    pub fn plan(&self) -> PlanForm {
        if has_object(&self.capabilities, "plan") { PlanForm::Native } else { PlanForm::Entries }
    }

    /// Whether a v1 client supports sub-agent updates.
    #[must_use]
    pub fn subagents(&self) -> Subagents {
        if has_object(&self.capabilities, "subagents") { Subagents::Accepted } else { Subagents::Withheld }
    }

    /// Returns whether the client can answer an elicitation with these parameters. A client that declares elicitation
    /// without modes takes forms.
    #[must_use]
    pub fn supports_elicitation(&self, params: &Json) -> bool {
        if !has_object(&self.capabilities, "elicitation") {
            return false;
        }
        let modes = self.capabilities.get("elicitation").map(Json::fields).unwrap_or_default();
        let mode = params.fields().text("mode").unwrap_or_else(|| "form".to_owned());
        let none = !has_object(&modes, "form") && !has_object(&modes, "url");
        has_object(&modes, &mode) || (none && mode == "form")
    }
}
