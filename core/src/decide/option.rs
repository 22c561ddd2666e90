//! Decisions about options: mode, model and whatever else the agent offers.

use crate::{AskId, Entry, Fields, Json, Refusal, Session, Update};

/// A client changes an option: only to a value that is on offer.
pub(super) fn set(session: &Session, ask: AskId, option: String, value: Json) -> Result<Vec<Entry>, Refusal> {
    check(session, &option, &value)?;
    if session.agent.is_none() {
        return Err(Refusal::NoAgent);
    }
    Ok(vec![Entry::OptionAsked { ask, option, value }])
}

/// The agent answered a change of option.
pub(super) fn answered(
    session: &Session,
    ask: AskId,
    error: Option<Json>,
    options: Option<Update>,
) -> Result<Vec<Entry>, Refusal> {
    if !session.asks.contains(&ask) {
        return Err(Refusal::UnknownAsk(ask));
    }
    let mut entries = Vec::new();
    if error.is_none() {
        entries.extend(options.map(|update| Entry::Updated { update, known: true }));
    }
    entries.push(Entry::OptionSettled { ask, error });
    Ok(entries)
}

fn check(session: &Session, option: &str, value: &Json) -> Result<(), Refusal> {
    let offered = offered(session);
    let Some(known) = offered.iter().find(|known| known.text("configId").as_deref() == Some(option)) else {
        let known = offered.iter().filter_map(|known| known.text("configId")).collect();
        return Err(Refusal::UnknownOption { option: option.to_owned(), known });
    };
    let bad = |expected| Refusal::BadValue { option: option.to_owned(), got: value.clone(), expected };
    match known.text("type").as_deref() {
        Some("boolean") if !matches!(value.text(), "true" | "false") => {
            Err(bad(vec!["true".to_owned(), "false".to_owned()]))
        }
        Some("select") => {
            let values = select_values(known);
            let chosen = value.as_string();
            if chosen.is_some_and(|chosen| values.contains(&chosen)) { Ok(()) } else { Err(bad(values)) }
        }
        // Kinds of option that are not known here are the agent's to judge.
        Some(_) | None => Ok(()),
    }
}

fn offered(session: &Session) -> Vec<Fields> {
    let list = session.options.as_ref().and_then(|body| body.fields().get("configOptions")?.items());
    list.unwrap_or_default().iter().map(Json::fields).collect()
}

fn select_values(option: &Fields) -> Vec<String> {
    let items = option.get("options").and_then(Json::items).unwrap_or_default();
    let mut values = Vec::new();
    for item in items.iter().map(Json::fields) {
        match item.get("options").and_then(Json::items) {
            Some(group) => values.extend(group.iter().filter_map(|choice| choice.fields().text("value"))),
            None => values.extend(item.text("value")),
        }
    }
    values
}
