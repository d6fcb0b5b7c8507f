//! See `xmml_fuzz::targets::path_end`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::path_end(bytes));
