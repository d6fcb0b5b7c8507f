//! See `xmml_fuzz::targets::selectors`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::selectors(bytes));
