//! A complete agent that carries out the script in its prompts, such as `say hello; tool call_1; permit`. Run it with
//! `cargo run --example scripted`. The steps that only tests need are in the test kit, with the same methods.

use std::sync::Arc;

use rethread::author::{About, Agent, InProcess, Permission, SessionSetup, Stop, ToolCall, ToolKind, Turn};
use rethread::{server::Config, server::Server, store::memory::MemoryStore, wire::RpcError};
use rethread_testkit::agent::{Step, aside, extension, script};
use serde_json::{Value, json};

pub(crate) struct Scripted(pub(crate) About);

impl Agent for Scripted {
    type Session = ();

    fn about(&self) -> About {
        self.0.clone()
    }

    async fn open(&self, _: SessionSetup) -> Result<(), RpcError> {
        Ok(())
    }

    async fn prompt(&self, _: &(), turn: Turn) -> Result<Stop, RpcError> {
        for step in script(&turn.content()).into_iter().take_while(|_| !turn.is_cancelled()) {
            match step {
                Step::Say(text) => turn.say(&text).await,
                Step::Think(text) => turn.think(&text).await,
                Step::Tool(id) => {
                    let tool = turn.tool(ToolCall::new("Edit a file", ToolKind::Edit).with_id(&id)).await;
                    tool.diff("/work/a.txt", Some("one\n"), "two\n").await;
                    tool.done(json!({"changed": 1})).await;
                }
                Step::Permit => {
                    let tool = turn.tool(ToolCall::new("Run it", ToolKind::Execute)).await;
                    let decision = turn.permission(&tool, &Permission::yes_or_no("Run it?")).await;
                    tool.done(Value::Null).await;
                    turn.say(&format!("permission: {decision}")).await;
                }
                Step::Mode(mode) => turn.choose("mode", mode).await?,
                Step::Hang => turn.cancelled().await,
                Step::Fail => Err(RpcError::internal("the script failed").with("why", "it was told to"))?,
                Step::Stop(reason) => return Ok(Stop::Other(reason)),
                Step::Aside(step) => aside(&turn, step).await,
            }
        }
        Ok(Stop::EndTurn)
    }

    async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        extension(method, params).await
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let agent = InProcess::new(Scripted(About::new("scripted", "1.0.0")));
    Server::new(Arc::new(MemoryStore::new()), Arc::new(agent), Config::default()).serve_stdio().await
}
