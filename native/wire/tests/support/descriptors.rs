//! Descriptors for both ends of many connections in one process: an ordinary user has 1,024 unless more are asked for.

/// Lets this process have so many descriptors, if it may not yet.
pub fn allow_descriptors(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_cur.max(wanted);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0, "this test needs {wanted} descriptors");
    }
}
