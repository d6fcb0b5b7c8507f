//! See `xmml_fuzz::targets::dialler`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::dialler(bytes));
