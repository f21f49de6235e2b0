//! A cluster for tests (API-20).
//!
#![doc = include_str!("../../docs/test/rust.md")]

mod builder;
mod client;
mod clock;
mod cluster;
mod controllers;
mod definitions;
mod error;
mod faults;
mod nodes;
mod pods;
mod programs;
mod requests;
mod status;
mod wait;
mod watches;

pub use builder::Builder;
pub use client::ClientOptions;
pub use clock::settle;
pub use cluster::Cluster;
pub use controllers::Controllers;
pub use error::Error;
pub use faults::{Failure, InjectedFailure, PausedWatches};
pub use nodes::HollowNode;
pub use pods::{HollowPod, PodBehaviour};
pub use requests::Requests;
/// The version of the client and of the API's types that [`Cluster`] speaks.
pub use {k8s_openapi, kube};
