//! Pods with networks of their own, as users see them (NET-5, NET-6, NET-7): as root and as an ordinary user.

mod addresses;
mod cluster_domain;
mod crashes;
mod data_dir;
pub(crate) mod debuggers;
mod devices;
mod dual_stack;
mod fallback;
mod faults;
mod host_network;
mod kernel_files;
mod pod_users;
mod pods;
mod policies;
mod rights;
mod robustness;
mod services;
mod shells;
mod sysctls;
mod terminals;
mod why;
mod world;

use std::process::Command;

pub(crate) use crate::fabric::User;
use crate::fabric::can_be_made;
use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};

/// A cluster of two nodes and pods with networks of their own, unless its config file sets another mode.
pub(crate) struct Cluster {
    pub(crate) instance: Instance,
    user: User,
    home: DataDir,
}

impl Cluster {
    /// Starts a cluster; `network` goes into that section of the config file.
    pub(crate) fn start(user: User, network: &str) -> Self {
        Self::start_at(DataDir::for_everyone(), user, network)
    }

    /// Starts a cluster in this data directory.
    fn start_at(home: DataDir, user: User, network: &str) -> Self {
        Self::start_with(home, user, &format!("network: {{mode: fabric{network}}}\n"))
    }

    /// Starts a cluster in this data directory with this config file.
    pub(crate) fn start_with(home: DataDir, user: User, config: &str) -> Self {
        std::fs::write(home.path("config.yaml"), config).unwrap();
        let instance = Self::serve(&home, user);
        Self { instance, user, home }
    }

    fn serve(home: &DataDir, user: User) -> Instance {
        let kubeconfig = home.path("kubeconfig");
        let program =
            Some(home.path("podium")).filter(|path| path.exists()).unwrap_or_else(|| home.program());
        let mut command = match user {
            User::Own => Command::new(program),
            User::Ordinary => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
                command
            }
        };
        command.args(["serve", "--nodes", "2", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
        command.arg("--kubeconfig").arg(&kubeconfig).arg("--config").arg(home.path("config.yaml"));
        DataDir::start_command(command.env("HOME", home.path("")).env_remove("PODIUM_NETWORK"), &kubeconfig)
    }

    pub(crate) fn apply(&self, manifest: &str) {
        self.instance.apply(manifest);
    }

    pub(crate) fn ready(&self, pod: &str) {
        self.instance.until_ready(pod);
    }

    fn ip(&self, pod: &str) -> String {
        self.instance.field(pod, ".status.podIP")
    }

    /// Returns the output of a shell in a pod.
    pub(crate) fn shell(&self, pod: &str, script: &str) -> String {
        self.instance.exec(pod, &["sh", "-c", script])
    }
}

/// Returns the users that may have such a network here; the others are counted.
pub(crate) fn users() -> Vec<User> {
    let is_root = rustix::process::geteuid().is_root();
    let all = if is_root { vec![User::Own, User::Ordinary] } else { vec![User::Own] };
    all.into_iter().filter(|user| !lacks(Need::PodNetwork, can_be_made(*user))).collect()
}

/// A pod with a shell that waits, on a node.
pub(crate) fn idle(name: &str, node: &str) -> String {
    running(name, node, "[sleep, '100000']")
}

/// A pod with one command, written as in YAML, on a node.
fn running(name: &str, node: &str, command: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n  - {{name: c, image: busybox, command: {command}}}\n---\n"
    )
}

/// A web server at every address of its own network, ready once it responds there.
fn web(name: &str, node: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web}}}}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n{more}  containers:\n  - name: c\n    image: nginx\n    ports: [{{containerPort: 80}}]\n    \
         readinessProbe: {{httpGet: {{port: 80}}, periodSeconds: 1}}\n---\n"
    )
}
