//! Hostile input: each case found a bug, or was handled from the start and must stay so.

mod archives;
mod escapes;
mod full_disk;
mod kill_nine;
mod memory;
mod raw_http;
mod smuggling;
