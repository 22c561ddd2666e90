//! Requests the lists of tools, prompts and resources from a server, page by page, with a maximum number of pages.

use std::collections::BTreeSet;

use rethread_core::Json;
use rmcp::model::ServerCapabilities;
use serde_json::json;

use super::catalog::{Catalog, CatalogReader};
use super::connection::Connection;
use super::request::{RequestError, RequestTimeout};

/// The maximum number of pages of a list.
const MOST_PAGES: usize = 64;
/// The maximum number of names in a note.
const MOST_NAMED: usize = 5;

/// Requests all lists that the server's capabilities name. A failed list of prompts or resources becomes a note; a failed
/// list of tools is an error.
pub(super) async fn all(
    connection: &Connection,
    reader: &CatalogReader<'_>,
    timeout: RequestTimeout,
) -> Result<Catalog, RequestError> {
    let about = connection.info();
    let offers = about.map_or_else(ServerCapabilities::default, |about| about.capabilities.clone());
    let mut catalog = Catalog::default();
    if offers.tools.is_some() {
        let pages = PagedList { connection, method: "tools/list", member: "tools", timeout };
        let tools = pages.read(reader.limits.items, &mut catalog.notes).await?;
        let tools = kept(&tools, |item| reader.tool(item), "tools", &mut catalog.notes);
        catalog.tools = once_each(tools, |tool| &tool.name, "tool", &mut catalog.notes);
    }
    if offers.prompts.is_some() {
        let pages = PagedList { connection, method: "prompts/list", member: "prompts", timeout };
        let prompts = pages.read_or_note(reader.limits.items, &mut catalog.notes).await?;
        let prompts = kept(&prompts, |item| reader.prompt(item), "prompts", &mut catalog.notes);
        catalog.prompts = once_each(prompts, |prompt| &prompt.name, "prompt", &mut catalog.notes);
    }
    if offers.resources.is_some() {
        let pages = PagedList { connection, method: "resources/list", member: "resources", timeout };
        let resources = pages.read_or_note(reader.limits.items, &mut catalog.notes).await?;
        catalog.resources = kept(&resources, |item| reader.resource(item), "resources", &mut catalog.notes);
    }
    Ok(catalog)
}

fn kept<T>(items: &[Json], read: impl Fn(&Json) -> Option<T>, what: &str, notes: &mut Vec<String>) -> Vec<T> {
    let read: Vec<T> = items.iter().filter_map(read).collect();
    if read.len() < items.len() {
        notes.push(format!("{} of its {what} have no name and were left out", items.len() - read.len()));
    }
    read
}

/// Keeps the first item of each name, because requests name items and can reach only one.
fn once_each<T>(items: Vec<T>, name: impl Fn(&T) -> &String, what: &str, notes: &mut Vec<String>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    let mut again = BTreeSet::new();
    let first = |item: &T| {
        let is_new = seen.insert(name(item).clone());
        if !is_new {
            again.insert(name(item).clone());
        }
        is_new
    };
    let kept = items.into_iter().filter(first).collect();
    if !again.is_empty() {
        let named: Vec<_> = again.iter().take(MOST_NAMED).map(String::as_str).collect();
        let more = if again.len() > MOST_NAMED { " and more" } else { "" };
        notes.push(format!("it lists more than one {what} of the same name: {}{more}", named.join(", ")));
    }
    kept
}

/// A list that is requested page by page.
struct PagedList<'a> {
    connection: &'a Connection,
    method: &'static str,
    member: &'static str,
    timeout: RequestTimeout,
}

impl PagedList<'_> {
    async fn read(&self, most: usize, notes: &mut Vec<String>) -> Result<Vec<Json>, RequestError> {
        let (mut items, mut cursor, mut seen) = (Vec::new(), None, BTreeSet::new());
        for _ in 0..MOST_PAGES {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let asked = self.connection.ask(self.method, params, self.timeout, std::future::pending());
            let page = asked.await?.fields();
            match page.get(self.member).and_then(Json::items) {
                Some(more) => items.extend(more),
                None => {
                    notes.push(format!("its answer to {} is not a list", self.method));
                    return Ok(items);
                }
            }
            cursor = page.text("nextCursor").filter(|next| seen.insert(next.clone()));
            if cursor.is_none() || items.len() > most {
                break;
            }
        }
        if cursor.is_some() || items.len() > most {
            notes.push(format!("it has more {} than the limit; only the first {most} are used", self.member));
            items.truncate(most);
        }
        Ok(items)
    }

    async fn read_or_note(&self, most: usize, notes: &mut Vec<String>) -> Result<Vec<Json>, RequestError> {
        match self.read(most, notes).await {
            Err(RequestError::Refused { message, .. }) => {
                notes.push(format!("it rejected {}: {message}", self.method));
                Ok(Vec::new())
            }
            other => other,
        }
    }
}
