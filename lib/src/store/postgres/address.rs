//! The address of a PostgreSQL store: `postgres://user:password@host:port/database?options`. Options are those of the
//! driver, and `sslmode` and `sslrootcert`. The password is never shown.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// How long connecting may take, unless the address says something else.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long sent data may stay unacknowledged.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// Where a PostgreSQL store is, and how to log in there.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    pub(super) tls: TlsMode,
    shown: String,
}

/// How the connection is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// Not at all: on this machine, or because the address says so.
    Off,
    /// Encrypted, but anybody could be at the other end.
    Unverified,
    /// Encrypted, and the certificate must be of this host. Signed by one of these authorities, else by one that the system
    /// trusts.
    Full(Option<PathBuf>),
}

/// Why an address cannot be used. It never contains the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not an address of a PostgreSQL database.
    #[error("the address of a PostgreSQL store begins with postgres://")]
    Scheme,
    /// The driver does not understand it.
    #[error("the address of the PostgreSQL store is not valid: {0}")]
    Invalid(String),
    /// It has no host.
    #[error("the address of the PostgreSQL store names no host")]
    NoHost,
    /// It has no user.
    #[error("the address of the PostgreSQL store names no user")]
    NoUser,
    /// Another protection than those that are supported.
    #[error("sslmode {0} is not supported")]
    Mode(String),
}

impl AddressError {
    /// Advice for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Mode(_) => "use sslmode=verify-full, sslmode=require or sslmode=disable",
            Self::Scheme | Self::Invalid(_) | Self::NoHost | Self::NoUser => {
                "write it as postgres://user:password@host/database; special characters as %xx"
            }
        }
    }
}

impl PostgresAddress {
    /// Returns whether a text is meant as the address of a PostgreSQL store.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// The password, so that it can be removed from texts.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        self.config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

impl FromStr for PostgresAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if !Self::is_meant(text) {
            return Err(AddressError::Scheme);
        }
        let (base, options) = text.split_once('?').unwrap_or((text, ""));
        let (mut passed, mut mode, mut root) = (Vec::new(), None, None);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => root = Some(PathBuf::from(unescaped(value))),
                Some(_) | None => passed.push(option),
            }
        }
        let mut config = driver_config(&format!("{base}?{}", passed.join("&")))?;
        let tls = tls_mode(&config, mode.as_deref(), root)?;
        config.ssl_mode(if tls == TlsMode::Off { SslMode::Disable } else { SslMode::Require });
        let shown = shown(&config);
        Ok(Self { config, tls, shown })
    }
}

/// Without the password and the options.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({})", self.shown)
    }
}

fn driver_config(text: &str) -> Result<Config, AddressError> {
    // The cause of the error names an option, never a value of ours.
    let cause = |error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        AddressError::Invalid(cause)
    };
    let mut config: Config = text.trim_end_matches('?').parse().map_err(cause)?;
    if config.get_hosts().is_empty() {
        return Err(AddressError::NoHost);
    }
    if config.get_user().is_none() {
        return Err(AddressError::NoUser);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_LIMIT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_LIMIT);
    }
    if config.get_application_name().is_none() {
        config.application_name("rethread");
    }
    Ok(config)
}

fn tls_mode(config: &Config, mode: Option<&str>, root: Option<PathBuf>) -> Result<TlsMode, AddressError> {
    match mode {
        None if config.get_hosts().iter().all(is_this_machine) => Ok(TlsMode::Off),
        None | Some("verify-full") => Ok(TlsMode::Full(root)),
        Some("require") => Ok(TlsMode::Unverified),
        Some("disable") => Ok(TlsMode::Off),
        Some(other) => Err(AddressError::Mode(other.chars().take(32).collect())),
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    }
}

fn shown(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432);
    let host = |(at, host): (usize, &Host)| match host {
        Host::Unix(folder) => folder.display().to_string(),
        Host::Tcp(name) => format!("{name}:{}", port(at)),
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(host).collect();
    let user = config.get_user().unwrap_or_default();
    format!("postgres://{user}@{}/{}", hosts.join(","), config.get_dbname().unwrap_or(user))
}

/// Replaces `%xx` by the byte that it stands for.
fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str, tls: &TlsMode) {
        let address: PostgresAddress = text.parse().unwrap();
        assert_eq!((address.to_string().as_str(), &address.tls), (shown, tls), "{text}");
        assert!(!format!("{address:?}").contains("s3cret"));
    }

    #[test]
    fn the_password_is_not_shown() {
        check(
            "postgres://me:s3cret@db.example/work",
            "postgres://me@db.example:5432/work",
            &TlsMode::Full(None),
        );
        check(
            "postgresql://me:s3cret@127.0.0.1:5433/work",
            "postgres://me@127.0.0.1:5433/work",
            &TlsMode::Off,
        );
        check("postgres://me:s3cret@[::1]/work", "postgres://me@::1:5432/work", &TlsMode::Off);
        check("postgres://me@%2Frun%2Fpg/work", "postgres://me@/run/pg/work", &TlsMode::Off);
        check(
            "postgres://me@a,b:7/w?target_session_attrs=read-write",
            "postgres://me@a:5432,b:7/w",
            &TlsMode::Full(None),
        );
    }

    #[test]
    fn protection() {
        check("postgres://me@h/d?sslmode=disable", "postgres://me@h:5432/d", &TlsMode::Off);
        check("postgres://me@h/d?sslmode=require", "postgres://me@h:5432/d", &TlsMode::Unverified);
        let root = TlsMode::Full(Some("/a b/ca.pem".into()));
        check(
            "postgres://me@localhost/d?sslrootcert=/a%20b/ca.pem&sslmode=verify-full",
            "postgres://me@localhost:5432/d",
            &root,
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_the_password() {
        for text in [
            "mysql://me:s3cret@h/d",
            "postgres://me:s3cret@h/d?sslmode=prefer",
            "postgres://me:s3cret@h/d?nonsense=1",
            "postgres://me:s3cret@h:port/d",
            "postgres://h/d",
            "postgres:///d",
        ] {
            let error = text.parse::<PostgresAddress>().unwrap_err();
            assert!(!format!("{error} {error:?} {}", error.hint()).contains("s3cret"), "{text}: {error}");
        }
    }
}
