//! The tokens of a server: random texts, of which a file has the hashes. A token is worth what its role allows, until it is
//! revoked or expires.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread::clock;
use rethread::lock::locked;
use rethread::server::{ClientRole, ClientScope, Redaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a token begins with, so that people and scanners recognize one.
const PREFIX: &str = "rethread_";
/// How many random bytes a token has.
const RANDOM_BYTES: usize = 32;

/// Why the tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("the tokens in {} cannot be used", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No token has this id.
    #[error("no token has the id {0}")]
    Unknown(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

/// Who holds a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// A person or a program; it was made by hand.
    #[default]
    Client,
    /// The web page in a browser; it was made for a one-time code.
    Page,
    /// Whoever has the link to one session.
    Share,
}

impl TokenKind {
    /// The name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Page => "page",
            Self::Share => "share",
        }
    }
}

/// The only session that a token shows, with its sub-agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSession {
    /// The id of the session.
    pub session: String,
    /// Whether what looks like a secret is replaced.
    pub redact: bool,
}

/// A token as it is stored: what it may do, and the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Names the token; not secret.
    pub id: String,
    /// What it is for, in the words of its owner.
    pub name: String,
    /// Whether it may do everything or only look: `full` or `observer`.
    pub role: String,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// When it stops to work, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// Who holds it.
    #[serde(default)]
    pub kind: TokenKind,
    /// The only session that it shows, if it does not show all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<SharedSession>,
    /// The hash of its text.
    hash: String,
}

impl StoredToken {
    /// The role. One that is not known may do as little as possible.
    #[must_use]
    pub fn client_role(&self) -> ClientRole {
        if self.role == ClientRole::Full.name() { ClientRole::Full } else { ClientRole::Observer }
    }

    /// The only session that a client with this token may see. A token for a link that does not say which shows none.
    pub(crate) fn scope(&self) -> Option<ClientScope> {
        let redaction = |redact: bool| if redact { Redaction::Secrets } else { Redaction::Off };
        match (&self.share, self.kind) {
            (Some(share), _) => {
                Some(ClientScope { session: share.session.clone(), redaction: redaction(share.redact) })
            }
            (None, TokenKind::Share) => {
                Some(ClientScope { session: String::new(), redaction: Redaction::Secrets })
            }
            (None, TokenKind::Client | TokenKind::Page) => None,
        }
    }

    /// Whether it works at this time.
    #[must_use]
    pub fn is_valid_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

/// A token that was just made. Its text is nowhere else.
pub struct NewToken {
    /// The text.
    pub text: String,
    /// What is stored of it.
    pub stored: StoredToken,
}

/// The file with the tokens.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    known: Mutex<KnownTokens>,
}

/// What was read of the file, and until when each token works by a clock that nobody can set: a clock that is set forward or
/// back ends no token early and keeps none for ever.
#[derive(Debug, Default)]
struct KnownTokens {
    stamp: FileStamp,
    tokens: Vec<StoredToken>,
    /// By the id of the token, in milliseconds since the machine started.
    deadlines: HashMap<String, u64>,
}

/// The current time by both clocks, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct TokenTime {
    since_1970: u64,
    since_boot: u64,
}

impl TokenTime {
    fn now() -> Self {
        Self { since_1970: clock::now(), since_boot: clock::since_boot().0 }
    }
}

impl KnownTokens {
    /// Takes what the file has now. A token that is new here works for what is left of its time, and never for longer than it was
    /// made for, whatever the clock shows.
    fn replace(&mut self, stamp: FileStamp, tokens: Vec<StoredToken>, now: TokenTime) {
        let mut deadlines = HashMap::new();
        for token in &tokens {
            let Some(expires) = token.expires else { continue };
            let left = expires.saturating_sub(now.since_1970).min(expires.saturating_sub(token.created));
            let known = self.deadlines.get(&token.id).copied();
            deadlines.insert(token.id.clone(), known.unwrap_or(now.since_boot.saturating_add(left)));
        }
        *self = Self { stamp, tokens, deadlines };
    }

