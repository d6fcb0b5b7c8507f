//! Joining, leaving, and the loop.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use xmml_core::instance::{Instance, JoinOptions};
use xmml_wire::error;
use xmml_wire::methods::names_in;

use crate::argument::{object, optional_text, place, place_for_object, text, Out, Text};
use crate::status::{guard, guard_or, tell_at_exit, Failure, Result, Status};
use crate::text::CText;

/// `xmml_instance`: an instance of the core, and the texts that C holds pointers to.
pub struct Member {
    pub core: Instance,
    /// The name again.
    pub name: Arc<str>,
    /// How messages on each port of the model name it, by the number of the port: `instance.port`.
    places: Vec<Arc<str>>,
    /// Parameters as text.
    pub params: BTreeMap<String, CText>,
    /// Their names.
    pub param_names: Vec<CText>,
    c_name: CText,
}

impl Member {
    /// Wraps an instance of the core.
    pub fn new(core: Instance) -> Member {
        let params = core.spec().params.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        let param_names = core.spec().params.keys().map(|name| name.as_str().into()).collect();
        let place = |port: &str| format!("{}.{port}", core.name()).into();
        let places = core.port_names().iter().map(place).collect();
        Member { name: core.name().into(), places, c_name: core.model_name().into(), params, param_names, core }
    }
}

/// An instance, and the port of it that C names. A bound one is known by the address of its name: nothing of it is read.
#[inline]
pub fn member_and_port<'a>(me: Option<&'a Member>, port: Text<'a>) -> Result<(&'a Member, &'a str)> {
    let me = object(me, "me")?;
    let port = match me.core.port_names().at(port.address()) {
        Some(bound) => bound,
        None => text(port, "port")?,
    };
    Ok((me, port))
}

impl Member {
    /// The name of a port as C keeps it when it has bound the port.
    pub fn bound(&self, port: &str) -> &CStr {
        self.core.port_number(port).map_or(c"", |number| self.core.port_names().c_text(number))
    }

    /// How messages on a port name it.
    pub fn place(&self, port: &str) -> Arc<str> {
        match self.core.port_number(port).and_then(|number| self.places.get(number)) {
            Some(place) => place.clone(),
            None => format!("{}.{port}", self.name).into(), // as `port[3]`, of an instance that is alone
        }
    }
}

#[no_mangle]
pub extern "C" fn xmml_join(me: Out<*mut Member>) -> c_int {
    guard(|| join(me, "c"))
}

#[no_mangle]
pub extern "C" fn xmml_join_as(me: Out<*mut Member>, language: Text) -> c_int {
    guard(|| join(me, known_language(language)?))
}

/// The language of a program, for reports.
pub fn known_language(language: Text) -> Result<&'static str> {
    let language = text(language, "language")?;
    let known = ["c", "c++", "fortran", "java"].into_iter().find(|known| *known == language);
    Ok(known.unwrap_or("another language"))
}

fn join(me: Out<*mut Member>, language: &'static str) -> Result<()> {
    let me = place_for_object(me, "me")?;
    prepare_process();
    let options = JoinOptions { coordinator: None, instance: None, secret_file: None, language };
    me.give(Member::new(Instance::join(options)?));
    Ok(())
}

/// What a process needs that joins a run, or several.
pub fn prepare_process() {
    show_lines_at_once();
    tell_at_exit();
}

extern "C" {
    static stdout: *mut libc::FILE;
    fn __fbufsize(stream: *mut libc::FILE) -> usize;
}

/// Longer lines are shown in pieces.
const LINE_BUFFER: usize = 16 << 10;

/// A run reads what its programs print through pipes, where C would hold back 4 KiB before anybody sees a line of it. A program that
/// has chosen to have no buffer at all keeps its choice. Once is enough for all instances of a process.
fn show_lines_at_once() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: stdout is the C library's own stream. The buffer is never freed, since the stream is written to until the very end. (Without
    // a new buffer, glibc goes on with the old one as before if something was printed already.)
    unsafe {
        let is_unbuffered = __fbufsize(stdout) == 1;
        if !is_unbuffered && libc::isatty(libc::STDOUT_FILENO) == 0 && libc::fflush(stdout) == 0 {
            let buffer = libc::malloc(LINE_BUFFER);
            if !buffer.is_null() {
                libc::setvbuf(stdout, buffer.cast(), libc::_IOLBF, LINE_BUFFER);
            }
        }
    }
}

#[no_mangle]
pub extern "C" fn xmml_leave(me: Option<&mut Option<Box<Member>>>) -> c_int {
    guard(|| take(me)?.core.leave().map_err(Failure::from))
}

#[no_mangle]
pub extern "C" fn xmml_instance_free(me: Option<&mut Option<Box<Member>>>) {
    guard(|| {
        // A second time, or before joining: nothing to free.
        drop(me.and_then(Option::take));
        Ok(())
    });
}

fn take(me: Option<&mut Option<Box<Member>>>) -> Result<Box<Member>> {
    let problem = "*me is a null pointer: the instance has left already, or has not joined";
    object(me, "me")?.take().ok_or_else(|| Failure::usage(problem))
}

