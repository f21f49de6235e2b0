//! See `podium::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| podium::fuzz::run("apply", bytes));
