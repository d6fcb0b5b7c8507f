//! See `xmml_fuzz::targets::precision`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::precision(bytes));
