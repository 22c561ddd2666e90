//! Ways to log in, as an agent names them. The canonical shape tags each and lists its environment; the first
//! version tags only terminals and keeps their environment as a map.

use rethread_core::{Fields, Json};

use super::meta::{drop_nulls, each, present};

/// The canonical list of methods.
#[must_use]
pub fn list_from_v1(methods: &Json) -> Json {
    each(methods, |method| from_v1(method.fields()).json())
}

/// The list of methods of the first version.
#[must_use]
pub fn list_to_v1(methods: &Json) -> Json {
    each(methods, |method| to_v1(method.fields()).json())
}

/// The canonical form of one method.
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

/// The form of one method in the first version.
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
    use crate::edge::v1::typed::{holds, json, parses};

    #[test]
    fn methods_go_and_return() {
        let methods = json(
            r#"[{"id":"a","name":"A","description":"d"},{"type":"terminal","id":"t","name":"T","args":["login"],"env":{"K":"v"},"_meta":{"k":1}}]"#,
        );
        holds::<Vec<v1::AuthMethod>>(&methods);
        let canonical = list_from_v1(&methods);
        holds::<Vec<v2::AuthMethod>>(&canonical);
        expect![[r#"[{"methodId":"a","name":"A","description":"d","type":"agent"},{"type":"terminal","methodId":"t","name":"T","args":["login"],"env":[{"name":"K","value":"v"}],"_meta":{"k":1}}]"#]]
        .assert_eq(canonical.text());
        assert_eq!(list_to_v1(&canonical), methods);
    }

    #[test]
    fn an_unknown_sort_keeps_its_members() {
        let method = json(r#"{"type":"_key","methodId":"k","name":"K","env":[]}"#);
        holds::<v2::AuthMethod>(&method);
        let shown = to_v1(method.fields());
        parses::<v1::AuthMethod>(&shown.json());
        assert_eq!(from_v1(shown).json(), method);
    }
}
