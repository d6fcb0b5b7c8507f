//! Callbacks on arrival: the program says what is to be done with the messages of a port, and goes on; whenever it waits in a call of this
//! crate, the messages that have come are handed to it.
//!
//! A callback is called by the thread that waits, between two looks at what it waits for, without any lock held; never two at once, never
//! one within another. To be called counts as a receive: it happens as soon as a message is there and the order of operators allows it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use xmml_wire::error::{Error, Result};
use xmml_wire::lock::lock;
use xmml_wire::message::Message;

use crate::conduit::inlet::Next;
use crate::runtime::handles::FromHolders;
use crate::runtime::state::State;
use crate::runtime::wait::{wait, WaitFor};
use crate::runtime::Runtime;

use super::{Backend, Instance};

/// What is done with a message; a text says what went wrong with it.
pub type Callback = Box<dyn FnMut(Message) -> std::result::Result<(), String> + Send>;

/// What became of [`Instance::serve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// At least one callback was called.
    Called,
    /// Nothing will come any more on any port that has a callback.
    Ended,
    /// The time-out passed.
    TimedOut,
}

/// Where the messages of a port come from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A receiving end.
    Conduit(usize),
    /// An open port: by its place among those of the state.
    Holders(usize),
}

#[derive(Clone)]
struct Listener {
    port: Arc<str>,
    source: Source,
    callback: Arc<Mutex<Callback>>,
    has_ended: Arc<AtomicBool>,
}

/// The callbacks of an instance.
#[derive(Default)]
pub(super) struct Callbacks {
    listeners: Mutex<Vec<Listener>>,
    /// How many there are: looked at without the lock, since most programs have none.
    count: AtomicUsize,
    /// One is being called.
    is_busy: AtomicBool,
}

impl Callbacks {
    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        lock(&self.listeners)
    }

    fn are_there(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }
}

/// While one lives, no other callback is called.
struct Turn<'a>(&'a Instance);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.callbacks.is_busy.store(false, Ordering::Release);
        // Threads that wait leave messages lying while another one has its turn.
        if let Backend::Run { runtime } = &self.0.backend {
            runtime.attract_attention(&runtime.state());
        }
    }
}

/// What a wait with callbacks has found.
enum Found<T> {
    /// What was waited for.
    It(T),
    /// A message for a callback.
    Call(Listener, Message),
    /// No port with a callback will have a message again.
    AllEnded,
}

impl Instance {
    /// From now on `callback` is called with every message of an in port (`None`: no longer): by the thread that waits in a call of this
    /// instance, as soon as the message is there and the order of operators allows its receipt. What the callback sends and receives is as
    /// anywhere else, but no other callback is called within it.
    ///
    /// # Errors
    /// [`Error::Usage`] for a port that leads to several copies or carries arrays in parts, or is not coupled; of ranks that joined together only
    /// one that is the only one can have callbacks.
    pub fn on_message(&self, port: &str, callback: Option<Callback>) -> Result<()> {
        let (declared, end) = self.ports.sender(port, None)?;
        drop(self.program()?);
        if self.ranks() > 1 || declared.in_parts {
            let problem =
                format!("{}.{port}: an MPI program of several ranks receives together, without callbacks", self.name());
            return Err(Error::Usage { problem });
        }
        if self.comes_from_pools(declared) {
            let problem = format!("{}.{port}: objects of pools are taken, and call nobody", self.name());
            return Err(Error::Usage { problem });
        }
        let source = match (self.has_holders(declared), end) {
            (Some(_), _) => self.with_state(|state| state.open.input(port)).map(Source::Holders),
            (None, end) => end.map(Source::Conduit),
        };
        let mut listeners = self.callbacks.listeners();
        listeners.retain(|listener| *listener.port != *port);
        if let Some(callback) = callback {
            let source = source.ok_or_else(|| self.no_message_error(port))?;
            let (callback, has_ended) = (Arc::new(Mutex::new(callback)), Arc::default());
            listeners.push(Listener { port: port.into(), source, callback, has_ended });
        }
        self.callbacks.count.store(listeners.len(), Ordering::Release);
        Ok(())
    }

    /// Waits until at least one callback was called: for programs that do nothing but that, or for their own thread.
    ///
    /// # Errors
    /// [`Error::Usage`] if no port has a callback, or within one; [`Error::OperatorOrder`] if none of their messages may be received now;
    /// [`Error::Callback`] if one says that something went wrong.
    pub fn serve(&self, timeout: Option<Duration>) -> Result<Served> {
        drop(self.program()?);
        if !self.callbacks.are_there() {
            let problem =
                format!("{} has no callback that could be called: set one with on_message first", self.name());
            return Err(Error::Usage { problem });
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let listeners = match self.may_be_called(true) {
                Ok(listeners) if listeners.is_empty() => return Ok(Served::Ended),
                Ok(listeners) => listeners,
                // Of what will never come nobody need say that it may not come now.
                Err(_) if self.nothing_more_comes()? => return Ok(Served::Ended),
                Err(error) => return Err(error),
            };
            match self.wait_among(&WaitFor::default(), until, &listeners, &mut |_: &mut State| Ok(None::<()>))? {
                Some(Found::Call(listener, message)) => {
                    self.call(&listener, message)?;
                    return Ok(Served::Called);
                }
                Some(Found::AllEnded) => self.note_ended(&listeners)?,
                Some(Found::It(())) | None => return Ok(Served::TimedOut),
            }
        }
    }

    /// The runtime of an instance that has joined, unless a wait has callbacks to call.
    pub(super) fn runtime_without_callbacks(&self) -> Option<&Runtime> {
        match &self.backend {
            Backend::Run { runtime } if !self.callbacks.are_there() => Some(runtime),
            _ => None,
        }
    }

