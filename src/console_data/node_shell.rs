//! Shells on nodes, as `kubectl debug node/NAME` creates them: the pod's spec, and the detection of leftover pods.
//!
//! The pod runs on that node only, in the machine's network and PID namespaces, with the machine's files at `/host`; it
//! tolerates every taint. The console that created it removes it. If that console is killed, the pod ends by itself, on
//! any server: its process reads lines that the console sends ([`HEARTBEAT_INTERVAL`]) and exits when the lines stop or
//! its input closes; and the pod has a deadline. Pure: this module makes no requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use toml::de::{DeTable, DeValue};

use base::did_you_mean::nearest;
use console_toolkit::text::generated;
use object::well_known::label::PODIUM_NODE_SHELL;

/// The container's name, as `kubectl debug` chooses it.
pub const CONTAINER: &str = "debugger";

/// The interval of the console's heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(20);

/// The maximum lifetime of a pod in seconds: a working day.
const DEADLINE_SECONDS: u32 = 8 * 60 * 60;

/// The process of the pod: it runs while lines arrive, or, if the image's shell has no timeout for `read` (Debian's),
/// while its input is open. It never signals processes, because it is in the machine's PID namespace.
const PROCESS: &str = "if echo | read -t 1 x 2>/dev/null; \
                       then while read -t 90 x; do :; done; else cat >/dev/null; fi";

/// The maximum length of the node's part in a pod's name; a name has at most 253 bytes.
const NODE_PART: usize = 200;

/// Identifies this console among those that create such pods.
static CONSOLE: LazyLock<String> = LazyLock::new(|| generated(10));

/// The settings in the user's `console.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeShell {
    /// The image with the shell's tools.
    pub image: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The command in place of `bash` or `sh`: `["chroot", "/host"]` is a shell of the machine's own.
    pub command: Vec<String>,
    /// Runs the container privileged.
    pub privileged: bool,
}

impl Default for NodeShell {
    fn default() -> Self {
        Self {
            image: "busybox".to_owned(),
            namespace: "default".to_owned(),
            command: Vec::new(),
            privileged: true,
        }
    }
}

impl NodeShell {
    /// Reads `[node_shell]`; absent values stay unchanged. Errors have a byte offset in the text and a message.
    pub fn read(table: &DeTable<'_>) -> Result<Self, (usize, String)> {
        let mut settings = Self::default();
        for (key, value) in table {
            let name: &str = key.get_ref();
            let wrong =
                |expected: &str| Err((value.span().start, format!("[node_shell] {name} must be {expected}")));
            match (name, value.get_ref()) {
                ("image", DeValue::String(text)) if !text.trim().is_empty() => {
                    text.trim().clone_into(&mut settings.image);
                }
                ("namespace", DeValue::String(text)) if is_namespace(text) => {
                    settings.namespace = text.to_string();
                }
                ("privileged", DeValue::Boolean(on)) => settings.privileged = *on,
                ("command", DeValue::Array(words)) => {
                    let words: Option<Vec<&str>> = words.iter().map(|word| word.get_ref().as_str()).collect();
                    let Some(words) = words else { return wrong("words, like [\"chroot\", \"/host\"]") };
                    settings.command = words.into_iter().map(str::to_owned).collect();
                }
                ("image", _) => return wrong("an image, like \"busybox\""),
                ("namespace", _) => return wrong("the name of a namespace"),
                ("privileged", _) => return wrong("true or false"),
                ("command", _) => return wrong("words, like [\"chroot\", \"/host\"]"),
                _ => {
                    let near = nearest(name, ["image", "namespace", "command", "privileged"]);
                    let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                    return Err((key.span().start, format!("[node_shell] has no key {name:?}{hint}")));
                }
            }
        }
        Ok(settings)
    }

    /// Builds the pod of this name for a shell on a node.
    pub fn pod(&self, node: &str, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {PODIUM_NODE_SHELL: *CONSOLE}},
            "spec": {
                "nodeName": node,
                "hostNetwork": true,
                "hostPID": true,
                "hostIPC": true,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": DEADLINE_SECONDS,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": CONTAINER,
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", PROCESS],
                    "stdin": true,
                    "stdinOnce": true,
                    "securityContext": {"privileged": self.privileged},
                    "terminationMessagePolicy": "File",
                    "volumeMounts": [{"name": "host-root", "mountPath": "/host"}],
                }],
                "volumes": [{"name": "host-root", "hostPath": {"path": "/"}}],
            },
        })
    }

    /// Returns the equivalent kubectl command.
    pub fn kubectl(&self, node: &str) -> String {
        let mut line = format!("kubectl debug node/{node} -n {} -it --image={}", self.namespace, self.image);
        if self.privileged {
            line.push_str(" --profile=sysadmin");
        }
        if !self.command.is_empty() {
            line = format!("{line} -- {}", self.command.join(" "));
        }
        line
    }
}

/// Reports whether this is a valid namespace name: it becomes part of a path.
pub fn is_namespace(text: &str) -> bool {
    let letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    letters && !text.is_empty() && text.len() <= 63
}

/// Generates a pod name for this node, as `kubectl debug` does.
pub fn pod_name(node: &str) -> String {
    let part: String = node.chars().take(NODE_PART).collect();
    format!("node-debugger-{}-{}", part.trim_end_matches(['.', '-']), generated(5))
}

/// The state of another console's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverState {
    /// It has ended and is unused.
    Over,
    /// It exists: that console may use it, or was killed a moment ago.
    Running,
}

