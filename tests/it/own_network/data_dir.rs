//! The data directory of the cluster, which pods do not see though their processes are of its user.

use super::{Cluster, needs, users, wait_for};
use crate::instance::DataDir;

/// Every kind of volume, in a container with a writable root and in one with a read-only one; DATA and HOME are
/// directories.
const PODS: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {word: from-config}
---
apiVersion: v1
kind: Secret
metadata: {name: hush}
stringData: {word: from-secret}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: looker}
spec:
  nodeSelector: {kubernetes.io/hostname: node-1}
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: words, configMap: {name: words}}
  - {name: hush, secret: {secretName: hush}}
  - {name: kept, persistentVolumeClaim: {claimName: kept}}
  - {name: own, hostPath: {path: HOME/own, type: DirectoryOrCreate}}
  - {name: about, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  - name: all
    projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: words}}]}
  initContainers:
  - name: fill
    image: busybox
    command: [sh, -c, 'for v in empty memory kept own; do echo from-$v > /v/$v/word; done; mkdir -p /v/empty/sub; echo from-sub > /v/empty/sub/word']
    volumeMounts: &mounts
    - {name: empty, mountPath: /v/empty}
    - {name: memory, mountPath: /v/memory}
    - {name: kept, mountPath: /v/kept}
    - {name: own, mountPath: /v/own}
  containers:
  - name: writes
    image: busybox
    command: [sh, -c, 'echo said; sleep 100000']
    readinessProbe: {exec: {command: [cat, /v/words/word]}, periodSeconds: 1}
    volumeMounts: &all
    - {name: empty, mountPath: /v/empty}
    - {name: memory, mountPath: /v/memory}
    - {name: kept, mountPath: /v/kept}
    - {name: own, mountPath: /v/own}
    - {name: words, mountPath: /v/words}
    - {name: hush, mountPath: /v/hush}
    - {name: about, mountPath: /v/about}
    - {name: all, mountPath: /v/all}
    - {name: empty, mountPath: /v/sub, subPath: sub}
    - {name: words, mountPath: /v/word, subPath: word}
    - {name: words, mountPath: DATA/inside}
  - name: reads
    image: busybox
    command: [sleep, '100000']
    securityContext: {readOnlyRootFilesystem: true}
    volumeMounts: *all
  - name: declared
    image: declared
    command: [sleep, '100000']
    volumeMounts: *all
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec:
  nodeName: node-1
  restartPolicy: Never
  containers:
  - {name: c, image: busybox, command: [sh, -c, 'ls -A DATA > /dev/termination-log; echo over >> /dev/termination-log']}
";

/// SEC-1, SEC-2, VOL-1: pods see nothing of the data directory except the volumes that they mount from it; volumes of
/// every kind, sub paths, probes, commands and termination messages work as before.
#[test]
fn pods_do_not_see_the_data_directory_sec_1_vol_1() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start_with(
            DataDir::visible_to_containers(),
            user,
            "network: {mode: fabric}\nimages: [{name: declared}]\n",
        );
        let data = cluster.home.data_dir();
        let (data, home) = (data.display().to_string(), cluster.home.path("").display().to_string());
        cluster.apply(&PODS.replace("DATA", &data).replace("HOME", home.trim_end_matches('/')));
        cluster.ready("looker");
        for container in ["writes", "reads", "declared"] {
            let shell = |script: &str| cluster.instance.exec_in("looker", container, &["sh", "-c", script]);
            assert_eq!(shell(&format!("ls -A {data}")), "inside\n", "{container} as {user:?}");
            assert_eq!(shell(&format!("cat {data}/inside/word")), "from-config", "{container} as {user:?}");
            let beside = shell(&format!("ls -A {home}/own"));
            assert_eq!(
                beside == "word\n",
                container == "declared",
                "only a user's image shows the files beside the data directory: {beside}"
            );
            let made = shell(&format!("touch {data}/made && echo made"));
            assert!(!made.ends_with("made\n") || container != "reads", "{made}");
            for path in ["sa.key", "nodes/node-1/host.sock", "fabric/socket", "kubeconfig"] {
                let output = shell(&format!("ls {data}/{path} /proc/1/root{data}/{path} && echo seen"));
                assert!(!output.contains("seen"), "{container} as {user:?}: {output}");
            }
            let words = ["empty", "memory", "kept", "own", "sub"];
            for volume in words {
                assert_eq!(
                    shell(&format!("cat /v/{volume}/word")),
                    format!("from-{volume}\n"),
                    "{container} as {user:?}"
                );
            }
            for (path, word) in [
                ("words/word", "from-config"),
                ("word", "from-config"),
                ("hush/word", "from-secret"),
                ("about/name", "looker"),
                ("all/word", "from-config"),
            ] {
                assert_eq!(shell(&format!("cat /v/{path}")), word, "{container} as {user:?}");
            }
            assert_eq!(shell("test -s /v/all/token && echo yes"), "yes\n");
            assert_eq!(shell("echo more >> /v/empty/word && tail -n 1 /v/empty/word"), "more\n");
            assert_eq!(shell("sed -i '$d' /v/empty/word; cat /v/empty/word"), "from-empty\n");
        }
        assert!(!std::path::Path::new(&data).join("made").exists(), "files written there stay in the pod");
        let message = wait_for("the end", || {
            let containers = cluster.instance.pod("ends").status?.container_statuses?;
            containers.into_iter().next()?.state?.terminated?.message
        });
        assert_eq!(message, "over\n", "as {user:?}");

        let debug = ["debug", "looker", "--profile=baseline", "--image=busybox", "--container=debugger"];
        let look = format!("ls -A {data}; cat $TARGET_LOG; ls -d $TARGET_ROOT; echo over");
        cluster.instance.kubectl(&[&debug[..], &["--target=writes", "--", "sh", "-c", &look]].concat());
        let log = wait_for("the debugger's word", || {
            cluster.instance.logs_of("looker", "debugger").filter(|text| text.contains("over"))
        });
        assert!(log.contains("said") && !log.contains("sa.key") && !log.contains("No such file"), "{log}");
        cluster.instance.stop();
    }
}
