//! The log file: writes the events of Rethread's own crates with their level and UTC time. Limits its size and removes the
//! secrets of MCP servers. Events of other crates are left out, since they may contain the text of conversations.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use rethread::secret::Secrets;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

/// The size at which the file is emptied.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Starts to log to this file, which is created with the first event.
pub(crate) fn start(path: PathBuf, level: LogLevel, secrets: Secrets) {
    // Fails only if the process logs already.
    let _ = tracing::subscriber::set_global_default(subscriber(path, level, secrets));
}

fn subscriber(path: PathBuf, level: LogLevel, secrets: Secrets) -> impl Subscriber + Send + Sync {
    let file = Arc::new(LogFile { path: Mutex::new(path), secrets });
    let own_crates = Targets::new().with_target("rethread", level.filter());
    tracing_subscriber::registry().with(fmt::layer().with_writer(file).with_filter(own_crates))
}

impl LogLevel {
    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

struct LogFile {
    /// Locked while an event is written.
    path: Mutex<PathBuf>,
    secrets: Secrets,
}

impl Write for &LogFile {
    /// Writes one formatted event. An event that cannot be written is dropped: the work must not stop because of its log.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = self.secrets.redact(&String::from_utf8_lossy(bytes));
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens the file for each event, since several processes log to it and any of them may empty it.
fn open(path: &Path) -> io::Result<File> {
    let is_full = std::fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_BYTES);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if is_full { options.write(true).truncate(true).open(path) } else { options.append(true).open(path) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rethread_core::Json;

    use super::*;

    fn logged(
        level: LogLevel,
        secrets: Secrets,
        emit: impl FnOnce(),
    ) -> (String, PathBuf, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rethread.log");
        tracing::subscriber::with_default(subscriber(path.clone(), level, secrets), emit);
        (std::fs::read_to_string(&path).unwrap_or_default(), path, folder)
    }

    #[test]
    fn events_have_a_level_and_a_time_and_are_private() {
        let emit = || {
            tracing::warn!(session = "s_1", "folding failed");
            tracing::debug!("too detailed");
            tracing::error!(target: "hyper", "another crate");
        };
        let (text, path, _folder) = logged(LogLevel::Info, Secrets::default(), emit);
        let (time, rest) = text.split_once(' ').unwrap();
        assert!(time.len() > 20 && time.contains('T') && time.ends_with('Z'), "{text}");
        assert!(rest.trim_start().starts_with("WARN "), "{text}");
        assert!(text.ends_with("folding failed session=\"s_1\"\n") && text.lines().count() == 1, "{text}");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn secrets_are_removed() {
        let secrets = Secrets::default();
        let server = r#"{"type":"stdio","name":"s","command":"c","args":[],"env":[{"name":"API_KEY","value":"sk-1234567890"}]}"#;
        secrets.add_servers(&[Json::parse(server.to_owned()).unwrap().fields()]);
        let emit = || tracing::error!("the agent failed with sk-1234567890");
        let (text, ..) = logged(LogLevel::Info, secrets, emit);
        assert!(text.ends_with("the agent failed with [secret]\n"), "{text}");
    }

    #[test]
    fn a_full_file_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rethread.log");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let subscriber = subscriber(path.clone(), LogLevel::Info, Secrets::default());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            tracing::info!("second");
        });
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
    }

    #[test]
    fn nothing_is_logged_when_it_is_off() {
        let (text, path, _folder) = logged(LogLevel::Off, Secrets::default(), || tracing::error!("no"));
        assert!(text.is_empty() && !path.exists(), "{text}");
    }
}