    fn works(&self, token: &StoredToken, now: TokenTime) -> bool {
        self.deadlines.get(&token.id).is_none_or(|deadline| now.since_boot < *deadline)
    }
}

/// Tells one version of the file from another.
type FileStamp = Option<(u64, u64, i64, i64)>;

impl TokenFile {
    /// The tokens in this file, which need not exist.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::default() }
    }

    /// Makes a token.
    pub fn add(&self, name: &str, role: ClientRole, expires: Option<u64>) -> Result<NewToken, TokenError> {
        let made = new_token(name, role, expires, TokenKind::Client)?;
        self.change(|tokens| {
            tokens.push(made.stored.clone());
            Ok(made)
        })
    }

    /// Makes a token for the web page that works for this long. Those of earlier pages that have expired are removed.
    pub(crate) fn add_for_page(&self, life: Duration) -> Result<NewToken, TokenError> {
        let now = clock::now();
        let expires = now.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        let made = new_token("web page", ClientRole::Full, Some(expires), TokenKind::Page)?;
        self.change(|tokens| {
            tokens.retain(|token| token.kind != TokenKind::Page || token.is_valid_at(now));
            tokens.push(made.stored.clone());
            Ok(made)
        })
    }

    /// Makes a token that shows one session and nothing else.
    pub fn add_share(&self, name: &str, share: SharedSession, expires: u64) -> Result<NewToken, TokenError> {
        let mut made = new_token(name, ClientRole::Observer, Some(expires), TokenKind::Share)?;
        made.stored.share = Some(share);
        self.change(|tokens| {
            tokens.push(made.stored.clone());
            Ok(made)
        })
    }

    /// Revokes a token. A running server closes its connections.
    pub fn revoke(&self, id: &str) -> Result<StoredToken, TokenError> {
        self.change(|tokens| match tokens.iter().position(|token| token.id == id) {
            Some(at) => Ok(tokens.remove(at)),
            None => Err(TokenError::Unknown(id.to_owned())),
        })
    }

    /// All tokens, those that have expired included.
    pub fn list(&self) -> Result<Vec<StoredToken>, TokenError> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| self.failed(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The token with this text, if it works now.
    pub(crate) fn check(&self, text: &str) -> Option<StoredToken> {
        self.check_at(text, TokenTime::now())
    }

    fn check_at(&self, text: &str, now: TokenTime) -> Option<StoredToken> {
        let hash = hash_of(text);
        let known = self.current(now);
        let mut found = None;
        // All of them are compared, each in constant time: the time says nothing of which one it was.
        for token in &known.tokens {
            if bool::from(token.hash.as_bytes().ct_eq(hash.as_bytes())) {
                found = Some(token);
            }
        }
        found.filter(|token| known.works(token, now)).cloned()
    }

    /// The ids of the tokens that work now.
    pub(crate) fn working(&self) -> HashSet<String> {
        let now = TokenTime::now();
        let known = self.current(now);
        let working = known.tokens.iter().filter(|token| known.works(token, now));
        working.map(|token| token.id.clone()).collect()
    }

    /// The tokens, read again if the file has changed. A file that cannot be read has none.
    fn current(&self, now: TokenTime) -> MutexGuard<'_, KnownTokens> {
        let stamp = stamp_of(&self.path);
        let mut known = locked(&self.known);
        if known.stamp != stamp || stamp.is_none() {
            let tokens = self.list().unwrap_or_else(|error| {
                tracing::error!("{}", rethread::wire::with_causes(&error));
                Vec::new()
            });
            known.replace(stamp, tokens, now);
        }
        known
    }

    /// Replaces the file as a whole, one process at a time.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<StoredToken>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let failed = |error| self.failed(error);
        let private =
            |path: &Path| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let lock: File = private(&self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut tokens = self.list()?;
        let outcome = change(&mut tokens)?;
        let next = self.path.with_extension("new");
        let mut file = private(&next).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&tokens).map_err(|error| failed(error.into()))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&next, &self.path).map_err(failed)?;
        Ok(outcome)
    }

    fn failed(&self, source: io::Error) -> TokenError {
        TokenError::Io { path: self.path.clone(), source }
    }
}

