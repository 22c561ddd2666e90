//! The input line: history, several lines, completion. It blocks a thread of its own while the user types; what happens
//! meanwhile is printed above it.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use reedline::{
    ColumnarMenu, EditCommand, Emacs, ExternalPrinter, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu,
    Signal, ValidationResult, Validator, default_emacs_keybindings,
};

use super::completion::ChatCompleter;
use crate::output::target::Color;
use crate::output::width::width;

/// How many prompts the history keeps.
const HISTORY: usize = 2_000;
/// How many texts may wait to be printed above the line.
const WAITING_TEXTS: usize = 256;
const MENU: &str = "completions";
/// What stands before the typed text.
const MARK: &str = "› ";

/// What the user did at the input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Submitted a text.
    Text(String),
    /// Pressed Ctrl-C.
    Interrupted,
    /// Pressed Ctrl-D in an empty line, or closed the terminal.
    EndOfInput,
    /// Nothing: the line was taken away, and what was typed is kept for the next time.
    Broken,
}

/// The input line of a chat.
pub(crate) struct InputLine {
    editor: Option<Reedline>,
    color: Color,
    draft: String,
    handle: InputHandle,
}

/// Reaches an input line that is being read.
#[derive(Clone)]
pub(crate) struct InputHandle {
    stop: Arc<AtomicBool>,
    printer: SyncSender<String>,
    /// Completes what is typed.
    pub(crate) completer: ChatCompleter,
}

impl InputHandle {
    /// Prints a text above the line. Returns it if too many are waiting.
    pub(crate) fn print(&self, text: String) -> Result<(), String> {
        match self.printer.try_send(text) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(text) | TrySendError::Disconnected(text)) => Err(text),
        }
    }

    /// Takes the line away.
    pub(crate) fn break_off(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl InputLine {
    /// Makes an input line with its history in this file.
    pub(crate) fn new(history: &Path, color: Color) -> io::Result<Self> {
        // The history is private, whoever creates the file.
        OpenOptions::new().create(true).append(true).mode(0o600).open(history)?;
        let file = FileBackedHistory::with_file(HISTORY, history.to_owned()).map_err(io::Error::other)?;
        let printer = ExternalPrinter::new(WAITING_TEXTS);
        let handle = InputHandle {
            stop: Arc::new(AtomicBool::new(false)),
            printer: printer.sender(),
            completer: ChatCompleter::default(),
        };
        let menu = ColumnarMenu::default().with_name(MENU).with_columns(1).with_marker(MARK);
        let editor = Reedline::create()
            .with_history(Box::new(file))
            .with_edit_mode(Box::new(Emacs::new(keys())))
            .with_validator(Box::new(BackslashValidator))
            .with_completer(Box::new(handle.completer.clone()))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_ansi_colors(color == Color::On)
            .use_bracketed_paste(true)
            .with_break_signal(handle.stop.clone())
            .with_external_printer(printer);
        Ok(Self { editor: Some(editor), color, draft: String::new(), handle })
    }

    /// Reaches the line while it is read.
    pub(crate) fn handle(&self) -> InputHandle {
        self.handle.clone()
    }

    /// Lets the user type a prompt.
    pub(crate) async fn read(&mut self) -> io::Result<Entered> {
        let Some(mut editor) = self.editor.take() else { return Ok(Entered::EndOfInput) };
        let draft = std::mem::take(&mut self.draft);
        let prompt = ChatPrompt { color: self.color };
        let reading = tokio::task::spawn_blocking(move || {
            if !draft.is_empty() {
                editor.run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(draft)]);
            }
            let signal = editor.read_line(&prompt);
            // A history that cannot be written is no reason to stop.
            let _ = editor.sync_history();
            (editor, signal)
        });
        let (editor, signal) = reading.await.map_err(io::Error::other)?;
        self.editor = Some(editor);
        Ok(match signal? {
            Signal::Success(text) | Signal::HostCommand(text) => Entered::Text(text.replace("\\\n", "\n")),
            Signal::CtrlC => Entered::Interrupted,
            Signal::CtrlD => Entered::EndOfInput,
            Signal::ExternalBreak(draft) => {
                erase_line(&draft)?;
                self.draft = draft;
                Entered::Broken
            }
            // Signals of later versions of the editor.
            _ => Entered::Broken,
        })
    }
}

/// Removes a line that was taken away, with what was typed in it.
fn erase_line(draft: &str) -> io::Result<()> {
    let columns = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns).max(1));
    let rows: usize = draft.split('\n').map(|line| (width(line) + width(MARK)) / columns + 1).sum();
    let up = if rows > 1 { format!("\u{1b}[{}A", rows - 1) } else { String::new() };
    let mut out = io::stdout().lock();
    out.write_all(format!("\r{up}\u{1b}[J").as_bytes())?;
    out.flush()
}

fn keys() -> reedline::Keybindings {
    let mut keys = default_emacs_keybindings();
    let open = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(open));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    // Ctrl-J is what many terminals send for Shift-Enter.
    let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline);
    keys
}

/// A line that ends with a backslash goes on in the next one.
struct BackslashValidator;

impl Validator for BackslashValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

struct ChatPrompt {
    color: Color,
}

impl ChatPrompt {
    fn mark(&self) -> reedline::Color {
        match self.color {
            Color::On => reedline::Color::Cyan,
            Color::Off => reedline::Color::Default,
        }
    }
}

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        MARK.into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("search {}› ", search.term).into()
    }

    fn get_prompt_color(&self) -> reedline::Color {
        self.mark()
    }

    fn get_indicator_color(&self) -> reedline::Color {
        self.mark()
    }
}