/// Returns the state if this is another console's node shell pod; `None` for any other pod or one being deleted.
pub fn leftover_pod(
    labels: &BTreeMap<String, String>,
    is_going: bool,
    is_over: bool,
) -> Option<LeftoverState> {
    if *labels.get(PODIUM_NODE_SHELL)? == *CONSOLE || is_going {
        return None;
    }
    Some(if is_over { LeftoverState::Over } else { LeftoverState::Running })
}

/// Returns the reason why a shell on a node is impossible; `None` if it can be tried.
pub fn refused(node: &Node) -> Option<String> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref())?;
    if info.container_runtime_version.starts_with("hollow://") {
        return Some(format!("{name} is hollow: it runs no processes and has no shell"));
    }
    if info.operating_system == "windows" {
        return Some(format!("{name} runs Windows: the shell needs Linux"));
    }
    None
}

/// Reports whether the node's containers are processes of the machine that Podium runs on.
pub fn is_of_podium(node: &Node) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.is_some_and(|info| info.container_runtime_version.starts_with("podium://"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn the_shell_pod_tolerates_all_taints_and_does_not_outlive_its_console_con_3() {
        let settings = NodeShell::default();
        let name = pod_name(&"n.".repeat(120));
        assert!(name.len() <= 253 && name.starts_with("node-debugger-n.n") && !name.contains(".-"), "{name}");
        assert_ne!(pod_name("a"), pod_name("a"));
        let pod = settings.pod("node-1", &name);
        let spec = &pod["spec"];
        assert_eq!(spec["nodeName"], "node-1");
        assert_eq!((&spec["hostPID"], &spec["hostNetwork"]), (&json!(true), &json!(true)));
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["activeDeadlineSeconds"], 28_800);
        assert_eq!(spec["containers"][0]["stdinOnce"], true);
        assert_eq!(spec["containers"][0]["securityContext"]["privileged"], true);
        assert_eq!(spec["volumes"][0]["hostPath"]["path"], "/");
        // The pod parses as the Kubernetes types.
        let typed: Pod = serde_json::from_value(pod).unwrap();
        let labels = typed.metadata.labels.unwrap();
        assert_eq!(leftover_pod(&labels, false, false), None, "it is this console's own");
    }

    #[test]
    fn the_process_ends_with_its_input_and_when_nothing_comes_con_3() {
        use std::process::{Command, Stdio};
        // The same process with a timeout of one second, within which no line arrives.
        let hasty = PROCESS.replace("-t 90", "-t 1");
        for shell in ["sh", "bash", "dash"] {
            let start = |script: &str| {
                Command::new(shell).args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn()
            };
            let Ok(mut process) = start(PROCESS) else { continue };
            drop(process.stdin.take());
            assert!(process.wait().is_ok(), "{shell}: it would wait for ever");
            if shell == "bash" {
                let mut process = start(&hasty).unwrap();
                let open = process.stdin.take();
                assert!(process.wait().is_ok(), "{shell}: it would wait for ever");
                drop(open);
            }
        }
    }

    #[test]
    fn the_node_shell_settings_are_parsed_strictly_con_3() {
        let read = |text: &str| {
            let document = DeTable::parse(text).unwrap();
            NodeShell::read(document.get_ref()).map_err(|(_, what)| what)
        };
        let all = "image = \"alpine:3\"\nnamespace = \"ops\"\ncommand = [\"chroot\", \"/host\"]\nprivileged = false";
        let settings = read(all).unwrap();
        assert_eq!(
            settings.kubectl("node-1"),
            "kubectl debug node/node-1 -n ops -it --image=alpine:3 -- chroot /host"
        );
        assert_eq!(
            NodeShell::default().kubectl("n"),
            "kubectl debug node/n -n default -it --image=busybox --profile=sysadmin"
        );
        for (text, what) in [
            ("imgae = \"x\"", "[node_shell] has no key \"imgae\"; did you mean \"image\"?"),
            ("image = \" \"", "[node_shell] image must be an image, like \"busybox\""),
            ("namespace = \"../x\"", "[node_shell] namespace must be the name of a namespace"),
            ("command = [3]", "[node_shell] command must be words, like [\"chroot\", \"/host\"]"),
            ("privileged = 1", "[node_shell] privileged must be true or false"),
        ] {
            assert_eq!(read(text).unwrap_err(), what, "{text}");
        }
    }

    #[test]
    fn leftover_pods_of_other_consoles_are_distinguished_from_used_ones_con_3() {
        let labels = |console: &str| BTreeMap::from([(PODIUM_NODE_SHELL.to_owned(), console.to_owned())]);
        assert_eq!(leftover_pod(&labels("other"), false, true), Some(LeftoverState::Over));
        assert_eq!(leftover_pod(&labels("other"), false, false), Some(LeftoverState::Running));
        assert_eq!(leftover_pod(&labels("other"), true, true), None, "it is being removed");
        assert_eq!(leftover_pod(&labels(CONSOLE.as_str()), false, false), None);
        assert_eq!(leftover_pod(&BTreeMap::new(), false, true), None);
    }

    #[test]
    fn hollow_nodes_and_windows_say_that_there_is_no_shell_con_3() {
        let node = |runtime: &str, os: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": runtime, "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": os,
                "osImage": "", "systemUUID": ""}}}))
            .unwrap()
        };
        assert!(refused(&node("hollow://0.1.0", "linux")).is_some_and(|why| why.contains("hollow")));
        assert!(refused(&node("containerd://2", "windows")).is_some_and(|why| why.contains("Windows")));
        assert_eq!(refused(&node("containerd://2", "linux")), None);
        assert!(is_of_podium(&node("podium://0.1.0", "linux")));
    }
}
