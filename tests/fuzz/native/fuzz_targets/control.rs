//! See `xmml_fuzz::targets::control`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::control(bytes));