    /// Waits for something, and calls callbacks meanwhile.
    pub(super) fn wait<T>(
        &self,
        what: &WaitFor,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if !self.callbacks.are_there() {
            return self.wait_without_callbacks(what, until, ready);
        }
        loop {
            let listeners = self.may_be_called(false)?;
            match self.wait_among(what, until, &listeners, &mut ready)? {
                Some(Found::It(found)) => return Ok(Some(found)),
                Some(Found::Call(listener, message)) => self.call(&listener, message)?,
                Some(Found::AllEnded) => self.note_ended(&listeners)?,
                None => return Ok(None),
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return self.wait_without_callbacks(what, until, ready);
            }
        }
    }

    fn wait_without_callbacks<T>(
        &self,
        what: &WaitFor,
        until: Option<Instant>,
        ready: impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match &self.backend {
            Backend::Run { runtime } => wait(runtime, what, until, ready),
            Backend::Alone(alone) => alone.wait(until, ready),
        }
    }

    /// Those whose messages may be received now, without those that have ended. With `insists`, it is an error if there are some, but none
    /// of them may.
    fn may_be_called(&self, insists: bool) -> Result<Vec<Listener>> {
        let mut listeners = self.callbacks.listeners().clone();
        listeners.retain(|listener| !listener.has_ended.load(Ordering::Acquire));
        let program = self.program()?;
        let mut refused = None;
        listeners.retain(|listener| match program.sequence.may_receive(&listener.port, None) {
            Ok(()) => true,
            Err(error) => {
                refused.get_or_insert(error);
                false
            }
        });
        match refused {
            Some(error) if insists && listeners.is_empty() => Err(error),
            _ => Ok(listeners),
        }
    }

    /// Whether the conduits of every port that has a callback have ended.
    fn nothing_more_comes(&self) -> Result<bool> {
        let listeners = self.callbacks.listeners().clone();
        self.with_state(|state| {
            for listener in &listeners {
                let has_ended = match listener.source {
                    Source::Conduit(end) => state.next_for_program(end)? == Next::Ended,
                    Source::Holders(input) => state.look_at_holders(input)? == FromHolders::Ended,
                };
                if !has_ended {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Waits for what `ready` finds, or for a message for one of the listeners. Whoever finds such a message has the turn to call.
    fn wait_among<T>(
        &self,
        what: &WaitFor,
        until: Option<Instant>,
        listeners: &[Listener],
        ready: &mut impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<Found<T>>> {
        if listeners.is_empty() {
            let found = self.wait_without_callbacks(what, until, |state| ready(state))?;
            return Ok(found.map(Found::It));
        }
        let mut all = WaitFor { is_any: true, is_reported: true, ..what.clone() };
        for listener in listeners {
            match listener.source {
                Source::Conduit(end) => all.receiving.push(end),
                Source::Holders(input) => all.open.push(input),
            }
        }
        let mut next = 0;
        self.wait_without_callbacks(&all, until, |state| {
            if let Some(found) = ready(state)? {
                return Ok(Some(Found::It(found)));
            }
            if self.callbacks.is_busy.swap(true, Ordering::AcqRel) {
                return Ok(None);
            }
            let found = next_message(state, listeners, &mut next);
            if !matches!(found, Ok(Some(Found::Call(..)))) {
                self.callbacks.is_busy.store(false, Ordering::Release);
            }
            found
        })
    }

    /// Calls a callback with its message; this thread has the turn.
    fn call(&self, listener: &Listener, message: Message) -> Result<()> {
        let turn = Turn(self);
        let (declared, _) = self.ports.sender(&listener.port, None)?;
        match listener.source {
            Source::Conduit(end) => {
                self.tell_warnings_of(&[end]);
                self.account_for(declared, None, &message)?;
            }
            Source::Holders(_) => self.account_outside_loop(&message)?,
        }
        let outcome = (lock(&listener.callback))(message);
        drop(turn);
        outcome.map_err(|problem| {
            let (instance, port) = (self.name().to_owned(), listener.port.to_string());
            let error = Error::Callback { instance, port, problem };
            self.fail(&error.to_string());
            error
        })
    }

    /// The conduits of these have ended: no message is expected on them from now on.
    fn note_ended(&self, listeners: &[Listener]) -> Result<()> {
        let mut program = self.program()?;
        for listener in listeners {
            listener.has_ended.store(true, Ordering::Release);
            program.sequence.ended(&listener.port, None);
        }
        Ok(())
    }
}

/// The next message for one of the listeners; they have their turns.
fn next_message<T>(state: &mut State, listeners: &[Listener], next: &mut usize) -> Result<Option<Found<T>>> {
    let mut all_ended = true;
    for turn in 0..listeners.len() {
        let place = (*next + turn) % listeners.len();
        let listener = &listeners[place];
        let end = match listener.source {
            Source::Conduit(end) => match state.next_for_program(end)? {
                Next::Message => Some(end),
                Next::Ended => continue,
                Next::Nothing => None,
            },
            Source::Holders(input) => match state.look_at_holders(input)? {
                FromHolders::Message(end) => Some(end),
                FromHolders::Ended => continue,
                FromHolders::Nothing | FromHolders::NoHandles => None,
            },
        };
        all_ended = false;
        if let Some(message) = end.and_then(|end| state.conduits.inlets[end].hand_out()) {
            *next = place + 1;
            return Ok(Some(Found::Call(listener.clone(), message)));
        }
    }
    Ok(all_ended.then_some(Found::AllEnded))
}
