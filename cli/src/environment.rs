//! Reads the environment variables with the keys of model providers once and removes them from the environment, so that
//! neither child processes nor readers of `/proc/<pid>/environ` see them. Makes the environment of agents.

use std::collections::HashMap;
use std::ffi::{CStr, OsString, c_char};
use std::sync::{Mutex, PoisonError};

use rethread::agent::environment::Environment;

/// How the variables that are meant for rethread begin: folders, tokens, databases.
const OWN_PREFIX: &[u8] = b"RETHREAD_";
/// Variables that open a database, of which the store may be one: the connection string of many programs, and those of
/// PostgreSQL's own clients.
const DATABASE: &[&str] = &[
    "DATABASE_URL",
    "PGAPPNAME",
    "PGCHANNELBINDING",
    "PGCLIENTENCODING",
    "PGCONNECT_TIMEOUT",
    "PGDATABASE",
    "PGGSSENCMODE",
    "PGGSSLIB",
    "PGHOST",
    "PGHOSTADDR",
    "PGKRBSRVNAME",
    "PGLOADBALANCEHOSTS",
    "PGOPTIONS",
    "PGPASSFILE",
    "PGPASSWORD",
    "PGPORT",
    "PGREQUIREAUTH",
    "PGREQUIREPEER",
    "PGREQUIRESSL",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGSSLCERT",
    "PGSSLCERTMODE",
    "PGSSLCOMPRESSION",
    "PGSSLCRL",
    "PGSSLCRLDIR",
    "PGSSLKEY",
    "PGSSLMODE",
    "PGSSLNEGOTIATION",
    "PGSSLROOTCERT",
    "PGSSLSNI",
    "PGSYSCONFDIR",
    "PGTARGETSESSIONATTRS",
    "PGTZ",
    "PGUSER",
];

static TAKEN: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Removes these variables from the environment; [`variable`] still returns them. Also forbids other processes of the
/// user to inspect this one.
///
/// # Safety
///
/// No other thread may run yet.
pub(crate) unsafe fn take(names: &[String]) {
    forbid_inspection();
    let mut taken = HashMap::new();
    for name in names {
        if let Ok(value) = std::env::var(name) {
            taken.insert(name.clone(), value);
            // SAFETY: there is no other thread, as the caller promises.
            unsafe {
                erase(name);
                std::env::remove_var(name);
            }
        }
    }
    *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
}

/// The value of a variable, removed or not; `None` if it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.as_ref().and_then(|taken| taken.get(name).cloned());
    taken.or_else(|| std::env::var(name).ok()).filter(|value| !value.trim().is_empty())
}

/// The environment of agents, of the commands and MCP servers that are run for them, and of whatever else is started: that of
/// this process as it is now, without what is meant for rethread alone and without what opens a database.
pub(crate) fn for_agents() -> Environment {
    let kept = |name: &OsString| {
        let bytes = name.as_encoded_bytes();
        !bytes.starts_with(OWN_PREFIX) && !DATABASE.iter().any(|known| known.as_bytes() == bytes)
    };
    Environment::exact(std::env::vars_os().filter(|(name, _)| kept(name)))
}

/// Overwrites the value of a variable in the process's initial environment, which `/proc/<pid>/environ` shows even
/// after the variable is removed.
///
/// # Safety
///
/// No other thread may run.
unsafe fn erase(name: &str) {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    // SAFETY: the environment is a null-terminated list of strings; nothing else changes it meanwhile.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let value = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            if let Some(length) = value.map(<[u8]>::len) {
                std::ptr::write_bytes((*entry).add(text.len() - length), 0, length);
            }
            entry = entry.add(1);
        }
    }
}

/// Best effort: other memory of the process is secret too.
#[cfg(target_os = "linux")]
fn forbid_inspection() {
    // SAFETY: a plain call.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

#[cfg(not(target_os = "linux"))]
fn forbid_inspection() {}
