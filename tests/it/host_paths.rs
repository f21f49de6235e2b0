//! hostPath volumes without a type (VOL-1), as log shippers' DaemonSets mount them.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

fn pod(name: &str, path: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "command": ["true"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "hostPath": {"path": path}}, {"name": "unused", "hostPath": {"path": format!("{}-unused", path.as_str().unwrap())}}]}})
}

#[test]
fn a_host_path_without_a_type_is_made_and_an_event_says_where_it_cannot_be_vol_1() {
    needs!(Kubectl);
    let home = DataDir::visible_to_containers();
    let instance = home.start(&["--nodes", "1"]);
    let (missing, file) = (home.path("var/lib/missing"), home.path("file"));
    std::fs::write(&file, "").unwrap();
    let impossible = file.join("below");
    let pods = [pod("made", &json!(missing)), pod("impossible", &json!(impossible))];
    instance.apply_all(&pods);
    wait_for("the pod to succeed", || {
        let phase = instance.phase("made");
        (phase == "Succeeded").then_some(())
    });
    assert_eq!(missing.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    assert!(!home.path("var/lib/missing-unused").exists(), "nothing is made that no container mounts");
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    wait_for("the container that cannot be made", || {
        let reason = instance.kubectl(&["get", "pod", "impossible", "-o", reason]);
        (reason == "CreateContainerError").then_some(())
    });
    let of = ["get", "events", "--field-selector", "involvedObject.name=impossible,reason=Failed"];
    let text = instance.kubectl(&[&of[..], &["-o", "jsonpath={.items[*].message}"]].concat());
    let path = impossible.display();
    assert!(text.contains(&format!("hostPath volume \"v\": failed to mkdir \"{path}\": ")), "{text}");
    assert!(text.contains("Not a directory"), "{text}");
    instance.stop();
}
