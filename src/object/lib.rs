//! The vocabulary: kinds, objects, keys, quantities, selectors, owners.
//!
//! Architecture Invariant: nothing here reads the clock or does I/O. Functions are pure: each answers a question about
//! a single object that several crates need (does a selector match, is a pod ready, what are its requests).

#[macro_use] // its table is passed to other macros
mod kind;

mod any;
mod body;
mod cluster_domain;
pub mod completion_indexes;
pub mod conditions;
pub mod config;
mod custom;
mod custom_kind;
pub mod definition_schemas;
mod encode;
pub mod endpoint;
pub mod finalizers;
pub mod go_format;
pub mod host_ports;
pub mod ingress;
pub mod job;
pub mod json_path;
mod json_text;
mod key;
mod key_map;
pub mod low_ports;
pub mod managed;
pub mod names;
pub mod node;
pub mod node_image;
pub mod node_selector;
mod numeric_quantities;
pub mod owner;
mod part;
pub mod percent;
pub mod pod;
pub mod pod_preset;
mod port;
pub mod quantity;
pub mod quota;
pub mod resources;
pub mod selector;
pub mod service;
mod shared_object;
pub mod storage;
pub mod sysctl;
pub mod taint;
pub mod time;
mod versions;
pub mod well_known;

pub use any::{DecodeError, Object};
pub use body::{Body, BuiltinKind, TypedKind};
pub use cluster_domain::{ClusterDomain, InvalidClusterDomain};
pub use custom::CustomObject;
pub use custom_kind::CustomKind;
pub use key::{Key, Revision, Uid};
pub use key_map::KeyMap;
pub use kind::{Kind, KindInfo, Scope, Subresource, TooManyKinds, parse_api_version, split_api_version};
pub use part::{ObjectPart, json_of};
pub use port::port_number;
pub use shared_object::SharedObject;
pub use versions::{OtherVersion, ServedKind};
