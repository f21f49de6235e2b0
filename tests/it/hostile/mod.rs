//! What hostile tests once found, and what held against them: it must go on holding (RELIABILITY-FOUND, "Tests run").

mod memory;
