//! What the console asks of whoever started it: to walk the way of a connection, and to say what policies mean (NET-8).
//!
//! Both are decided where the network is known, which the console is not linked to. They are asked with the console's own
//! client, so that nobody is told more than roles let him see.

use std::fmt::Debug;

use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

/// Who knows about connections. Errors are told as they are.
pub trait Diagnose: Debug + Send + Sync {
    /// Walks from a pod, `NAMESPACE/NAME`, to whom `podium why-not-connected` takes: a report as its `-o json`.
    fn why_not_connected(
        &self,
        client: Client,
        source: String,
        destination: String,
    ) -> BoxFuture<'static, Result<Value, String>>;

    /// What policies mean for an object, in lines; nothing where they mean nothing.
    fn policies(&self, client: Client, object: Policed) -> BoxFuture<'static, Result<Vec<String>, String>>;
}

/// What policies mean something for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policed {
    /// A pod: which select it, and what they let through.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A policy: whom it selects, and what it lets through.
    Policy {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}
