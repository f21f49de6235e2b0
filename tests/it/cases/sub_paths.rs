//! Directories created for `subPath` and `subPathExpr`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/07-subpath-directory-mode.yaml");

/// The log of a pod that has succeeded.
fn log_of(instance: &Instance, pod: &str) -> String {
    wait_for("the pod to end", || {
        let phase = instance.phase(pod);
        assert_ne!(phase, "Failed", "{}", instance.logs(pod));
        (phase == "Succeeded").then_some(())
    });
    instance.logs(pod)
}

#[test]
fn a_sub_path_has_the_mode_and_group_of_its_volume_vol_1() {
    needs!(Root);
    let home = DataDir::visible_to_containers();
    let instance = home.start(&["--nodes", "1"]);
    instance.apply(&std::fs::read_to_string(MANIFEST).unwrap());
    let log = log_of(&instance, "sub-path-mode");
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for line in &lines {
        assert_eq!((line[0], line[3]), ("drwxrwsrwx", "1001"), "{log}");
    }
    instance.stop();
}

/// User 1001 can write to a sub-path of every volume that it could write to as a whole.
#[test]
fn users_write_to_sub_paths_of_every_volume_type_vol_1_vol_2() {
    needs!(Root);
    let home = DataDir::visible_to_containers();
    let shared = home.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let instance = home.start(&["--nodes", "1"]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    let volumes = ["disk", "memory", "claim", "host"];
    let pod = |name: &str, group: Option<u32>| {
        let mounts = volumes.iter().flat_map(|volume| {
            [
                json!({"name": volume, "mountPath": format!("/{volume}/whole")}),
                json!({"name": volume, "mountPath": format!("/{volume}/part"), "subPath": format!("{name}/a/b")}),
                json!({"name": volume, "mountPath": format!("/{volume}/named"), "subPathExpr": "$(NAME)/c"}),
            ]
        });
        let script = "for v in disk memory claim host; do for p in whole part named whole/$NAME whole/$NAME/a; do \
                      touch /$v/$p/file || exit 1; stat -c \"$v $p %a %g\" /$v/$p; done; done";
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "restartPolicy": "Never", "securityContext": {"runAsUser": 1001, "runAsGroup": 1001, "fsGroup": group},
            "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", script],
                "env": [{"name": "NAME", "value": name}], "volumeMounts": mounts.collect::<Vec<_>>()}],
            "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "host", "hostPath": {"path": shared}}]}})
    };
    for (name, group) in [("plain", None), ("grouped", Some(4711))] {
        instance.apply_all(&[claim.clone(), pod(name, group)]);
        let log = log_of(&instance, name);
        for volume in volumes {
            let seen: Vec<Vec<&str>> = log
                .lines()
                .map(|line| line.split(' ').collect())
                .filter(|line: &Vec<_>| line[0] == volume)
                .collect();
            assert_eq!(seen.len(), 5, "{log}");
            for line in &seen {
                assert_eq!(line[2..], seen[0][2..], "{name}: a part is as the whole: {log}");
            }
        }
        let group = group.unwrap_or(0).to_string();
        let of_disk = log.lines().find(|line| line.starts_with("disk part ")).unwrap();
        assert!(of_disk.ends_with(&format!(" {group}")), "{of_disk}");
    }
    instance.stop();
}
