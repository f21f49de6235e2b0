//! The behavior of hollow containers, as a test or a simulation prescribes it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::runtime::{ContainerSpec, SandboxSpec};
use crate::spec::{self, Role};

/// The behavior of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerBehavior {
    /// It behaves as the runtime is configured.
    AsConfigured,
    /// An init container: it ends after `init_run_duration`, since the others wait for it.
    Finishes,
    /// A container that is not started again once it succeeds: it ends after `job_run_duration`, as the work of a Job does.
    Completes,
    /// It runs until it is stopped.
    Runs,
    /// It runs until it is stopped, but readiness probes of its pod fail.
    RunsUnready,
    /// It ends by itself.
    Ends {
        /// After running this long.
        after: Duration,
        /// The exit code.
        exit_code: i32,
    },
    /// It cannot be started.
    StartFails,
}

/// Chooses the behavior of each container that is started in a sandbox.
pub type BehaviorFn = Arc<dyn Fn(&SandboxSpec, &ContainerSpec) -> ContainerBehavior + Send + Sync>;

impl ContainerBehavior {
    /// Derives the behavior from the pod's spec alone: containers that are expected to end do so.
    pub fn of(pod: &Pod, container: &str) -> Self {
        match spec::container(pod, container) {
            Some((Role::Init, _)) => Self::Finishes,
            Some((Role::App, container)) if !spec::restarts_after(pod, Role::App, &container, 0) => {
                Self::Completes
            }
            _ => Self::AsConfigured,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn containers_that_are_not_started_again_complete_node_7() {
        let course = |spec: Value, name: &str| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
            ContainerBehavior::of(&pod, name)
        };
        let app = |policy: &str, own: Value| {
            let mut container = json!({"name": "c", "image": "work"});
            container.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            course(json!({"restartPolicy": policy, "containers": [container]}), "c")
        };
        for (policy, own, expected) in [
            ("Always", json!({}), ContainerBehavior::AsConfigured),
            ("OnFailure", json!({}), ContainerBehavior::Completes),
            ("Never", json!({}), ContainerBehavior::Completes),
            ("Never", json!({"restartPolicy": "Always"}), ContainerBehavior::AsConfigured),
            ("Always", json!({"restartPolicy": "OnFailure"}), ContainerBehavior::Completes),
            (
                "Never",
                json!({"restartPolicy": "Never", "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [0]}}]}),
                ContainerBehavior::AsConfigured,
            ),
        ] {
            assert_eq!(app(policy, own.clone()), expected, "{policy} {own}");
        }
        let others = json!({"restartPolicy": "Never", "containers": [{"name": "c"}],
            "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
            "ephemeralContainers": [{"name": "debug"}]});
        for (name, expected) in [
            ("init", ContainerBehavior::Finishes),
            ("sidecar", ContainerBehavior::AsConfigured),
            ("debug", ContainerBehavior::AsConfigured),
            ("absent", ContainerBehavior::AsConfigured),
        ] {
            assert_eq!(course(others.clone(), name), expected, "{name}");
        }
    }
}
