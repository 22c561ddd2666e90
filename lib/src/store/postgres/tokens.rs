//! The tokens that all hosts of a store accept.

use tokio_postgres::Row;

use super::PostgresStore;
use super::text_column::{from_column, to_column};
use crate::store::{StoreFuture, TokenLedger, TokenRecord};

impl TokenLedger for PostgresStore {
    fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>> {
        self.call(async move |store| {
            let sql = "SELECT id, record FROM rethread.token ORDER BY number";
            let found = store.database.query("reading tokens", sql, &[]).await?;
            Ok(found.iter().map(record).collect())
        })
    }

    fn add_token(&self, token: TokenRecord) -> StoreFuture<'_, ()> {
        self.call(async move |store| {
            let sql = "INSERT INTO rethread.token (id, record) VALUES ($1, $2)
                       ON CONFLICT (id) DO UPDATE SET record = excluded.record";
            let (id, record) = (to_column(&token.id), to_column(&token.record));
            store.database.query("adding a token", sql, &[&id, &record]).await?;
            Ok(())
        })
    }

    fn remove_token(&self, id: &str) -> StoreFuture<'_, Option<TokenRecord>> {
        let id = id.to_owned();
        self.call(async move |store| {
            let sql = "DELETE FROM rethread.token WHERE id = $1 RETURNING id, record";
            let removed = store.database.query("revoking a token", sql, &[&to_column(&id)]).await?;
            Ok(removed.first().map(record))
        })
    }
}

fn record(row: &Row) -> TokenRecord {
    TokenRecord { id: from_column(row.get(0)), record: from_column(row.get(1)) }
}
