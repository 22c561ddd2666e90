//! Turns of one chunk: the time from prompt to answer with the store on a RAM disk and on disk, and the processor time.
//! The bases are the conductor, and the conductor plus one sync of a file on the same disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::agent::Turn;
use crate::client::Client;
use crate::figure::{Pair, Spread, median, number};
use crate::meter::{processor_time, processor_time_since, thread_processor_time};
use crate::table::{Bound, Row};
use crate::{conductor, disk};

const ROUNDS: usize = 5;
const PROMPTS: usize = 200;
/// About what is stored for a turn of one chunk.
const SYNCED: [u8; 400] = [b'x'; 400];

const IN_RAM: &str = "prompt round trip p50, store on a RAM disk, against the conductor";
const ON_DISK: &str = "prompt round trip p50, store on disk, against the conductor plus one `fdatasync`";
const SHARE: &str = "prompt round trip p50, store on disk: share of one `fdatasync`";
const COST_IN_RAM: &str = "processor time per turn of one chunk, store on a RAM disk, against the conductor";
const COST_ON_DISK: &str =
    "processor time per turn of one chunk, store on disk, against the conductor plus one `fdatasync`";
const COST: &str = "processor time per turn of one chunk, store on disk, against the conductor";

/// All ratios.
pub(crate) fn measure() -> Vec<Row> {
    let folder = disk::folder();
    let ram = disk::ram_folder();
    let mut official = conductor::find().map(|program| Prompter::new(Client::through_conductor(&program)));
    let mut in_ram = ram.as_ref().map(|ram| Prompter::new(Client::through_rethread(ram.path())));
    let mut on_disk = Prompter::new(Client::through_rethread(folder.path()));
    let mut syncs = Syncs::new(folder.path());
    let mut figures = Figures::default();
    for _ in 0..ROUNDS {
        for _ in 0..PROMPTS {
            official.iter_mut().for_each(Prompter::prompt);
            in_ram.iter_mut().for_each(Prompter::prompt);
            on_disk.prompt();
            syncs.sync();
        }
        let theirs = official.as_mut().map(Prompter::finish_round);
        let ram = in_ram.as_mut().map(Prompter::finish_round);
        figures.push(theirs.as_ref(), ram.as_ref(), &on_disk.finish_round(), &syncs.finish_round());
    }
    official.into_iter().chain(in_ram).chain([on_disk]).for_each(|prompter| prompter.client.end());
    figures.rows()
}

#[derive(Default)]
struct Figures {
    in_ram: Pair,
    on_disk: Pair,
    cost_in_ram: Pair,
    cost_on_disk: Pair,
    cost: Pair,
    syncs: Vec<f64>,
    shares: Vec<f64>,
}

impl Figures {
    fn push(&mut self, theirs: Option<&Turns>, ram: Option<&Turns>, on_disk: &Turns, sync: &Turns) {
        let (time, cost) = (theirs.map(|turns| turns.time), theirs.map(|turns| turns.processor_time));
        if let Some(ram) = ram {
            self.in_ram.push(ram.time, time);
            self.cost_in_ram.push(ram.processor_time, cost);
        }
        self.on_disk.push(on_disk.time, time.map(|time| time + sync.time));
        self.cost_on_disk.push(on_disk.processor_time, cost.map(|cost| cost + sync.processor_time));
        self.cost.push(on_disk.processor_time, cost);
        self.syncs.push(sync.time);
        self.shares.push(sync.time / on_disk.time);
    }

    fn rows(&self) -> Vec<Row> {
        let in_ram = |what, pair: &Pair| match pair.is_empty() {
            true => Row::skipped(what, "no RAM disk", Bound::AtMost(0.6, "")),
            false => Row::ratio(what, pair, "us", Bound::AtMost(0.6, "")),
        };
        let share = Spread::of(&self.shares);
        let sync =
            format!("{} of our time; the sync takes {} us", share.text(""), number(median(&self.syncs)));
        vec![
            in_ram(IN_RAM, &self.in_ram),
            Row::ratio(ON_DISK, &self.on_disk, "us", Bound::AtMost(1.0, "")),
            Row::new(SHARE, sync, share.median, Bound::Information),
            in_ram(COST_IN_RAM, &self.cost_in_ram),
            Row::ratio(COST_ON_DISK, &self.cost_on_disk, "us", Bound::AtMost(0.6, "")),
            Row::ratio(COST, &self.cost, "us", Bound::Information),
        ]
    }
}

/// The figures of a round, in microseconds for each turn or sync.
struct Turns {
    time: f64,
    processor_time: f64,
}

/// Sends prompts one after the other and measures them.
struct Prompter {
    client: Client,
    session: String,
    times: Vec<f64>,
    processor_time: u64,
}

impl Prompter {
    fn new(mut client: Client) -> Self {
        let session = client.new_session();
        let processor_time = processor_time(client.process.id());
        Self { client, session, times: Vec::new(), processor_time }
    }

    fn prompt(&mut self) {
        let began = Instant::now();
        self.client.turn(&self.session, &Turn::Flood { chunks: 1 });
        self.times.push(began.elapsed().as_secs_f64() * 1e6);
    }

    fn finish_round(&mut self) -> Turns {
        let pid = self.client.process.id();
        let spent = processor_time_since(pid, self.processor_time);
        let turns = Turns { time: median(&self.times), processor_time: spent / self.times.len() as f64 };
        self.times.clear();
        self.processor_time = processor_time(pid);
        turns
    }
}

/// Appends to a file and syncs it.
struct Syncs {
    file: File,
    times: Vec<f64>,
    processor_time: f64,
}

impl Syncs {
    fn new(folder: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(folder.join("synced"));
        Self { file: file.expect("a file can be made"), times: Vec::new(), processor_time: 0.0 }
    }

    fn sync(&mut self) {
        self.file.write_all(&SYNCED).expect("there is room");
        let (began, spent) = (Instant::now(), thread_processor_time());
        self.file.sync_data().expect("the disk works");
        self.times.push(began.elapsed().as_secs_f64() * 1e6);
        self.processor_time += (thread_processor_time() - spent).as_secs_f64() * 1e6;
    }

    fn finish_round(&mut self) -> Turns {
        let processor_time = std::mem::take(&mut self.processor_time) / self.times.len() as f64;
        let syncs = Turns { time: median(&self.times), processor_time };
        self.times.clear();
        syncs
    }
}
