//! See `xmml_fuzz::targets::zlib`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xmml_fuzz::targets::zlib(bytes));
