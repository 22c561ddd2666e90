//! Questions of an agent when several clients follow: all are asked, the first answer that decides counts.

use rethread::server::WhenUnattended;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, World, pairings};
use serde_json::{Value, json};

use super::{PERMISSION, Shared, VERSIONS, idle};

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// The first option that the parameters of a request for permission offer.
fn first_option(params: &Value) -> String {
    params["options"][0]["optionId"].as_str().expect("an option").to_owned()
}

async fn withdrawn(client: &Client, request: &Value) {
    client
        .wait("the question to be withdrawn", |message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == request["id"]
        })
        .await;
}

/// How often the agent was answered, and with what.
fn outcomes(world: &World) -> Vec<Value> {
    world
        .agent
        .received_params("answer")
        .iter()
        .map(|answer| answer["result"]["outcome"]["outcome"].clone())
        .collect()
}

async fn a_permission_is_answered_by_either_and_withdrawn_from_the_other(pairing: Pairing) {
    for other in VERSIONS {
        for second_answers in [false, true] {
            let shared = Shared::of(pairing, other).await;
            let prompt = shared.one.begin_prompt(&shared.session, "permit").await;
            let asked = (shared.one.wait_method(PERMISSION).await, shared.two.wait_method(PERMISSION).await);
            let (by, request, not_by, open) = match second_answers {
                false => (&shared.one, &asked.0, &shared.two, &asked.1),
                true => (&shared.two, &asked.1, &shared.one, &asked.0),
            };
            by.reply(&request["id"], Ok(selected(&first_option(&request["params"])))).await;
            withdrawn(not_by, open).await;
            // Too late: it is ignored.
            not_by.reply(&open["id"], Ok(json!({"outcome": {"outcome": "cancelled"}}))).await;
            assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "end_turn");
            assert_eq!(outcomes(&shared.world), ["selected"]);
        }
    }
}

async fn of_two_answers_at_the_same_moment_the_later_one_is_told_so(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        for _ in 0..10 {
            let marks = (shared.one.mark(), shared.two.mark());
            let prompt = shared.one.begin_prompt(&shared.session, "permit").await;
            let is_asked = |message: &Value| message["method"] == PERMISSION;
            let one = shared.one.wait_since(marks.0, PERMISSION, is_asked).await;
            let two = shared.two.wait_since(marks.1, PERMISSION, is_asked).await;
            let option = |request: &Value, at: usize| {
                Ok(selected(request["params"]["options"][at]["optionId"].as_str().expect("an option")))
            };
            tokio::join!(
                shared.one.reply(&one["id"], option(&one, 0)),
                shared.two.reply(&two["id"], option(&two, 1)),
            );
            assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "end_turn");
            let told = |client: &Client, mark: usize, request: &Value| {
                let said = client.server_messages_since(mark);
                let is = |message: &&Value| {
                    message["method"] == "$/cancel_request" && message["params"]["requestId"] == request["id"]
                };
                said.iter().filter(is).count()
            };
            let deadline = std::time::Instant::now() + rethread_testkit::DEADLINE;
            loop {
                let counts = (told(&shared.one, marks.0, &one), told(&shared.two, marks.1, &two));
                match counts {
                    (0, 1) | (1, 0) => break,
                    (0, 0) if std::time::Instant::now() < deadline => {
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                    counts => panic!("one of them is told, once: {counts:?}"),
                }
            }
        }
    }
}

