//! The default container of a pod, and the terminal a container was created with.

use k8s_openapi::api::core::v1::Pod;

use object::well_known::annotation;

/// Returns the container to use when none is named: the annotated default, else the first.
pub fn default_container(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    pod.metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(annotation::DEFAULT_CONTAINER))
        .filter(|name| spec.containers.iter().any(|container| &&container.name == name))
        .cloned()
        .or_else(|| spec.containers.first().map(|container| container.name.clone()))
}

/// Returns whether a container of any type has a TTY and an open stdin.
pub fn terminal_of(pod: &Pod, name: &str) -> Option<(bool, bool)> {
    let spec = pod.spec.as_ref()?;
    let plain = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    plain
        .map(|container| (&container.name, container.tty, container.stdin))
        .chain(ephemeral.map(|container| (&container.name, container.tty, container.stdin)))
        .find(|(container, ..)| *container == name)
        .map(|(_, tty, stdin)| (tty.unwrap_or(false), stdin.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// CON-8: the terminal matches the container's `tty` and `stdin`.
    #[test]
    fn the_default_container_and_its_terminal_are_found() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "annotations": { "kubectl.kubernetes.io/default-container": "main" } },
            "spec": {
                "containers": [{ "name": "proxy" }, { "name": "main", "tty": true, "stdin": true }],
                "ephemeralContainers": [{ "name": "debugger-x", "tty": true }],
            },
        }))
        .unwrap();
        assert_eq!(default_container(&pod).as_deref(), Some("main"));
        assert_eq!(terminal_of(&pod, "main"), Some((true, true)));
        assert_eq!(terminal_of(&pod, "proxy"), Some((false, false)));
        assert_eq!(terminal_of(&pod, "debugger-x"), Some((true, false)));
        assert_eq!(terminal_of(&pod, "none"), None);
    }
}
