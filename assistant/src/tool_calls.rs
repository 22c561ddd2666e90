//! The tools that a model is offered, and running its calls: chooses between built-in tools, tools of MCP servers and the
//! tool `plan`.

use std::collections::BTreeMap;

use rethread::author::{ToolCall, ToolKind};
use serde_json::{Value, json};

use crate::call_context::{CallContext, CallResult, cancelled};
use crate::choice::Settings;
use crate::model::{self, ToolResult};
use crate::permission::not_allowed;
use crate::session::Session;
use crate::tools::{Access, Effect};
use crate::{builtin_tools, mcp, mcp_tools};

/// The name of the tool that shows a plan.
const PLAN: &str = "plan";

/// The tools that a model is offered.
pub(crate) struct OfferedTools {
    pub(crate) tools: Vec<model::ToolDefinition>,
    /// The number of tools above the model's limit.
    pub(crate) left_out: usize,
}

/// The tools for a model with this limit: the built-in ones first, then those of the servers in turn, so that a server with
/// many tools does not displace the others.
pub(crate) fn offered(session: &Session, settings: &Settings, most: usize) -> OfferedTools {
    let own = session.toolbox.describe(settings.access).into_iter();
    let mut tools: Vec<_> = own
        .map(|tool| model::ToolDefinition {
            name: tool.name.to_owned(),
            description: tool.description.to_owned(),
            schema: tool.schema,
        })
        .collect();
    if settings.may_plan() {
        tools.push(plan_tool());
    }
    let served: Vec<_> = served_tools(session, settings).collect();
    let room = most.saturating_sub(tools.len());
    let left_out = served.len().saturating_sub(room);
    tools.extend(in_turn(served, room).into_iter().map(|tool| model::ToolDefinition {
        name: tool.shown_name,
        description: tool.description,
        schema: tool.schema,
    }));
    OfferedTools { tools, left_out }
}

/// At most this many of the tools, taken from the servers in turn, in their original order.
fn in_turn(tools: Vec<mcp::McpTool>, most: usize) -> Vec<mcp::McpTool> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, mcp::McpTool)> = Vec::new();
    for tool in tools {
        let rank = seen.entry(tool.server.clone()).or_default();
        ranked.push((*rank, tool));
        *rank += 1;
    }
    let mut ranks: Vec<usize> = ranked.iter().map(|(rank, _)| *rank).collect();
    ranks.sort_unstable();
    let (bound, mut at_bound) = match ranks.get(most) {
        // Of the tools at the bound, only as many as fit.
        Some(bound) => (*bound, most - ranks.partition_point(|rank| rank < bound)),
        None => (usize::MAX, 0),
    };
    let mut fits = |rank: usize| {
        let last = rank == bound && at_bound > 0;
        at_bound -= usize::from(last);
        rank < bound || last
    };
    ranked.into_iter().filter(|(rank, _)| fits(*rank)).map(|(_, tool)| tool).collect()
}

/// The tools of MCP servers that the mode and the options allow.
fn served_tools(session: &Session, settings: &Settings) -> impl Iterator<Item = mcp::McpTool> {
    let may_change = settings.may_change();
    session.servers.tools().into_iter().filter(move |tool| may_change || tool.claims_read_only)
}

/// The kind of a tool, by its name.
pub(crate) fn kind_of(session: &Session, tool: &str) -> ToolKind {
    let own = session.toolbox.describe(Access::FULL);
    match own.iter().find(|spec| spec.name == tool).map(|spec| spec.effect) {
        Some(Effect::Reads) => ToolKind::Read,
        Some(Effect::Writes) => ToolKind::Edit,
        Some(Effect::Executes) => ToolKind::Execute,
        None => ToolKind::Other,
    }
}

fn plan_tool() -> model::ToolDefinition {
    let status = json!({"type": "string", "enum": ["pending", "in_progress", "completed"]});
    let entry = json!({"type": "object", "required": ["content", "status"],
        "properties": {"content": {"type": "string"}, "status": status}});
    model::ToolDefinition {
        name: PLAN.to_owned(),
        description:
            "Shows the user the plan: all steps, with the status of each. Call it again when a step is \
                      begun or done."
                .to_owned(),
        schema: json!({"type": "object", "required": ["entries"],
            "properties": {"entries": {"type": "array", "items": entry}}}),
    }
}