async fn an_answer_that_decides_nothing_is_left_to_the_others(pairing: Pairing) {
    let undecided: [Result<Value, Value>; 3] = [
        Err(json!({"code": -32601, "message": "no such method"})),
        Ok(selected("never offered")),
        Ok(json!({"outcome": {"outcome": "cancelled"}})),
    ];
    for other in VERSIONS {
        for answer in &undecided {
            let shared = Shared::of(pairing, other).await;
            let prompt = shared.one.begin_prompt(&shared.session, "permit").await;
            let asked = (shared.one.wait_method(PERMISSION).await, shared.two.wait_method(PERMISSION).await);
            shared.one.reply(&asked.0["id"], answer.clone()).await;
            shared.two.reply(&asked.1["id"], Ok(selected(&first_option(&asked.1["params"])))).await;
            assert_eq!(shared.one.finish(&shared.session, &prompt).await.stop, "end_turn");
            assert_eq!(outcomes(&shared.world), ["selected"], "{answer:?}");
        }
    }
}

async fn nothing_is_approved_when_everybody_declines(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let prompt = shared.one.begin_prompt(&shared.session, "permit").await;
        let asked = (shared.one.wait_method(PERMISSION).await, shared.two.wait_method(PERMISSION).await);
        let error = json!({"code": -32601, "message": "no such method"});
        shared.one.reply(&asked.0["id"], Err(error)).await;
        shared.two.reply(&asked.1["id"], Ok(json!({"outcome": {"outcome": "cancelled"}}))).await;
        shared.one.finish(&shared.session, &prompt).await;
        assert_eq!(outcomes(&shared.world), ["cancelled"]);
    }
}

/// The one that is left has declined: the question does not wait for the one that left.
async fn a_question_that_the_others_declined_ends_when_the_last_able_client_leaves(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        let prompt = shared.one.begin_prompt(&shared.session, "permit").await;
        let asked = shared.one.wait_method(PERMISSION).await;
        shared.two.wait_method(PERMISSION).await;
        shared.one.reply(&asked["id"], Err(json!({"code": -32603, "message": "cannot"}))).await;
        shared.two.disconnect().await;
        shared.one.finish(&shared.session, &prompt).await;
        assert_eq!(outcomes(&shared.world), ["cancelled"]);
    }
}

async fn a_question_that_nobody_answered_is_asked_of_the_next_client(pairing: Pairing) {
    for other in VERSIONS {
        let world = World::of(pairing).set(|config| config.when_unattended = WhenUnattended::Keep);
        let one = world.ready().await;
        one.on(PERMISSION, |_| None);
        let session = one.new_session().await;
        one.begin_prompt(&session, "permit; say done").await;
        one.wait_method(PERMISSION).await;
        one.disconnect().await;
        assert!(world.agent.running() > 0, "the session is kept");
        let next = world.ready_as(other).await;
        next.on(PERMISSION, |params| Some(Ok(selected(&first_option(params)))));
        next.load(&session).await;
        idle(&next, 0, &session).await;
        assert_eq!(outcomes(&world), ["selected"]);
        assert!(next.view(&session).agent().contains(&"done".to_owned()));
    }
}

/// A client that did not declare elicitation is not asked to fill in a form.
async fn forms_are_for_those_who_can_fill_them_in(pairing: Pairing) {
    for other in VERSIONS {
        let world = World::of(pairing);
        let one = world.ready().await;
        let session = one.new_session().await;
        let two = world.connect_as(other);
        two.initialize_bare().await;
        two.load(&session).await;
        one.on("elicitation/create", |_| Some(Ok(json!({"action": "accept", "content": {"name": "Ada"}}))));
        assert_eq!(one.prompt(&session, "elicit").await.stop, "end_turn");
        let asked = two.server_messages().iter().any(|message| message["method"] == "elicitation/create");
        assert!(!asked, "it cannot answer");
    }
}

pairings!(
    a_permission_is_answered_by_either_and_withdrawn_from_the_other,
    of_two_answers_at_the_same_moment_the_later_one_is_told_so,
    an_answer_that_decides_nothing_is_left_to_the_others,
    nothing_is_approved_when_everybody_declines,
    a_question_that_the_others_declined_ends_when_the_last_able_client_leaves,
    a_question_that_nobody_answered_is_asked_of_the_next_client,
    forms_are_for_those_who_can_fill_them_in,
);
