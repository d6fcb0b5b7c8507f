//! What a call returns, what `xmml_error` says, and the fence that no panic passes.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, Once};

use xmml_wire::error::Error;

use crate::text::CText;

/// The status codes of `xmml.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    Done = 1,
    Ended = 2,
    TimedOut = 3,
    ReceiverGone = 4,
    Usage = -1,
    NotInARun = -2,
    Port = -3,
    NotConnected = -4,
    Order = -5,
    InsistedAfterEnd = -6,
    Type = -7,
    Parameter = -8,
    Aborted = -9,
    Connection = -10,
    Internal = -11,
}

/// Anything but success: what to return and what to say.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub text: String,
}

/// Result of the body of a C function.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// An outcome or error with its text.
    pub fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// The caller did something wrong.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::new(Status::Usage, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let told = match &error {
            Error::Relay { cause, .. } => cause,
            error => error,
        };
        let status = match told {
            Error::NotInARun { .. } => Status::NotInARun,
            Error::PortUnknown { .. } | Error::PortDirection { .. } => Status::Port,
            Error::NotConnected { .. } | Error::NoStateYet { .. } => Status::NotConnected,
            Error::OperatorOrder { .. } => Status::Order,
            Error::Ended { .. } => Status::InsistedAfterEnd,
            Error::TimedOut { .. } | Error::Late { .. } => Status::TimedOut,
            Error::Type { .. } => Status::Type,
            Error::Parameter { .. } => Status::Parameter,
            Error::Aborted { .. } | Error::Interrupted => Status::Aborted,
            Error::Protocol { .. } | Error::Io { .. } | Error::Filter { .. } => Status::Connection,
            _ => Status::Usage,
        };
        Failure::new(status, error.to_string())
    }
}

/// What the first call has said that failed since `xmml_error` was asked, unless that was the end of the run.
static UNREAD: Mutex<Option<String>> = Mutex::new(None);

extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Has a program that fails say at its end what it was told and did not ask for.
pub fn tell_at_exit() {
    static ONCE: Once = Once::new();
    // SAFETY: the function stays where it is: a library with thread-local values is not unloaded.
    ONCE.call_once(|| unsafe {
        on_exit(tell_unread, std::ptr::null_mut());
    });
}

extern "C" fn tell_unread(exit_status: c_int, _argument: *mut c_void) {
    if exit_status != 0 {
        if let Some(text) = UNREAD.try_lock().ok().and_then(|mut unread| unread.take()) {
            let _ = writeln!(std::io::stderr(), "xmml: {text}");
        }
    }
}

thread_local! {
    static SAID: RefCell<CText> = RefCell::new(CText::default());
    static CALL_SITE: Cell<Option<(*const c_char, c_int)>> = const { Cell::new(None) };
}

/// Runs the body of a C function: its failure, or its panic, becomes a status and a text.
pub fn guard(body: impl FnOnce() -> Result<()>) -> c_int {
    attempt(body).err().unwrap_or(Status::Ok) as c_int
}

/// The same for a function that returns a pointer: null in case of failure.
pub fn guard_pointer<T>(body: impl FnOnce() -> Result<T>) -> *mut T {
    attempt(body).map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)))
}

/// The same for a function that cannot report a failure: `otherwise` in case of one.
pub fn guard_or<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    attempt(body).unwrap_or(otherwise)
}

/// Frees an object; null is nothing to free.
pub fn free<T>(object: Option<Box<T>>) {
    if let Some(object) = object {
        guard(|| {
            drop(object);
            Ok(())
        });
    }
}

fn attempt<T>(body: impl FnOnce() -> Result<T>) -> std::result::Result<T, Status> {
    let site = CALL_SITE.try_with(Cell::take).ok().flatten();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            Failure::new(Status::Internal, format!("a defect of xMML: {}; please report it", panic_text(&*panic)))
        }
    };
    say(failure.status, failure.text, site);
    Err(failure.status)
}

fn say(status: Status, mut text: String, site: Option<(*const c_char, c_int)>) {
    if let Some((file, line)) = site.filter(|(file, _)| status != Status::Done && !file.is_null()) {
        // SAFETY: xmml_at asks for a text that lives on.
        let file = unsafe { CStr::from_ptr(file) }.to_string_lossy();
        text.push_str(&format!(" (called at {file}:{line})"));
    }
    if (status as c_int) < 0 && status != Status::Aborted {
        if let Ok(mut unread) = UNREAD.lock() {
            unread.get_or_insert_with(|| text.clone());
        }
    }
    let _ = SAID.try_with(|said| *said.borrow_mut() = CText::from(text));
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

/// What the last unsuccessful call of this thread has to say.
#[no_mangle]
pub extern "C" fn xmml_error() -> *const c_char {
    if let Ok(mut unread) = UNREAD.lock() {
        *unread = None;
    }
    SAID.try_with(|said| said.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of the library.
#[no_mangle]
pub extern "C" fn xmml_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Notes where in the program this thread's next call stands.
#[no_mangle]
pub extern "C" fn xmml_at(file: *const c_char, line: c_int) {
    let _ = CALL_SITE.try_with(|site| site.set(Some((file, line))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn said() -> String {
        // SAFETY: xmml_error returns a text that ends with a 0 byte.
        unsafe { CStr::from_ptr(xmml_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        let status = guard(|| panic!("at sea"));
        assert_eq!(status, Status::Internal as c_int);
        assert!(said().contains("at sea"), "{}", said());
    }

    #[test]
    fn the_call_site_is_named_once_and_not_for_the_next_call() {
        let file = CString::new("heater.c").unwrap();
        xmml_at(file.as_ptr(), 23);
        guard(|| Err(Failure::usage("no port \"powr\"")));
        assert_eq!(said(), "no port \"powr\" (called at heater.c:23)");
        guard(|| Err(Failure::usage("again")));
        assert_eq!(said(), "again");
    }

    #[test]
    fn success_leaves_the_text_alone() {
        guard(|| Err(Failure::usage("before")));
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(said(), "before");
    }

    #[test]
    fn every_error_of_the_core_is_negative_except_the_time_out() {
        let order = Error::OperatorOrder { instance: "a".into(), call: "send".into(), expected: "receive".into() };
        assert_eq!(Failure::from(order).status, Status::Order);
        let usage = Error::Usage { problem: "x".into() };
        assert!((Failure::from(usage).status as i32) < 0);
        let late = Error::TimedOut { instance: "a".into(), port: "p".into(), seconds: 1.0 };
        assert_eq!(Failure::from(late).status, Status::TimedOut);
    }
}
