//! Decisions about options: mode, model and whatever else the agent offers.

use crate::{AskId, Entry, Fields, Json, Refusal, Session, Update};

/// A client changes an option: only to a value that is on offer.
pub(super) fn set(session: &Session, ask: AskId, option: String, value: Json) -> Result<Vec<Entry>, Refusal> {
    check(session, &option, &value)?;
    Ok(vec![Entry::OptionAsked { ask, option, value }])
}

/// The first choice of the session that the agent does not have and could have.
pub(super) fn again(session: &Session, ask: AskId, options: &Json, tried: &[String]) -> Option<Entry> {
    let now: Vec<_> = options.items().unwrap_or_default().iter().map(Json::fields).collect();
    let mut kept = offered(session);
    // What else is on offer may hang on the model.
    kept.sort_by_key(|option| option.text("category").as_deref() != Some("model"));
    kept.iter().find_map(|kept| {
        let value = kept.get("currentValue")?;
        let option = counterpart(kept, &now)?;
        let id = option.text("configId")?;
        let same = option.get("currentValue").is_some_and(|current| current.value() == value.value());
        let open = !same && !tried.contains(&id) && takes(option, value).is_ok();
        open.then(|| Entry::OptionAsked { ask: ask.clone(), option: id, value: value.clone() })
    })
}

/// The option of an agent that is the same as one that was kept: by its id, or else by what it is for, since each
/// agent has its own names.
fn counterpart<'a>(kept: &Fields, now: &'a [Fields]) -> Option<&'a Fields> {
    let same = |other: &Fields, name: &str| kept.text(name).is_some() && kept.text(name) == other.text(name);
    let alike = || now.iter().filter(|other| same(other, "type"));
    let named = alike().find(|other| same(other, "configId"));
    named.or_else(|| alike().find(|other| same(other, "category")))
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
    takes(known, value).map_err(bad)
}

/// Says whether an option takes a value, or what it takes.
fn takes(option: &Fields, value: &Json) -> Result<(), Vec<String>> {
    match option.text("type").as_deref() {
        Some("boolean") if !matches!(value.text(), "true" | "false") => {
            Err(vec!["true".to_owned(), "false".to_owned()])
        }
        Some("select") => {
            let values = select_values(option);
            let chosen = value.as_string();
            if chosen.is_some_and(|chosen| values.contains(&chosen)) { Ok(()) } else { Err(values) }
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
