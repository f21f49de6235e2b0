//! What hostile tests once found, and what held against them: it must go on holding (RELIABILITY-FOUND, "Tests run").

mod archives;
mod escapes;
mod full_disk;
mod kill_nine;
mod memory;
mod smuggling;
mod wire;
