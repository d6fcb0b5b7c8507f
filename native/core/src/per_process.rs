//! What the instances of one process share.

use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that is made once in each process. A child after fork makes its own: that of its parent may have been locked by a thread
/// which the child does not have.
pub struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Not made yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of this process. It is never freed: others may still look at it while the process ends.
    pub fn get(&'static self, make: impl Fn() -> T) -> &'static T {
        let process = std::process::id();
        loop {
            let found = self.0.load(Ordering::Acquire);
            // SAFETY: the pointer is null or comes from Box::leak below, so it is valid as long as the process lives.
            if let Some(made) = unsafe { found.as_ref() }.filter(|made| made.process == process) {
                return &made.value;
            }
            let new = std::ptr::from_mut(Box::leak(Box::new(Made { process, value: make() })));
            if self.0.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was faster; nobody else has seen this one, which was leaked just above.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

impl<T: Send + Sync> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_see_the_same_value() {
        static VALUE: PerProcess<u64> = PerProcess::new();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|at| scope.spawn(move || std::ptr::from_ref(VALUE.get(|| at)) as usize)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|address| *address == addresses[0]));
    }
}
