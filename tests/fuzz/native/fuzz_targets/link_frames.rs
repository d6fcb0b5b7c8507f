//! See `xmml_fuzz::targets::link_frames`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::link_frames(bytes));
