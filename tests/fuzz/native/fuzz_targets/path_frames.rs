//! See `xmml_fuzz::targets::path_frames`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::path_frames(bytes));