impl CallContext<'_> {
    /// Runs the calls of one answer: consecutive calls that only read in parallel, the others one after the other.
    pub(crate) async fn all(&self, calls: &[model::ToolCall]) -> Vec<ToolResult> {
        let mut results = Vec::new();
        for group in calls.chunk_by(|one, next| self.only_reads(one) && self.only_reads(next)) {
            results.extend(futures::future::join_all(group.iter().map(|call| self.one(call))).await);
        }
        results
    }

    fn only_reads(&self, call: &model::ToolCall) -> bool {
        let own = self.session.toolbox.describe(Access::FULL);
        own.iter().any(|tool| tool.name == call.name && tool.effect == Effect::Reads)
    }

    /// Runs one call.
    pub(crate) async fn one(&self, call: &model::ToolCall) -> ToolResult {
        let done = match &call.arguments {
            // Later calls of the same answer are not run.
            _ if self.turn.is_cancelled() => self.not_begun(call).await,
            Err(broken) => {
                let why = format!("error: the arguments of {} are not a JSON object: {broken}", call.name);
                self.refused(call, &json!(broken), &why).await
            }
            Ok(arguments) if call.name == PLAN && self.settings().may_plan() => {
                self.plan(call, arguments).await
            }
            Ok(arguments) => match self.served(&call.name) {
                Some(tool) => mcp_tools::call(self, call, &tool, arguments).await,
                None => match self.not_served(&call.name) {
                    Some(why) => self.refused(call, arguments, &why).await,
                    None => builtin_tools::call(self, call, arguments).await,
                },
            },
        };
        let CallResult { text, images, failed } = done;
        ToolResult { id: call.id.clone(), name: call.name.clone(), text, images, failed }
    }

    /// The result of a call that was not begun because the turn was cancelled. Marks an announced call as stopped.
    async fn not_begun(&self, call: &model::ToolCall) -> CallResult {
        if let Some(tool) = self.begun.iter().find(|tool| tool.id() == call.id) {
            tool.stopped().await;
        }
        cancelled()
    }

    fn served(&self, name: &str) -> Option<mcp::McpTool> {
        let settings = self.settings();
        let mut tools = served_tools(self.session, &settings);
        tools.find(|tool| tool.shown_name == name || tool.provider_name == name)
    }

    /// Why a tool of a server cannot be called now; `None` if no server has a tool with this name.
    fn not_served(&self, name: &str) -> Option<String> {
        if let Some(gone) = self.session.servers.gone(name) {
            return Some(mcp_tools::error_text(&gone));
        }
        let mut tools = self.session.servers.tools().into_iter();
        tools.find(|tool| tool.shown_name == name || tool.provider_name == name)?;
        Some(not_allowed(name))
    }

    /// Shows the plan to the user, and stores the call like any other.
    async fn plan(&self, call: &model::ToolCall, arguments: &Value) -> CallResult {
        let entries = arguments["entries"].as_array().into_iter().flatten();
        let entry = |entry: &Value| {
            let status = match entry["status"].as_str() {
                Some("completed") => "completed",
                Some("in_progress") => "in_progress",
                Some(_) | None => "pending",
            };
            Some((entry["content"].as_str()?.to_owned(), status))
        };
        let entries: Vec<_> = entries.filter_map(entry).collect();
        if entries.is_empty() {
            let why = "error: argument `entries` must be a list of steps with content and status";
            return self.refused(call, arguments, why).await;
        }
        let tool = self.announce(call, ToolCall::new("Plan", ToolKind::Think), arguments).await;
        self.turn.plan(&entries).await;
        let text = "the plan is shown".to_owned();
        tool.done(json!({"text": text})).await;
        CallResult { text, images: Vec::new(), failed: false }
    }
}
