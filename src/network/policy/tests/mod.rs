//! Policies against worlds: tables of who may talk to whom, and random histories.

mod build;
mod evaluate;
mod explanations;
mod histories;
mod models;
mod tables;