fn new_token(
    name: &str,
    role: ClientRole,
    expires: Option<u64>,
    kind: TokenKind,
) -> Result<NewToken, TokenError> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|_| TokenError::NoRandomness)?;
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let hash = hash_of(&text);
    let stored = StoredToken {
        // Of the hash, which says nothing of the token.
        id: hash[..8].to_owned(),
        name: name.to_owned(),
        role: role.name().to_owned(),
        created: clock::now(),
        expires,
        kind,
        share: None,
        hash,
    };
    Ok(NewToken { text, stored })
}

/// Tokens and codes have 256 random bits, so that a hash needs no salt and no slow function.
pub(crate) fn hash_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn stamp_of(path: &Path) -> FileStamp {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, TokenFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens.json"));
        (folder, file)
    }

    #[test]
    fn a_token_works_until_it_is_revoked_and_its_text_is_not_stored() {
        let (folder, file) = file();
        assert_eq!(file.check("anything"), None);
        let made = file.add("phone", ClientRole::Observer, None).unwrap();
        let other = file.add("laptop", ClientRole::Full, None).unwrap();
        assert_eq!(file.check(&made.text), Some(made.stored.clone()));
        assert_eq!(file.check(&made.text).unwrap().client_role(), ClientRole::Observer);
        assert_eq!(file.check(&made.text[1..]), None);
        assert_eq!(file.check(&made.stored.hash), None, "what is stored is no token");
        let path = folder.path().join("tokens.json");
        assert!(!fs::read_to_string(&path).unwrap().contains(&made.text));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        file.revoke(&made.stored.id).unwrap();
        assert_eq!(file.check(&made.text), None);
        assert_eq!(file.working(), HashSet::from([other.stored.id]));
        assert!(matches!(file.revoke("00000000"), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn a_token_expires_and_another_process_sees_changes() {
        let (_folder, file) = file();
        let past = file.add("old", ClientRole::Full, Some(clock::now() - 1)).unwrap();
        let future = file.add("new", ClientRole::Full, Some(clock::now() + 60_000)).unwrap();
        assert_eq!(file.check(&past.text), None);
        assert!(file.check(&future.text).is_some());
        let other = TokenFile::new(file.path.clone());
        other.revoke(&future.stored.id).unwrap();
        assert_eq!(file.check(&future.text), None);
    }

    #[test]
    fn a_clock_that_jumps_ends_no_token_early_and_keeps_none_for_ever() {
        const HOUR: u64 = 3_600_000;
        let (_folder, file) = file();
        let start = TokenTime { since_1970: clock::now(), since_boot: 5 * HOUR };
        let made = file.add("x", ClientRole::Full, Some(start.since_1970 + 2 * HOUR)).unwrap();
        let works = |file: &TokenFile, since_1970, since_boot| {
            file.check_at(&made.text, TokenTime { since_1970, since_boot }).is_some()
        };
        assert!(works(&file, start.since_1970, start.since_boot));
        assert!(works(&file, start.since_1970 + 1000 * HOUR, start.since_boot + HOUR), "set forward");
        assert!(works(&file, 0, start.since_boot + HOUR), "set back");
        assert!(!works(&file, 0, start.since_boot + 2 * HOUR), "its time is over, whatever the clock shows");
        // The clock stood at 1970 when the server started: it works for as long as it was made for.
        let restarted = TokenFile::new(file.path.clone());
        assert!(works(&restarted, 0, HOUR) && works(&restarted, 0, 3 * HOUR - 1000));
        assert!(!works(&restarted, 0, 3 * HOUR + 1000));
        let late = TokenFile::new(file.path.clone());
        assert!(!works(&late, start.since_1970 + 2 * HOUR, HOUR), "it had expired before");
    }

    #[test]
    fn an_unknown_role_may_only_look() {
        let (_folder, file) = file();
        let made = file.add("x", ClientRole::Full, None).unwrap();
        let text = fs::read_to_string(&file.path).unwrap().replace("\"full\"", "\"everything\"");
        fs::write(&file.path, text).unwrap();
        assert_eq!(file.check(&made.text).unwrap().client_role(), ClientRole::Observer);
    }
}
