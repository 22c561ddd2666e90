//! What can happen to a session, and the ways a happening is refused. Ids and times are minted outside.

use crate::{
    Activity, AgentKind, AskId, Binding, Json, MessageId, Millis, PromptStyle, QuestionId, QuestionKind,
    ServerNote, Stop, Update,
};

/// One occurrence, from a client, from the agent, or from Rethread itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A client sends a prompt.
    Prompt {
        /// The id minted for its message.
        message: MessageId,
        /// Its content blocks.
        content: Json,
        /// A title made of it, in case the session has none.
        title: Option<String>,
        /// Now.
        at: Millis,
    },
    /// A client takes back a prompt that has not been inserted.
    Withdraw {
        /// Which one.
        message: MessageId,
    },
    /// A client wants the foreground work, and what waits for it, to stop.
    Cancel,
    /// A client says which roots and servers the session has.
    SetRoots {
        /// The additional roots, complete.
        roots: Vec<String>,
        /// The servers, complete, without secrets.
        servers: Vec<ServerNote>,
    },
    /// A client changes an option.
    SetOption {
        /// The id minted for the request.
        ask: AskId,
        /// The option.
        option: String,
        /// The wanted value: a string or a boolean.
        value: Json,
    },
    /// A client gives the session a title.
    SetTitle {
        /// The title.
        title: String,
    },
    /// A client answers a question.
    Answer {
        /// Which question.
        question: QuestionId,
        /// The result for the agent.
        answer: Json,
    },
    /// An agent that opens the session says what it offers. One choice that was made in the session and that the
    /// agent does not have is made again: one at a time, since each may change what else is on offer.
    AgentOffers {
        /// The id minted for the request.
        ask: AskId,
        /// All its options, in canonical shape.
        options: Json,
        /// The options that it was asked for already.
        tried: Vec<String>,
    },
    /// An agent session is there.
    AgentBound {
        /// The agent, by the name it has for itself.
        agent: String,
        /// The agent's own id for the session.
        native: String,
        /// What it knows.
        binding: Binding,
        /// How it takes prompts.
        style: PromptStyle,
        /// Where it runs.
        kind: AgentKind,
        /// Now: what waited for the agent starts.
        at: Millis,
    },
    /// The agent turns out to take prompts in another way than it said when it was bound.
    StyleFound {
        /// How it takes them.
        style: PromptStyle,
        /// Now.
        at: Millis,
    },
    /// The agent could not be started or could not open the session.
    AgentFailed {
        /// An error with code and message, for whoever waits.
        error: Json,
    },
    /// The agent process ended, or was ended.
    AgentExited {
        /// Why, in words for a person.
        reason: String,
        /// What becomes of prompts that it was never sent.
        held: HeldPrompts,
        /// Now.
        at: Millis,
    },
    /// The agent said something of its work.
    Updated {
        /// What it said.
        update: Update,
        /// Whether the thing it speaks of was there already.
        known: bool,
    },
    /// The agent reports what it is doing.
    AgentState {
        /// In short.
        activity: Activity,
        /// Why it is idle, if it says so.
        stop: Option<Stop>,
        /// In full, as clients are shown it.
        state: Json,
        /// Now.
        at: Millis,
    },
    /// An acknowledging agent inserted a prompt.
    PromptInserted {
        /// Which one.
        message: MessageId,
        /// Now.
        at: Millis,
    },
    /// The agent finished a prompt that it takes one at a time, or failed at it.
    PromptFinished {
        /// Which one.
        message: MessageId,
        /// How.
        stop: Stop,
        /// What goes with the final state: usage and the like.
        extra: Option<Json>,
        /// Now.
        at: Millis,
    },
    /// An acknowledging agent refused a prompt: it is not part of the conversation.
    PromptRefused {
        /// Which one.
        message: MessageId,
        /// The agent's error.
        error: Json,
    },
    /// The agent asks the user.
    Question {
        /// The id minted for it.
        question: QuestionId,
        /// What sort.
        kind: QuestionKind,
        /// The question in canonical shape.
        body: Json,
    },
    /// The agent no longer wants an answer.
    QuestionWithdrawn {
        /// Which question.
        question: QuestionId,
    },
    /// The agent answered a change of option.
    OptionAnswered {
        /// Which request.
        ask: AskId,
        /// The agent's error, or nothing.
        error: Option<Json>,
        /// All options after the change, in canonical shape, where the agent's answer tells.
        options: Option<Update>,
    },
}

/// What becomes of prompts that no agent was sent when the agent goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldPrompts {
    /// They wait for the next agent.
    Wait,
    /// They are answered: whoever sent them is gone, or is told of the same failure.
    Drop,
}

/// An input that must not happen. Nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The prompt has no content.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// No such prompt is waiting.
    #[error("no prompt {0} is waiting")]
    UnknownPrompt(MessageId),
    /// No such option.
    #[error("the session has no option {option}")]
    UnknownOption {
        /// What was asked for.
        option: String,
        /// The options there are.
        known: Vec<String>,
    },
    /// Not one of the values of the option.
    #[error("option {option} does not accept the value {got}")]
    BadValue {
        /// The option.
        option: String,
        /// What was sent.
        got: Json,
        /// What it takes.
        expected: Vec<String>,
    },
    /// The question was answered, withdrawn or never asked.
    #[error("question {0} is not open")]
    UnknownQuestion(QuestionId),
    /// The agent speaks of a request that is not open.
    #[error("request {0} is not open")]
    UnknownAsk(AskId),
    /// The title has no visible character.
    #[error("the title is empty")]
    EmptyTitle,
}
