//! `rethread serve` as a real process: its life (`lifecycle`), clients that reach it by `rethread acp` (`pump`), commands that
//! work through it (`commands`), clients by address (`http`, `restart`, `sdk_client`), the way to its web page (`web`), links to sessions
//! (`share`), notifications (`notify`), sessions without clients (`unattended`), and kills while three clients follow one session
//! (`rounds`), hosts that let their sessions go (`drain`), and
//! a database that is away (`database`).

mod commands;
mod database;
mod drain;
mod http;
mod lifecycle;
mod notify;
mod pump;
mod restart;
mod rounds;
mod sdk_client;
mod share;
mod unattended;
mod web;

use std::process::Output;

use rethread_testkit::program::Home;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

/// Runs a command to its end.
async fn run(home: &Home, args: &[&str]) -> Output {
    let output = home.command(args).output();
    tokio::time::timeout(2 * rethread_testkit::DEADLINE, output).await.expect("it ends").expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
