//! Policies applied to inputs: tables of allowed connections, and random histories.

mod build;
mod evaluate;
mod explanations;
mod histories;
mod models;
mod tables;
