//! `rethread show`: the transcript of a session as Markdown, as JSON or as the entries of its journal.

use clap::{Args, ValueEnum};
use rethread::store::{SessionRow, Store};
use rethread::transcript::markdown::{self, ToolDetail};
use rethread::transcript::{
    JournalDamage, JournalScan, ScanStep, SessionOutline, TranscriptTurn, each_turn, one_turn,
};
use rethread_core::{Entry, Seq};

use crate::failure::{ExitCode, Failure};
use crate::markdown::DocumentPrinter;
use crate::output::json::json_line;
use crate::output::stream::OutputStream;
use crate::output::target::OutputTarget;
use crate::resolve::SessionArg;
use crate::stored_sessions::with_store;
use crate::transcript_json::TranscriptDocument;

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Print the entries of the journal as JSON lines.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Show only this turn.
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// How much of tool calls and thoughts is shown.
    #[arg(long, value_enum, default_value_t = ToolsOption::Short, value_name = "DETAIL")]
    tools: ToolsOption,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How much of tool calls and thoughts is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolsOption {
    /// Nothing.
    None,
    /// The beginning of their content and the end of their output.
    Short,
    /// Everything.
    Full,
}

impl ToolsOption {
    /// The same for the writer.
    pub(crate) fn detail(self) -> ToolDetail {
        match self {
            Self::None => ToolDetail::None,
            Self::Short => ToolDetail::Short,
            Self::Full => ToolDetail::Full,
        }
    }
}

/// Shows a session.
pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    with_store(async |store| {
        let row = args.session.resolve(store.as_ref()).await?;
        let damage = match (args.raw, args.json) {
            (true, _) => show_entries(args, store.as_ref(), &row).await?,
            (false, true) => show_json(args, store.as_ref(), &row).await?,
            (false, false) => show_text(args, store.as_ref(), &row).await?,
        };
        damage.map_or(Ok(()), |damage| Err(unreadable(&damage)))
    })
}

/// The failure for a journal that is damaged, after all that can be read of it was printed.
pub(crate) fn unreadable(damage: &JournalDamage) -> Failure {
    Failure::new(ExitCode::Store, format!("the rest cannot be read: {}", damage.message))
        .hint("`rethread doctor` checks the store")
}

async fn show_text(
    args: &ShowArgs,
    store: &dyn Store,
    row: &SessionRow,
) -> Result<Option<JournalDamage>, Failure> {
    let outline = outline(args, store, row).await?;
    let mut document = DocumentPrinter::new(OutputTarget::stdout());
    let mut output = OutputStream::paged();
    output.print(&document.push(&markdown::head(&outline)))?;
    if row.head == Seq(0) {
        let only = "\nOnly the agent has this session so far. Load it in a client to store it here.\n";
        output.print(&document.push(only))?;
    }
    let damage = turns(args, store, &outline, |turn| {
        output.print(&document.push(&markdown::turn(&turn, args.tools.detail())))
    })
    .await?;
    output.print(&document.push(&markdown::foot(damage.as_ref())))?;
    output.print(&document.finish())?;
    output.finish()?;
    Ok(damage)
}

async fn show_json(
    args: &ShowArgs,
    store: &dyn Store,
    row: &SessionRow,
) -> Result<Option<JournalDamage>, Failure> {
    let outline = outline(args, store, row).await?;
    let mut output = OutputStream::stdout();
    let mut document = TranscriptDocument::default();
    output.print(&document.head(&outline))?;
    let damage = turns(args, store, &outline, |turn| output.print(&document.turn(&turn))).await?;
    output.print(&document.foot(damage.as_ref()))?;
    output.finish()?;
    Ok(damage)
}

/// Reads the turns that are to be shown. Damage behind a turn that was asked for does not matter.
async fn turns(
    args: &ShowArgs,
    store: &dyn Store,
    outline: &SessionOutline,
    visit: impl FnMut(TranscriptTurn) -> Result<(), Failure>,
) -> Result<Option<JournalDamage>, Failure> {
    match args.turn {
        Some(number) => one_turn(store, outline, number, visit).await,
        None => each_turn(store, &outline.id, visit).await,
    }
}

/// The outline of the session. A turn that is not there is not found.
async fn outline(args: &ShowArgs, store: &dyn Store, row: &SessionRow) -> Result<SessionOutline, Failure> {
    let outline = SessionOutline::read(store, row).await?;
    match args.turn {
        Some(number) if !outline.turns.iter().any(|turn| turn.number == number) => {
            let message = format!("session {} has no turn {number}", row.id);
            let last = outline.turns.last().map_or(0, |turn| turn.number);
            let hint =
                if last == 0 { "it has no turns".to_owned() } else { format!("its last turn is {last}") };
            Err(Failure::new(ExitCode::NotFound, message).hint(hint))
        }
        Some(_) | None => Ok(outline),
    }
}

async fn show_entries(
    args: &ShowArgs,
    store: &dyn Store,
    row: &SessionRow,
) -> Result<Option<JournalDamage>, Failure> {
    let mut output = OutputStream::stdout();
    let mut scan = JournalScan::new(store, &row.id);
    let mut shown = ShownEntries { turn: 1, last: Seq(0) };
    loop {
        let page = match scan.step().await? {
            ScanStep::Page(page) => page,
            ScanStep::Restarted => continue,
            ScanStep::End => break,
        };
        for item in scan.decoded(&page)? {
            let turn = shown.turn_of(&item.entry);
            // After a fold some entries come again.
            let is_new = item.last > shown.last;
            shown.last = shown.last.max(item.last);
            if is_new && args.turn.is_none_or(|wanted| wanted == turn) {
                output.print(&json_line(&item))?;
            }
        }
    }
    output.finish()?;
    Ok(scan.damage().cloned())
}

/// Follows the numbers of turns: what comes between two turns belongs to the later one.
struct ShownEntries {
    turn: u64,
    last: Seq,
}

impl ShownEntries {
    fn turn_of(&mut self, entry: &Entry) -> u64 {
        if let Entry::TurnStarted { turn, .. } | Entry::PromptInserted { turn, .. } = entry {
            self.turn = turn.0;
        }
        match entry {
            Entry::TurnEnded { turn, .. } => {
                self.turn = turn.0.saturating_add(1);
                turn.0
            }
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptInserted { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::Updated { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => self.turn,
        }
    }
}
