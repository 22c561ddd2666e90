//! Converts login methods. The canonical form has a type on each and its environment as a list; version 1 has a type
//! only on terminal methods and their environment as a map.

use rethread_core::{Fields, Json};

use super::meta::{drop_nulls, each, present};

/// Converts a list of v1 methods to canonical form.
#[must_use]
pub fn list_from_v1(methods: &Json) -> Json {
    each(methods, |method| from_v1(method.fields()).json())
}

/// Converts a canonical list of methods to v1.
#[must_use]
pub fn list_to_v1(methods: &Json) -> Json {
    each(methods, |method| to_v1(method.fields()).json())
}

/// Converts one v1 method to canonical form.
#[must_use]
pub fn from_v1(mut method: Fields) -> Fields {
    drop_nulls(&mut method, &["type", "description", "args", "env", "_meta"]);
    method.rename("id", "methodId");
    if method.get("type").is_none() {
        method.set("type", Json::of("agent"));
    }
    if let Some(env) = terminal_env(&method).filter(|env| env.items().is_none()) {
        let list: Vec<Fields> = env.fields().iter().map(variable).collect();
        method.set("env", Json::of(&list));
    }
    method
}

/// Converts one canonical method to v1.
#[must_use]
pub fn to_v1(mut method: Fields) -> Fields {
    method.rename("methodId", "id");
    if method.text("type").as_deref() == Some("agent") {
        method.take("type");
    }
    if let Some(variables) = terminal_env(&method).and_then(|env| env.items()) {
        let pair = |variable: &Json| {
            let variable = variable.fields();
            Some((variable.text("name")?, variable.get("value")?.clone()))
        };
        let map: Fields = variables.iter().filter_map(pair).collect();
        method.set("env", map.json());
    }
    method
}

fn terminal_env(method: &Fields) -> Option<Json> {
    let terminal = method.text("type").as_deref() == Some("terminal");
    present(method, "env").filter(|_| terminal).cloned()
}

fn variable((name, value): (&str, &Json)) -> Fields {
    [("name", Json::of(name)), ("value", value.clone())].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use expect_test::expect;

    use super::*;
    use crate::edge::v1::schema_checks::{json, parses, roundtrips};

    #[test]
    fn login_methods_round_trip() {
        let methods = json(
            r#"[{"id":"a","name":"A","description":"d"},{"type":"terminal","id":"t","name":"T","args":["login"],"env":{"K":"v"},"_meta":{"k":1}}]"#,
        );
        roundtrips::<Vec<v1::AuthMethod>>(&methods);
        let canonical = list_from_v1(&methods);
        roundtrips::<Vec<v2::AuthMethod>>(&canonical);
        expect![[r#"[{"methodId":"a","name":"A","description":"d","type":"agent"},{"type":"terminal","methodId":"t","name":"T","args":["login"],"env":[{"name":"K","value":"v"}],"_meta":{"k":1}}]"#]]
        .assert_eq(canonical.text());
        assert_eq!(list_to_v1(&canonical), methods);
    }

    #[test]
    fn an_unknown_type_keeps_its_members() {
        let method = json(r#"{"type":"_key","methodId":"k","name":"K","env":[]}"#);
        roundtrips::<v2::AuthMethod>(&method);
        let shown = to_v1(method.fields());
        parses::<v1::AuthMethod>(&shown.json());
        assert_eq!(from_v1(shown).json(), method);
    }
}
