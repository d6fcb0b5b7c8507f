//! See `xmml_fuzz::targets::objects`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::objects(bytes));
