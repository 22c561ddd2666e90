//! The PostgreSQL store: sessions in one database for several hosts. Each process is a host with a lease that expires
//! (`host`, by the protocol in `rethread_core::lease`); a session belongs to one host, and its epoch fences the others.
//!
//! `address` and `tls` say where the database is, `migrate` keeps the schema, `database` has the connections, `store_thread`
//! the thread that all of it runs on. Appends are in `append` and `writer`, ownership in `ownership`, deleting in `removal`,
//! searching in `search`. `inspect` is for `rethread doctor`.

use std::sync::Arc;

use rethread_core::{Millis, Seq, SessionId};

pub use self::address::{AddressError, PostgresAddress};
use self::open_database::OpenDatabase;
pub use self::open_database::Patience;
use self::store_thread::StoreThread;
use super::open_outcome::not_opened;
use super::{
    Append, Archived, Changes, FoldUpTo, HostNumber, Lease, ListPage, ListQuery, NewSession, OpenOutcome,
    Page, ProgressCallback, PruneTurn, ReleaseAnswer, Revision, SearchPage, SearchQuery, SessionRow, Store,
    StoreError, StoreFuture, Stub, TokenLedger,
};
use crate::host_deadline::HostDeadline;

mod address;
mod append;
mod changes;
mod database;
mod fault;
mod fold;
mod host;
mod imports;
pub mod inspect;
mod lease_doubts;
mod migrate;
mod open_database;
mod ownership;
mod read;
mod removal;
mod row;
mod search;
mod seek;
mod store_thread;
mod text_column;
mod tls;
mod tokens;
mod writer;

/// A store in a PostgreSQL database. Each store is a separate host, even within one process.
pub struct PostgresStore {
    thread: StoreThread,
    deadline: HostDeadline,
}

impl PostgresStore {
    /// Opens the store, and creates or migrates its schema if necessary. Blocks.
    pub fn open(address: &PostgresAddress) -> Result<Self, StoreError> {
        let (store, opened) = Self::start(address, Patience::None)?;
        // A runtime of the caller must not be blocked on, so that this waits on a thread of its own.
        let waiting = std::thread::spawn(move || opened.blocking_recv());
        match waiting.join() {
            Ok(Ok(opened)) => opened.map(|()| store),
            Ok(Err(_)) | Err(_) => Err(not_opened()),
        }
    }

    /// Opens the store on its thread. Calls wait until it is open, and fail if it cannot be opened; the cause is in the second
    /// value.
    pub fn open_in_background(
        address: &PostgresAddress,
        patience: Patience,
    ) -> Result<(Self, OpenOutcome), StoreError> {
        let (store, opened) = Self::start(address, patience)?;
        Ok((store, OpenOutcome::new(opened)))
    }

    fn start(
        address: &PostgresAddress,
        patience: Patience,
    ) -> Result<(Self, tokio::sync::oneshot::Receiver<Result<(), StoreError>>), StoreError> {
        let deadline = HostDeadline::default();
        let (address, shared) = (address.clone(), deadline.clone());
        let (thread, opened) =
            StoreThread::start(Box::new(move || Box::pin(OpenDatabase::open(address, patience, shared))))?;
        Ok((Self { thread, deadline }, opened))
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(std::rc::Rc<OpenDatabase>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        self.thread.call(work)
    }
}

impl Store for PostgresStore {
    fn create(&self, new: NewSession) -> StoreFuture<'_, Lease> {
        self.call(async move |store| store.create(new).await)
    }

