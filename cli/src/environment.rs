//! The variables that hold the keys of model providers. They are read once and taken out of the environment, so that
//! no other process gets them: neither one that we start, nor one that reads `/proc/<pid>/environ`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

static TAKEN: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Takes these variables out of the environment; [`variable`] still knows them. Also forbids other processes of the
/// user to look into this one.
///
/// # Safety
/// No other thread may run yet.
pub(crate) unsafe fn take(names: &[String]) {
    keep_out();
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

/// The value of a variable, taken or not; nothing if it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.as_ref().and_then(|taken| taken.get(name).cloned());
    taken.or_else(|| std::env::var(name).ok()).filter(|value| !value.trim().is_empty())
}

/// Overwrites the value of a variable where the system has put it: that is what `/proc/<pid>/environ` shows, whatever
/// becomes of the variable.
///
/// # Safety
/// No other thread may run.
unsafe fn erase(name: &str) {
    unsafe extern "C" {
        static environ: *const *mut c_char;
    }
    // SAFETY: the environment is a list of texts that ends with a null pointer; nobody else changes it meanwhile.
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

/// Best effort: what else the process has in memory is as secret.
#[cfg(target_os = "linux")]
fn keep_out() {
    // SAFETY: a plain call.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

#[cfg(not(target_os = "linux"))]
fn keep_out() {}