#[no_mangle]
pub extern "C" fn xmml_fail(me: Option<&Member>, reason: Text) -> c_int {
    guard(|| {
        // Usually xmml_error(): the core copies it before this call could change it.
        object(me, "me")?.core.fail(text(reason, "text")?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_warn(me: Option<&Member>, warning: Text) -> c_int {
    guard(|| {
        object(me, "me")?.core.warn(text(warning, "text")?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_reuse(me: Option<&Member>, again: Out<c_int>) -> c_int {
    guard(|| {
        let again = place(again, "again")?;
        again.set(object(me, "me")?.core.reuse()?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_step(me: Option<&Member>, time: Out<f64>) -> c_int {
    guard(|| {
        let time = place(time, "time")?;
        match object(me, "me")?.core.next_step()? {
            Some(now) => time.set(now),
            None => return Err(Failure::new(Status::Done, "the last step of this pass is behind us")),
        }
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_name(me: Option<&Member>) -> *const c_char {
    guard_or(c"".as_ptr(), || Ok(object(me, "me")?.c_name.as_ptr()))
}

#[no_mangle]
pub extern "C" fn xmml_index(me: Option<&Member>) -> u32 {
    guard_or(0, || Ok(object(me, "me")?.core.spec().index))
}

#[no_mangle]
pub extern "C" fn xmml_count(me: Option<&Member>) -> u32 {
    guard_or(0, || Ok(object(me, "me")?.core.spec().count))
}

#[no_mangle]
pub extern "C" fn xmml_time(me: Option<&Member>) -> f64 {
    guard_or(0.0, || Ok(object(me, "me")?.core.time()))
}

#[no_mangle]
pub extern "C" fn xmml_origin(me: Option<&Member>) -> f64 {
    guard_or(0.0, || Ok(object(me, "me")?.core.origin()))
}

#[no_mangle]
pub extern "C" fn xmml_delta(me: Option<&Member>) -> f64 {
    guard_or(0.0, || Ok(object(me, "me")?.core.spec().delta_s))
}

#[no_mangle]
pub extern "C" fn xmml_total(me: Option<&Member>) -> f64 {
    guard_or(0.0, || Ok(object(me, "me")?.core.spec().total_s))
}

#[no_mangle]
pub extern "C" fn xmml_steps(me: Option<&Member>) -> u64 {
    guard_or(0, || Ok(object(me, "me")?.core.spec().steps))
}

/// `xmml_scale`.
#[repr(C)]
pub struct CScale {
    delta: f64,
    total: f64,
    steps: u64,
}

#[no_mangle]
pub extern "C" fn xmml_scale_of(me: Option<&Member>, name: Text, scale: Out<CScale>) -> c_int {
    guard(|| {
        let scale = place(scale, "scale")?;
        let found = object(me, "me")?.core.scale(text(name, "name")?)?;
        scale.set(CScale { delta: found.delta, total: found.total, steps: found.steps });
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_bind_out(me: Option<&Member>, port: Text, bound: Out<*const c_char>) -> c_int {
    guard(|| bind(me, port, bound, Instance::bind_out))
}

#[no_mangle]
pub extern "C" fn xmml_bind_in(me: Option<&Member>, port: Text, bound: Out<*const c_char>) -> c_int {
    guard(|| bind(me, port, bound, Instance::bind_in))
}

fn bind(
    me: Option<&Member>,
    port: Text,
    bound: Out<*const c_char>,
    look_up: for<'a> fn(&'a Instance, &str) -> error::Result<&'a str>,
) -> Result<()> {
    let bound = place(bound, "bound")?;
    bound.write(std::ptr::null());
    let (me, port) = member_and_port(me, port)?;
    bound.set(me.bound(look_up(&me.core, port)?).as_ptr());
    Ok(())
}

#[no_mangle]
pub extern "C" fn xmml_connected(me: Option<&Member>, port: Text, yes: Out<c_int>) -> c_int {
    guard(|| {
        let yes = place(yes, "yes")?;
        let (me, port) = member_and_port(me, port)?;
        yes.set(me.core.connected(port)?.into());
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_copies(me: Option<&Member>, port: Text, copies: Out<u32>) -> c_int {
    guard(|| {
        let copies = place(copies, "copies")?;
        let (me, port) = member_and_port(me, port)?;
        copies.set(me.core.copies(port)?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_skip(me: Option<&Member>, port: Text) -> c_int {
    guard(|| {
        let (me, port) = member_and_port(me, port)?;
        me.core.skip(port).map_err(Failure::from)
    })
}

thread_local! {
    static METHODS: RefCell<CText> = RefCell::new(CText::default());
}

#[no_mangle]
pub extern "C" fn xmml_methods(me: Option<&Member>, port: Text, out: Out<*const c_char>) -> c_int {
    guard(|| {
        let out = place(out, "text")?;
        let (me, port) = member_and_port(me, port)?;
        let lines: Vec<String> = me.core.methods(port)?.iter().map(ToString::to_string).collect();
        let pointer = METHODS.try_with(|methods| {
            *methods.borrow_mut() = CText::from(lines.join("\n"));
            methods.borrow().as_ptr()
        });
        out.set(pointer.map_err(|_| Failure::usage("this thread is ending"))?);
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_set_methods(me: Option<&Member>, port: Text, methods: Text) -> c_int {
    guard(|| {
        let names = names_in(optional_text(methods, "methods")?.unwrap_or_default())?;
        let (me, port) = member_and_port(me, port)?;
        me.core.set_methods(port, &names).map_err(Failure::from)
    })
}
