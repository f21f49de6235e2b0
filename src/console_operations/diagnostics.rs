//! Interface to the program that embeds the console: connection diagnosis and the effect of network policies (NET-8).
//!
//! Both need the network code, which the console does not link to. They use the console's own client, so that users see
//! no more than their roles permit.

use std::fmt::Debug;

use futures::future::BoxFuture;
use kube::Client;
use serde_json::Value;

/// Diagnoses connections. Errors are shown verbatim.
pub trait Diagnostics: Debug + Send + Sync {
    /// Traces a connection from a pod (`NAMESPACE/NAME`) to a destination as `podium why-not-connected` accepts it;
    /// returns the report of its `-o json`.
    fn diagnose_connection(
        &self,
        client: Client,
        source: String,
        destination: String,
    ) -> BoxFuture<'static, Result<Value, String>>;

    /// Describes the effect of policies on an object, one line each; empty if there is none.
    fn policies(
        &self,
        client: Client,
        object: PolicyTarget,
    ) -> BoxFuture<'static, Result<Vec<String>, String>>;
}

/// The object of a description of policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyTarget {
    /// A pod: the policies that select it, and the traffic they allow.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A policy: the pods it selects, and the traffic it allows.
    Policy {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}
