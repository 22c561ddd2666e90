//! Tests that the three v1 forms and the canonical list agree, with the types of the protocol's schema crate.

use agent_client_protocol_schema::{v1, v2};
use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::edge::v1::schema_checks::{parses, roundtrips};

fn of(value: Value) -> Json {
    value.into()
}

fn modes() -> Json {
    of(json!({"currentModeId": "ask", "availableModes": [
        {"id": "ask", "name": "Ask", "description": "Asks first"}, {"id": "code", "name": "Code"}]}))
}

fn models() -> Json {
    of(
        json!({"availableModels": [{"modelId": "m1", "name": "One", "description": null}], "currentModelId": "m1"}),
    )
}

fn config() -> Json {
    of(json!([
        {"id": "mode", "name": "Speed", "type": "select", "currentValue": "a",
         "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}]},
        {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": false, "category": "model_config"},
    ]))
}

#[test]
fn modes_models_and_config_options_become_one_list() {
    let (options, sources) = Options::from_v1(Some(&modes()), Some(&models()), Some(&config()));
    roundtrips::<Vec<v2::SessionConfigOption>>(&options.to_v2());
    let text: String = options.iter().map(|option| format!("{}\n", option.json())).collect();
    expect![[r#"
        {"configId":"mode","name":"Speed","type":"select","currentValue":"a","options":[{"groupId":"g","name":"G","options":[{"value":"a","name":"A"}]}]}
        {"configId":"fast","name":"Fast","type":"boolean","currentValue":false,"category":"model_config"}
        {"configId":"_mode","name":"Mode","category":"mode","type":"select","currentValue":"ask","options":[{"value":"ask","name":"Ask","description":"Asks first"},{"value":"code","name":"Code"}]}
        {"configId":"model","name":"Model","category":"model","type":"select","currentValue":"m1","options":[{"value":"m1","name":"One"}]}
    "#]]
    .assert_eq(&text);
    assert_eq!(sources.of("_mode"), Source::Mode);
    assert_eq!(sources.of("model"), Source::Model);
    assert_eq!(sources.of("fast"), Source::Config);
    assert_eq!(sources.option(Source::Mode), Some("_mode"));
}

#[test]
fn modes_mirror_the_config_option_of_their_category() {
    let config = of(json!([{"id": "m", "name": "Mode", "category": "mode", "type": "select",
        "currentValue": "code", "options": [{"value": "code", "name": "Code"}]}]));
    let (options, sources) = Options::from_v1(Some(&modes()), Some(&of(Value::Null)), Some(&config));
    assert_eq!(sources, Sources::default());
    assert_eq!(options.iter().count(), 1);
    assert_eq!(options.by_category("mode").as_deref(), Some("m"));
}

#[test]
fn all_three_forms_show_a_changed_value() {
    let (options, sources) = Options::from_v1(Some(&modes()), Some(&models()), Some(&config()));
    let views = options.with_value("_mode", &Json::of("code")).to_v1(BooleanOptions::Withheld);
    let typed: v1::SessionModeState = roundtrips(&views.modes.unwrap());
    assert_eq!(&*typed.current_mode_id.0, "code");
    let typed: Vec<v1::SessionConfigOption> = roundtrips(&views.config_options);
    assert_eq!(typed.len(), 3);
    assert_eq!(views.withheld, ["fast"]);
    expect![[r#"{"currentModelId":"m1","availableModels":[{"modelId":"m1","name":"One"}]}"#]]
        .assert_eq(views.models.unwrap().text());
    let replaced = options.with_config(&sources, &of(json!([])));
    assert_eq!(replaced.iter().map(id_of).collect::<Vec<_>>(), ["_mode", "model"]);
    let newer = json!([{"id": "llm", "name": "M", "category": "model", "type": "select", "currentValue": "m1",
        "options": [{"value": "m1", "name": "One"}]}]);
    let replaced = options.with_config(&sources, &of(newer));
    assert_eq!(replaced.iter().map(id_of).collect::<Vec<_>>(), ["llm", "_mode"]);
}

#[test]
fn modes_and_models_flatten_groups() {
    let list =
        of(json!([{"configId": "m", "name": "M", "category": "model", "type": "select", "currentValue": "b",
        "options": [{"groupId": "g", "name": "G", "options": [{"value": "a", "name": "A"}]},
                    {"groupId": "h", "name": "H", "options": [{"value": "b", "name": "B"}]}]},
        {"configId": "w", "name": "W", "type": "_slider", "currentValue": 3}]));
    roundtrips::<Vec<v2::SessionConfigOption>>(&list);
    let options = Options::from_v2(&list);
    assert_eq!(options.to_v2(), list);
    assert_eq!(options.current("m").map(Json::text), Some("\"b\""));
    let mut answer = Fields::new();
    options.to_v1(BooleanOptions::Offered).write_to(&mut answer);
    roundtrips::<Vec<v1::SessionConfigOption>>(answer.get("configOptions").unwrap());
    expect![[r#"{"models":{"currentModelId":"b","availableModels":[{"modelId":"a","name":"A"},{"modelId":"b","name":"B"}]},"configOptions":[{"id":"m","name":"M","category":"model","type":"select","currentValue":"b","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]},{"group":"h","name":"H","options":[{"value":"b","name":"B"}]}]}],"_meta":{"rethread":{"withheld":["w"]}}}"#]]
    .assert_eq(answer.json().text());
}

#[test]
fn the_current_mode_of_an_update() {
    let (options, _) = Options::from_v1(Some(&modes()), None, None);
    let mut body = Fields::new();
    body.set("configOptions", options.to_v2());
    assert_eq!(current_mode(&body.json()).as_deref(), Some("ask"));
    assert_eq!(current_mode(&of(json!({"configOptions": []}))), None);
}

#[test]
fn set_requests_gain_and_lose_their_type() {
    for (old, new) in [
        (json!({"sessionId": "s", "configId": "c", "value": "x"}), json!({"type": "id"})),
        (
            json!({"sessionId": "s", "configId": "c", "value": true, "type": "boolean"}),
            json!({"type": "boolean"}),
        ),
    ] {
        let old = of(old);
        roundtrips::<v1::SetSessionConfigOptionRequest>(&old);
        let canonical = value_from_v1(old.fields());
        roundtrips::<v2::SetSessionConfigOptionRequest>(&canonical.json());
        assert_eq!(canonical.text("type").as_deref(), new["type"].as_str());
        assert_eq!(value_to_v1(canonical).json(), old);
    }
}

fn word() -> impl Strategy<Value = String> {
    "[a-z]{1,4}"
}

fn choice(id: &'static str) -> impl Strategy<Value = Value> {
    (word(), word(), prop::option::of(word())).prop_map(move |(value, name, description)| {
        let mut choice = json!({id: value, "name": name});
        if let Some(description) = description {
            choice["description"] = description.into();
        }
        choice
    })
}

fn older_view(id: &'static str, current: &'static str, all: &'static str) -> impl Strategy<Value = Json> {
    (word(), prop::collection::vec(choice(id), 1..4))
        .prop_map(move |(value, choices)| of(json!({current: value, all: choices})))
}

fn config_option() -> impl Strategy<Value = Value> {
    let flat = prop::collection::vec(choice("value"), 1..3).prop_map(Value::from);
    let group = (word(), prop::collection::vec(choice("value"), 1..3))
        .prop_map(|(id, values)| json!([{"group": id, "name": "G", "options": values}]));
    let select = (word(), prop_oneof![flat, group])
        .prop_map(|(id, values)| json!({"id": id, "name": "N", "type": "select", "currentValue": "v", "options": values}));
    let switch =
        word().prop_map(|id| json!({"id": id, "name": "N", "type": "boolean", "currentValue": true}));
    prop_oneof![select, switch]
}

proptest! {
    #[test]
    fn the_first_version_gets_back_what_it_gave(
        modes in prop::option::of(older_view("id", "currentModeId", "availableModes")),
        models in prop::option::of(older_view("modelId", "currentModelId", "availableModels")),
        config in prop::collection::vec(config_option(), 0..4),
    ) {
        let config = of(Value::from(config));
        let (options, _) = Options::from_v1(modes.as_ref(), models.as_ref(), Some(&config));
        parses::<Vec<v2::SessionConfigOption>>(&options.to_v2());
        let views = options.to_v1(BooleanOptions::Offered);
        parses::<Vec<v1::SessionConfigOption>>(&views.config_options);
        let shown = views.config_options.items().unwrap();
        let given = config.items().unwrap();
        prop_assert_eq!(&shown[..given.len()], &given[..]);
        prop_assert_eq!(views.modes, modes);
        prop_assert_eq!(views.models, models);
        prop_assert!(views.withheld.is_empty());
    }
}
