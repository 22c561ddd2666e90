//! The configuration: `config.toml`, and environment variables for model providers. `file` has the shape of the file,
//! `serve` and `notify` those of its server parts, `providers` adds the environment, `check` finds what is valid and yet wrong, `shown` prints it without secrets.

mod check;
mod file;
mod mistake;
mod notify;
mod providers;
mod serve;
mod shown;

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::Path;

use rethread_assistant::AssistantDefaults;
use rethread_assistant::model::ProviderConfig;

use crate::failure::Failure;

pub(crate) use check::{Problem, Severity, check};
pub(crate) use file::{ASSISTANT, AgentConfig, ConfigFile};
pub(crate) use mistake::{Mistake, nearest};
pub(crate) use notify::{NotifyConfig, NotifyEvent};
pub(crate) use providers::{key_variables, with_environment, with_variables};
pub(crate) use shown::{as_json, as_toml, without_keys, without_password};

/// Reads the file. One that does not exist is empty.
pub(crate) fn read(file: &Path) -> Result<ConfigFile, Mistake> {
    match std::fs::read_to_string(file) {
        Ok(text) => ConfigFile::parse(file, &text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(ConfigFile::default()),
        Err(error) => Err(Mistake::of_file(file, format!("{} cannot be read: {error}", file.display()))),
    }
}

/// Reads the providers of the file, then those that are only in these variables.
pub(crate) fn providers(
    file: &Path,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<ProviderConfig>, String> {
    Ok(with_variables(read(file).map_err(|mistake| mistake.to_string())?.providers, variable))
}

/// Reads after how many days without a change sessions are deleted; nothing if they are kept.
pub(crate) fn keep_days(file: &Path) -> Result<Option<NonZeroU32>, Mistake> {
    Ok(read(file)?.keep_days)
}

/// Reads the address of the store, also from a file that has mistakes elsewhere; nothing for the embedded store.
pub(crate) fn store_address(file: &Path) -> Result<Option<String>, Mistake> {
    let Err(mistake) = read(file).map(|config| config.store) else {
        return Ok(read(file)?.store.map(|store| store.reveal().to_owned()));
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let table = text.parse::<toml::Table>().ok();
    match table.as_ref().and_then(|table| table.get("store")) {
        Some(toml::Value::String(address)) => Ok(Some(address.clone())),
        Some(toml::Value::Table(store)) => match store.get("address") {
            Some(toml::Value::String(address)) => Ok(Some(address.clone())),
            Some(_) => Err(mistake),
            None => Ok(None),
        },
        Some(_) => Err(mistake),
        None if table.is_some() => Ok(None),
        // Not to be read at all: sessions must not go elsewhere than they should.
        None if text.contains("postgres://") || text.contains("postgresql://") => Err(mistake),
        None => Ok(None),
    }
}

/// Reads what new sessions of the assistant begin with. An invalid file is reported when its providers are read.
pub(crate) fn assistant_defaults(file: &Path) -> AssistantDefaults {
    read(file).map(|config| config.assistant).unwrap_or_default()
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::plain(&mistake.to_string()).hint("`rethread config edit` opens the file")
    }
}
