//! The tokens of a server: random texts, of which a file or a store that several hosts share has the hashes. A token is worth what
//! its role allows, until it is revoked or expires.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rethread::clock;
use rethread::lock::locked;
use rethread::server::{ClientRole, ClientScope, Redaction};
use rethread::store::{StoreError, TokenLedger, TokenRecord};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::known_tokens::{KnownTokens, TokenTime};
use crate::token_file::TokenFile;

/// What a token begins with, so that people and scanners recognize one.
const PREFIX: &str = "rethread_";
/// How many random bytes a token has.
const RANDOM_BYTES: usize = 32;

/// How old what was read of a store may be, in milliseconds.
const MOST_AGE: u64 = 1000;
/// The same for a token that is not known: it may have been made on another host just now, so that the store is asked again.
/// Guesses wait for that, and do not keep the store busy.
const MOST_AGE_OF_UNKNOWN: u64 = 100;
/// How long a store may take to answer.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// How long tokens are accepted that a store had, while it cannot be read, in milliseconds.
const MOST_SILENCE: u64 = 60_000;

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
    /// The store cannot be read or written.
    #[error("the tokens in the store cannot be used")]
    Store(#[from] StoreError),
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
    pub(crate) hash: String,
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

    fn record(&self) -> Result<TokenRecord, StoreError> {
        let record = serde_json::to_string(self).map_err(|error| StoreError::Io {
            context: "encoding a token".to_owned(),
            source: error.into(),
        })?;
        Ok(TokenRecord { id: self.id.clone(), record })
    }

    /// One that was written by a program that this one does not understand is no token.
    fn decode(stored: &TokenRecord) -> Option<Self> {
        serde_json::from_str(&stored.record)
            .inspect_err(|error| tracing::error!("the token {} cannot be read: {error}", stored.id))
            .ok()
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

/// The tokens, and what was read of them last.
pub struct Tokens {
    place: TokenPlace,
    known: Mutex<KnownTokens>,
    /// One reads the store; the others wait for what it finds.
    reading: tokio::sync::Mutex<()>,
}

/// Where tokens are stored.
enum TokenPlace {
    File(TokenFile),
    Ledger(Arc<dyn TokenLedger>),
}

impl Tokens {
    /// The tokens in this file, which need not exist.
    #[must_use]
    pub fn in_file(path: PathBuf) -> Self {
        Self::at(TokenPlace::File(TokenFile::new(path)))
    }

    /// The tokens of a store that several hosts share.
    #[must_use]
    pub fn in_store(ledger: Arc<dyn TokenLedger>) -> Self {
        Self::at(TokenPlace::Ledger(ledger))
    }

    fn at(place: TokenPlace) -> Self {
        Self { place, known: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// Makes a token.
    pub async fn add(
        &self,
        name: &str,
        role: ClientRole,
        expires: Option<u64>,
    ) -> Result<NewToken, TokenError> {
        let made = new_token(name, role, expires, TokenKind::Client)?;
        self.store(&made.stored).await?;
        Ok(made)
    }

    /// Makes a token for the web page that works for this long. Those of earlier pages that have expired are removed.
    pub(crate) async fn add_for_page(&self, life: Duration) -> Result<NewToken, TokenError> {
        let now = clock::now();
        let expires = now.saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        let made = new_token("web page", ClientRole::Full, Some(expires), TokenKind::Page)?;
        for old in self.list().await? {
            if old.kind == TokenKind::Page && !old.is_valid_at(now) {
                self.remove(&old.id).await?;
            }
        }
        self.store(&made.stored).await?;
        Ok(made)
    }

    /// Makes a token that shows one session and nothing else.
    pub async fn add_share(
        &self,
        name: &str,
        share: SharedSession,
        expires: u64,
    ) -> Result<NewToken, TokenError> {
        let mut made = new_token(name, ClientRole::Observer, Some(expires), TokenKind::Share)?;
        made.stored.share = Some(share);
        self.store(&made.stored).await?;
        Ok(made)
    }

    /// Revokes a token. A running server closes its connections, and so do the other hosts of the store.
    pub async fn revoke(&self, id: &str) -> Result<StoredToken, TokenError> {
        self.remove(id).await?.ok_or_else(|| TokenError::Unknown(id.to_owned()))
    }

    /// All tokens, those that have expired included.
    pub async fn list(&self) -> Result<Vec<StoredToken>, TokenError> {
        match &self.place {
            TokenPlace::File(file) => file.list(),
            TokenPlace::Ledger(ledger) => Ok(decoded(&ledger.tokens().await?)),
        }
    }

    async fn store(&self, token: &StoredToken) -> Result<(), TokenError> {
        match &self.place {
            TokenPlace::File(file) => file.change(|tokens| tokens.push(token.clone())),
            TokenPlace::Ledger(ledger) => Ok(ledger.add_token(token.record()?).await?),
        }
    }

    async fn remove(&self, id: &str) -> Result<Option<StoredToken>, TokenError> {
        match &self.place {
            TokenPlace::File(file) => file.change(|tokens| {
                let at = tokens.iter().position(|token| token.id == id)?;
                Some(tokens.remove(at))
            }),
            TokenPlace::Ledger(ledger) => {
                let removed = ledger.remove_token(id).await?;
                Ok(removed.as_ref().and_then(StoredToken::decode))
            }
        }
    }

    /// The token with this text, if it works now.
    pub(crate) async fn check(&self, text: &str) -> Option<StoredToken> {
        self.check_at(text, TokenTime::now()).await
    }

    async fn check_at(&self, text: &str, now: TokenTime) -> Option<StoredToken> {
        let hash = hash_of(text);
        self.refresh(now, MOST_AGE).await;
        let found = locked(&self.known).find(&hash, now);
        match found {
            Some(found) => Some(found),
            None => {
                let wait = self.until_old(now);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                let now = now.after(wait);
                self.refresh(now, MOST_AGE_OF_UNKNOWN).await;
                locked(&self.known).find(&hash, now)
            }
        }
    }

    /// How long it takes, in milliseconds, until what was read of a store is too old for a token that is not known.
    fn until_old(&self, now: TokenTime) -> u64 {
        let old_at = locked(&self.known).asked_at.map_or(0, |at| at.saturating_add(MOST_AGE_OF_UNKNOWN));
        old_at.saturating_sub(now.since_boot).min(MOST_AGE_OF_UNKNOWN)
    }

    /// The ids of the tokens that work now.
    pub(crate) async fn working(&self) -> HashSet<String> {
        let now = TokenTime::now();
        self.refresh(now, MOST_AGE).await;
        locked(&self.known).working(now)
    }

    /// Whether the store did not say which tokens there are when it was asked last: one that is not known may be right.
    pub(crate) fn cannot_be_read(&self) -> bool {
        let known = locked(&self.known);
        known.asked_at != known.read_at
    }

    /// Reads the tokens again, if the file has changed or what was read of the store is too old.
    async fn refresh(&self, now: TokenTime, most_age: u64) {
        match &self.place {
            TokenPlace::File(file) => self.refresh_from_file(file, now),
            TokenPlace::Ledger(ledger) => self.refresh_from_store(ledger.as_ref(), now, most_age).await,
        }
    }

    /// A file that cannot be read has no tokens.
    fn refresh_from_file(&self, file: &TokenFile, now: TokenTime) {
        let stamp = file.stamp();
        let mut known = locked(&self.known);
        if known.stamp != stamp || stamp.is_none() {
            let tokens = file.list().unwrap_or_else(|error| {
                tracing::error!("{}", rethread::wire::with_causes(&error));
                Vec::new()
            });
            known.replace(tokens, now);
            known.stamp = stamp;
        }
    }

    /// A store that does not answer has the tokens that it had, for a while.
    async fn refresh_from_store(&self, ledger: &dyn TokenLedger, now: TokenTime, most_age: u64) {
        let _reading = self.reading.lock().await;
        let is_recent =
            |at: Option<u64>, age: u64| at.is_some_and(|at| now.since_boot < at.saturating_add(age));
        if is_recent(locked(&self.known).asked_at, most_age) {
            return;
        }
        let read = tokio::time::timeout(READ_LIMIT, ledger.tokens()).await;
        let mut known = locked(&self.known);
        known.asked_at = Some(now.since_boot);
        match read {
            Ok(Ok(records)) => {
                known.replace(decoded(&records), now);
                known.read_at = Some(now.since_boot);
            }
            Ok(Err(_)) | Err(_) => {
                if let Ok(Err(error)) = read {
                    tracing::warn!("{}", rethread::wire::with_causes(&error));
                }
                if !is_recent(known.read_at, MOST_SILENCE) {
                    known.replace(Vec::new(), now);
                }
            }
        }
    }
}

fn decoded(records: &[TokenRecord]) -> Vec<StoredToken> {
    records.iter().filter_map(StoredToken::decode).collect()
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use rethread::store::StoreFuture;

    use super::*;

    fn file() -> (tempfile::TempDir, Tokens) {
        let folder = tempfile::tempdir().unwrap();
        let file = Tokens::in_file(path(folder.path()));
        (folder, file)
    }

    fn path(folder: &Path) -> PathBuf {
        folder.join("tokens.json")
    }

    /// A store that can be away.
    #[derive(Default)]
    struct Shared {
        records: Mutex<Vec<TokenRecord>>,
        away: Mutex<bool>,
        reads: Mutex<usize>,
    }

    impl TokenLedger for Shared {
        fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>> {
            *locked(&self.reads) += 1;
            if *locked(&self.away) {
                return Box::pin(std::future::pending());
            }
            Box::pin(std::future::ready(Ok(locked(&self.records).clone())))
        }

        fn add_token(&self, token: TokenRecord) -> StoreFuture<'_, ()> {
            locked(&self.records).push(token);
            Box::pin(std::future::ready(Ok(())))
        }

        fn remove_token(&self, id: &str) -> StoreFuture<'_, Option<TokenRecord>> {
            let mut records = locked(&self.records);
            let at = records.iter().position(|record| record.id == id);
            Box::pin(std::future::ready(Ok(at.map(|at| records.remove(at)))))
        }
    }

    #[tokio::test]
    async fn a_token_works_until_it_is_revoked_and_its_text_is_not_stored() {
        let (folder, file) = file();
        assert_eq!(file.check("anything").await, None);
        let made = file.add("phone", ClientRole::Observer, None).await.unwrap();
        let other = file.add("laptop", ClientRole::Full, None).await.unwrap();
        assert_eq!(file.check(&made.text).await, Some(made.stored.clone()));
        assert_eq!(file.check(&made.text).await.unwrap().client_role(), ClientRole::Observer);
        assert_eq!(file.check(&made.text[1..]).await, None);
        assert_eq!(file.check(&made.stored.hash).await, None, "what is stored is no token");
        let path = folder.path().join("tokens.json");
        assert!(!fs::read_to_string(&path).unwrap().contains(&made.text));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        file.revoke(&made.stored.id).await.unwrap();
        assert_eq!(file.check(&made.text).await, None);
        assert_eq!(file.working().await, HashSet::from([other.stored.id]));
        assert!(matches!(file.revoke("00000000").await, Err(TokenError::Unknown(_))));
    }

    #[tokio::test]
    async fn a_token_expires_and_another_process_sees_changes() {
        let (folder, file) = file();
        let past = file.add("old", ClientRole::Full, Some(clock::now() - 1)).await.unwrap();
        let future = file.add("new", ClientRole::Full, Some(clock::now() + 60_000)).await.unwrap();
        assert_eq!(file.check(&past.text).await, None);
        assert!(file.check(&future.text).await.is_some());
        let other = Tokens::in_file(path(folder.path()));
        other.revoke(&future.stored.id).await.unwrap();
        assert_eq!(file.check(&future.text).await, None);
    }

    #[tokio::test]
    async fn a_token_that_another_host_has_just_made_is_accepted() {
        let ledger = Arc::new(Shared::default());
        let (here, there) = (Tokens::in_store(ledger.clone()), Tokens::in_store(ledger));
        assert_eq!(here.check("anything").await, None, "the store was read");
        let made = there.add("phone", ClientRole::Full, None).await.unwrap();
        assert_eq!(here.check(&made.text).await, Some(made.stored));
    }

    #[tokio::test]
    async fn a_clock_that_jumps_ends_no_token_early_and_keeps_none_for_ever() {
        const HOUR: u64 = 3_600_000;
        let (folder, file) = file();
        let start = TokenTime { since_1970: clock::now(), since_boot: 5 * HOUR };
        let made = file.add("x", ClientRole::Full, Some(start.since_1970 + 2 * HOUR)).await.unwrap();
        let works = async |file: &Tokens, since_1970, since_boot| {
            file.check_at(&made.text, TokenTime { since_1970, since_boot }).await.is_some()
        };
        assert!(works(&file, start.since_1970, start.since_boot).await);
        assert!(works(&file, start.since_1970 + 1000 * HOUR, start.since_boot + HOUR).await, "set forward");
        assert!(works(&file, 0, start.since_boot + HOUR).await, "set back");
        assert!(
            !works(&file, 0, start.since_boot + 2 * HOUR).await,
            "its time is over, whatever the clock shows"
        );
        // The clock stood at 1970 when the server started: it works for as long as it was made for.
        let restarted = Tokens::in_file(path(folder.path()));
        assert!(works(&restarted, 0, HOUR).await && works(&restarted, 0, 3 * HOUR - 1000).await);
        assert!(!works(&restarted, 0, 3 * HOUR + 1000).await);
        let late = Tokens::in_file(path(folder.path()));
        assert!(!works(&late, start.since_1970 + 2 * HOUR, HOUR).await, "it had expired before");
    }

    #[tokio::test]
    async fn an_unknown_role_may_only_look() {
        let (folder, file) = file();
        let made = file.add("x", ClientRole::Full, None).await.unwrap();
        let text = fs::read_to_string(path(folder.path())).unwrap().replace("\"full\"", "\"everything\"");
        fs::write(path(folder.path()), text).unwrap();
        assert_eq!(file.check(&made.text).await.unwrap().client_role(), ClientRole::Observer);
    }

    #[tokio::test]
    async fn hosts_that_share_a_store_know_the_same_tokens() {
        let shared = Arc::new(Shared::default());
        let [one, other] = [(); 2].map(|()| Tokens::in_store(shared.clone()));
        let at = |since_boot| TokenTime { since_1970: clock::now(), since_boot };
        assert_eq!(other.check_at("anything", at(1000)).await, None);
        let guesses = (0..5).map(|_| other.check_at("anything", at(1100)));
        assert_eq!(futures::future::join_all(guesses).await, vec![None; 5]);
        assert_eq!(*locked(&shared.reads), 3, "guesses do not keep the store busy");
        let made = one.add("phone", ClientRole::Full, None).await.unwrap();
        assert!(!locked(&shared.records)[0].record.contains(&made.text), "its text is not stored");
        assert_eq!(other.check_at(&made.text, at(1200)).await, Some(made.stored.clone()));
        one.revoke(&made.stored.id).await.unwrap();
        assert!(other.check_at(&made.text, at(2250)).await.is_some());
        assert_eq!(
            other.check_at(&made.text, at(2300)).await,
            None,
            "a revoked token works for a second at most"
        );
    }

    #[tokio::test]
    async fn tokens_of_a_store_that_is_away_work_for_a_minute() {
        let shared = Arc::new(Shared::default());
        let tokens = Tokens::in_store(shared.clone());
        let made = tokens.add("phone", ClientRole::Full, None).await.unwrap();
        let works = async |since_boot| {
            tokens.check_at(&made.text, TokenTime { since_1970: 0, since_boot }).await.is_some()
        };
        assert!(works(1000).await);
        *locked(&shared.away) = true;
        assert!(works(60_900).await);
        assert!(!works(61_950).await);
        *locked(&shared.away) = false;
        assert!(works(63_000).await);
    }
}
