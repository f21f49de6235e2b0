//! See `lab::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lab::fuzz::run("registry", bytes));
