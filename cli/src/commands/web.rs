//! `rethread web`: opens the web page of the running server. Its address has a one-time code, which is a secret: it is printed only
//! on a terminal, for the person in front of it.

use std::process::{Command, Stdio};

use clap::Args;

use crate::environment;
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::output::stream::print;
use crate::output::target::OutputTarget;
use crate::serving::find::{FoundServer, other_answer};
use crate::serving::handshake::{Answer, Ask, PageAddress};

/// The programs that open an address in the user's browser; the first one that is there is used.
const OPENERS: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "wslview"] };

/// Options of `web`.
#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Print the address in place of opening it. It works once, for two minutes, and only a terminal gets it.
    #[arg(long)]
    print: bool,
}

/// Opens the page, or prints its address.
pub(crate) fn run(args: &WebArgs) -> Result<(), Failure> {
    let on_terminal = matches!(OutputTarget::stdout(), OutputTarget::Terminal { .. });
    if args.print && !on_terminal {
        let message = "the address is a secret, and is printed only on a terminal";
        return Err(Failure::new(ExitCode::Usage, message).hint("without --print the browser is opened"));
    }
    let page = page_address()?;
    if args.print {
        return print(&format!("{}\n", visible(&page.with_code())));
    }
    match (open(&page.with_code()), on_terminal) {
        (Ok(()), _) => print(&format!("Opened {} in the browser.\n", visible(&page.url))),
        (Err(failure), false) => Err(failure.hint("use `rethread web --print` on a terminal")),
        (Err(failure), true) => {
            eprintln!("note: {}; open this address within two minutes:", failure.message());
            print(&format!("{}\n", visible(&page.with_code())))
        }
    }
}

fn page_address() -> Result<PageAddress, Failure> {
    match FoundServer::running()?.ask(&Ask::Page)? {
        (Answer::Page(page), _) => Ok(page),
        (Answer::Refused { reason }, _) => Err(Failure::new(ExitCode::Refused, reason)),
        (Answer::Accepted | Answer::Status(_) | Answer::Stopping, _) => Err(other_answer()),
    }
}

/// Has the browser open an address. What it says goes nowhere: it would be among the output of this command.
fn open(address: &str) -> Result<(), Failure> {
    for opener in OPENERS {
        let mut command = Command::new(opener);
        environment::for_agents().apply(&mut command);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => {
                return Err(Failure::plain(&format!("{opener} did not open the browser: {status}")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::plain(&format!("{opener} cannot be run: {error}"))),
        }
    }
    Err(Failure::plain(&format!("no program was found that opens a browser ({})", OPENERS.join(", "))))
}