    fn claim(&self, session: &SessionId) -> StoreFuture<'_, Lease> {
        let session = session.clone();
        self.call(async move |store| store.claim(session).await)
    }

    fn release(&self, lease: &Lease) -> StoreFuture<'_, ()> {
        let lease = lease.clone();
        self.call(async move |store| store.release(lease).await)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        self.call(async move |store| store.append(append).await)
    }

    fn read(&self, session: &SessionId, from: Seq, budget: usize) -> StoreFuture<'_, Page> {
        let session = session.clone();
        self.call(async move |store| store.read(session, from, budget).await)
    }

    fn seek_back(&self, session: &SessionId, before: Seq, budget: usize) -> StoreFuture<'_, Seq> {
        let session = session.clone();
        self.call(async move |store| store.seek_back(session, before, budget).await)
    }

    fn fold(&self, lease: &Lease, fold: FoldUpTo) -> StoreFuture<'_, ()> {
        let lease = lease.clone();
        self.call(async move |store| store.fold(lease, fold).await)
    }

    fn find(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionRow>> {
        let session = session.clone();
        self.call(async move |store| store.find(session).await)
    }

    fn find_by_part(&self, part: &str, limit: usize) -> StoreFuture<'_, Vec<SessionRow>> {
        let part = part.to_owned();
        self.call(async move |store| store.find_by_part(part, limit).await)
    }

    fn list(&self, query: &ListQuery) -> StoreFuture<'_, ListPage> {
        let query = query.clone();
        self.call(async move |store| store.list(query).await)
    }

    fn changes(&self, since: Option<Revision>) -> StoreFuture<'_, Changes> {
        self.call(async move |store| store.changes(since).await)
    }

    fn search(&self, query: &SearchQuery) -> StoreFuture<'_, SearchPage> {
        let query = query.clone();
        self.call(async move |store| store.search(query).await)
    }

    fn update_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.call(async move |store| store.update_index(progress).await)
    }

    fn rebuild_index(&self, progress: ProgressCallback) -> StoreFuture<'_, ()> {
        self.call(async move |store| store.rebuild_index(progress).await)
    }

    fn set_title(&self, session: &SessionId, title: &str) -> StoreFuture<'_, ()> {
        let (session, title) = (session.clone(), title.to_owned());
        self.call(async move |store| store.set_title(session, title).await)
    }

    fn set_archived(&self, session: &SessionId, archived: Archived, at: Millis) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(async move |store| store.set_archived(session, archived, at).await)
    }

    fn delete(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(async move |store| store.delete(session, at).await)
    }

    fn delete_unowned(
        &self,
        sessions: &[SessionId],
        at: Millis,
        progress: ProgressCallback,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        let sessions = sessions.to_vec();
        self.call(async move |store| store.delete_unowned(sessions, at, progress).await)
    }

    fn size(&self, session: &SessionId) -> StoreFuture<'_, u64> {
        let session = session.clone();
        self.call(async move |store| store.size(session).await)
    }

    fn begin_pruning(&self, at: Millis, since: Millis) -> StoreFuture<'_, PruneTurn> {
        self.call(async move |store| store.begin_pruning(at, since).await)
    }

    fn ask_release(&self, session: &SessionId, at: Millis) -> StoreFuture<'_, ReleaseAnswer> {
        let session = session.clone();
        self.call(async move |store| store.ask_release(session, at).await)
    }

    fn decline_release(&self, session: &SessionId) -> StoreFuture<'_, ()> {
        let session = session.clone();
        self.call(async move |store| store.decline_release(session).await)
    }

    fn add_stubs(&self, agent: &str, stubs: &[Stub]) -> StoreFuture<'_, ()> {
        let (agent, stubs) = (agent.to_owned(), stubs.to_vec());
        self.call(async move |store| store.add_stubs(agent, stubs).await)
    }

    fn shared_tokens(self: Arc<Self>) -> Option<Arc<dyn TokenLedger>> {
        Some(self)
    }

    fn advertise(&self, address: &str) -> StoreFuture<'_, Option<HostNumber>> {
        let address = address.to_owned();
        self.call(async move |store| store.host.advertise(&store.database, address).await.map(Some))
    }

    fn host_deadline(&self) -> Option<HostDeadline> {
        Some(self.deadline.clone())
    }

    fn profile(&self, key: &str) -> StoreFuture<'_, Option<Vec<u8>>> {
        let key = key.to_owned();
        self.call(async move |store| store.profile(key).await)
    }

    fn remember_profile(&self, key: &str, profile: &[u8], at: Millis) -> StoreFuture<'_, ()> {
        let (key, profile) = (key.to_owned(), profile.to_owned());
        self.call(async move |store| store.remember_profile(key, profile, at).await)
    }
}
