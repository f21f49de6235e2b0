//! Podium: a Kubernetes you hold in one terminal.

pub mod api;
pub mod base;
pub mod cli;
pub mod cluster;
pub mod console;
pub mod controllers;
pub mod kubelet;
pub mod manifest;
pub mod network;
pub mod object;
pub mod reconcile;
pub mod scheduler;
pub mod store;
