//! A library that is preloaded into the program and has calls on the store's files fail on demand (`shim.c`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Writes.
    Write,
    /// Syncs of files and directories.
    Sync,
    /// Opening and creating files.
    Open,
    /// Writes are done by half, and the rest is refused.
    ShortWrite,
}

impl Fault {
    /// As in `shim.c`.
    fn kinds(self) -> i32 {
        match self {
            Self::Write => 1,
            Self::Sync => 2,
            Self::Open => 4,
            Self::ShortWrite => 8,
        }
    }
}

/// What the library of one program does.
pub(crate) struct Shim {
    library: PathBuf,
    file: PathBuf,
    orders: File,
}

/// Where `count` and `failed` are in the orders.
const COUNT: u64 = 16;
const FAILED: u64 = 20;
const ORDERS_BYTES: u64 = 24;

impl Shim {
    /// Builds the library.
    pub(crate) fn build(folder: &Path) -> PathBuf {
        let library = folder.join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/shim.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        assert!(cc.status().expect("there is a C compiler").success(), "the library cannot be built");
        library
    }

    /// Orders for a program; nothing fails yet.
    pub(crate) fn new(library: &Path, file: PathBuf) -> Self {
        let orders = File::create_new(&file).expect("a file can be made");
        orders.set_len(ORDERS_BYTES).expect("it can grow");
        let orders = fs::OpenOptions::new().read(true).write(true).open(&file).unwrap_or(orders);
        Self { library: library.to_owned(), file, orders }
    }

    /// Has a command load the library, for the files below this folder.
    pub(crate) fn preload(&self, command: &mut tokio::process::Command, folder: &Path) {
        command.env("LD_PRELOAD", &self.library);
        command.env("RETHREAD_FAULT_FOLDER", folder).env("RETHREAD_FAULT_ORDERS", &self.file);
    }

    /// Has calls fail from the one with this number on, counted from now, so many of them.
    pub(crate) fn fail(&self, fault: Fault, error: i32, first: i32, calls: i32) {
        for (at, value) in
            [(4, error), (8, first), (12, first.saturating_add(calls) - 1), (COUNT, 0), (FAILED, 0)]
        {
            self.set(at, value);
        }
        self.set(0, fault.kinds());
    }

    /// Nothing fails any more. Returns how many calls have failed.
    pub(crate) fn stop(&self) -> i32 {
        self.set(0, 0);
        let mut bytes = [0; 4];
        self.orders.read_exact_at(&mut bytes, FAILED).expect("it has been written");
        i32::from_ne_bytes(bytes)
    }

    fn set(&self, at: u64, value: i32) {
        self.orders.write_all_at(&value.to_ne_bytes(), at).expect("it can be written");
    }
}
