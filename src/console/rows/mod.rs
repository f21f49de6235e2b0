//! Rows of tables: what each kind shows, as pure functions of an object.

pub mod pod_status;
