//! Hostile tests found bugs here, or held from the start: the cases must go on holding.

mod archives;
mod escapes;
mod full_disk;
mod kill_nine;
mod memory;
mod raw_http;
mod smuggling;
