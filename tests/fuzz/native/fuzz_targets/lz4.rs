//! See `xmml_fuzz::targets::lz4`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::lz4(bytes));
