//! Converts slash commands. The canonical form has a type on each command and its input; version 1 has only one type of
//! each.

use rethread_core::{Fields, Json};

use super::meta::{drop_nulls, each, set_own_meta};

/// Converts a v1 `available_commands_update` to canonical form.
#[must_use]
pub fn from_v1(body: Fields) -> Json {
    with_list(body, list_from_v1)
}

/// Converts a canonical `available_commands_update` to v1.
#[must_use]
pub fn to_v1(body: &Json) -> Json {
    with_list(body.fields(), list_to_v1)
}

/// Converts a list of v1 commands to canonical form.
#[must_use]
pub fn list_from_v1(commands: &Json) -> Json {
    each(commands, |command| command_from_v1(command.fields()))
}

/// Converts a canonical list of commands to v1.
#[must_use]
pub fn list_to_v1(commands: &Json) -> Json {
    each(commands, |command| command_to_v1(command.fields()))
}

fn with_list(mut body: Fields, convert: fn(&Json) -> Json) -> Json {
    if let Some(list) = body.get("availableCommands") {
        let list = convert(list);
        body.set("availableCommands", list);
    }
    body.json()
}

fn command_from_v1(mut command: Fields) -> Json {
    drop_nulls(&mut command, &["input", "_meta"]);
    if command.get("type").is_none() {
        command.set("type", Json::of("command"));
    }
    if let Some(mut input) = command.get("input").map(Json::fields) {
        if input.get("type").is_none() {
            input.set("type", Json::of("text"));
        }
        command.set("input", input.json());
    }
    command.json()
}

fn command_to_v1(mut command: Fields) -> Json {
    drop_nulls(&mut command, &["input"]);
    match command.take("type") {
        Some(sort) if sort.as_string().as_deref() != Some("command") => {
            set_own_meta(&mut command, "type", sort)
        }
        Some(_) | None => {}
    }
    if let Some(input) = command.get("input").cloned() {
        input_to_v1(&mut command, &input);
    }
    command.json()
}

fn input_to_v1(command: &mut Fields, input: &Json) {
    let mut fields = input.fields();
    let sort = fields.take("type").and_then(|sort| sort.as_string()).unwrap_or_else(|| "text".to_owned());
    if sort != "text" {
        set_own_meta(command, "input", input.clone());
    }
    if fields.text("hint").is_none() {
        fields.set("hint", Json::of(&format!("{sort} input")));
    }
    command.set("input", fields.json());
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::expect;

    use super::*;
    use crate::edge::v1::schema_checks::{json, roundtrips};

    #[test]
    fn commands_round_trip() {
        let body = json(
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"A","input":{"hint":"what"}},{"name":"b","description":"B"}],"_meta":{"k":1}}"#,
        );
        roundtrips::<v1::SessionUpdate>(&body);
        let canonical = from_v1(body.fields());
        let typed = roundtrips::<v2::SessionUpdate>(&canonical);
        assert!(matches!(typed, v2::SessionUpdate::AvailableCommandsUpdate(_)));
        assert_eq!(to_v1(&canonical), body);
    }

    #[test]
    fn no_input_may_be_null() {
        let list = list_from_v1(&json(r#"[{"name":"b","description":"B","input":null}]"#));
        expect![[r#"[{"name":"b","description":"B","type":"command"}]"#]].assert_eq(list.text());
    }

    #[test]
    fn unknown_types_keep_name_and_description() {
        let list = json(
            r#"[{"type":"_skill","name":"s","description":"S","level":3},{"type":"command","name":"f","description":"F","input":{"type":"_form","fields":[]}}]"#,
        );
        roundtrips::<Vec<v2::AvailableCommand>>(&list);
        let shown = list_to_v1(&list);
        let typed: Vec<v1::AvailableCommand> = crate::edge::v1::schema_checks::parses(&shown);
        assert_eq!(typed.len(), 2);
        expect![[r#"[{"name":"s","description":"S","level":3,"_meta":{"rethread":{"type":"_skill"}}},{"name":"f","description":"F","input":{"fields":[],"hint":"_form input"},"_meta":{"rethread":{"input":{"type":"_form","fields":[]}}}}]"#]]
        .assert_eq(shown.text());
    }
}
