//! See `xmml_fuzz::targets::records`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::records(bytes));
