//! Copies out of a container and into it, with the keys of a user (CON-3).

use std::os::unix::fs::PermissionsExt as _;

use super::pty::Terminal;
use crate::instance::{DataDir, wait_for};

const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: box}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: box
    image: busybox
    command:
    - sh
    - -c
    - |
      mkdir -p /tmp/d/sub; head -c 300000 /dev/zero > /tmp/d/big; echo hi > /tmp/d/sub/run
      chmod 755 /tmp/d/sub/run; ln -s /etc /tmp/d/out; exec sleep 100000
";

/// Fills in the dialog: the direction, the container, both paths.
fn copy(terminal: &Terminal, direction: &str, there: &str, here: &str) {
    terminal.shows("RESTARTS");
    terminal.until(&["t"], "Copy with Pod default/box");
    terminal.keys(&[direction, "Enter", there, "\t"]);
    terminal.keys(&["\u{15}", here]);
    terminal.until_gone(&["Enter"], "Copy with Pod default/box");
}

#[test]
fn files_are_copied_out_of_a_container_and_into_it_con_3() {
    const IN: &str = "\u{1b}[C";
    let home = DataDir::visible_to_containers();
    let manifest = home.path("pod.yaml");
    std::fs::write(&manifest, POD).unwrap();
    let instance = home.start(&["--nodes", "1", "-f", manifest.to_str().unwrap()]);
    let (binary, kubeconfig) = (env!("CARGO_BIN_EXE_podium"), instance.kubeconfig().display());
    let terminal = Terminal::run(&format!("exec {binary} console --no-restore --kubeconfig {kubeconfig}"));
    terminal.shows("1 node");
    terminal.keys(&[":"]);
    terminal.keys(&["pods default", "Enter"]);
    terminal.shows("Running");
    let here = home.path("here");
    copy(&terminal, "", "/tmp/d", here.to_str().unwrap());
    terminal.shows("✔ copied to");
    terminal.shows("1 links and devices left out");
    terminal.shows("kubectl cp -n default -c box box:/tmp/d");
    assert_eq!(std::fs::metadata(here.join("big")).unwrap().len(), 300_000);
    assert_eq!(std::fs::read_to_string(here.join("sub/run")).unwrap(), "hi\n");
    assert_eq!(std::fs::metadata(here.join("sub/run")).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(std::fs::symlink_metadata(here.join("out")).is_err(), "no link is made");
    // An existing file is replaced only after confirmation.
    terminal.keys(&["Escape"]);
    std::fs::write(home.path("run"), "mine").unwrap();
    let run = home.path("run");
    copy(&terminal, "", "/tmp/d/sub/run", run.to_str().unwrap());
    terminal.shows("already exists");
    assert_eq!(std::fs::read_to_string(&run).unwrap(), "mine");
    terminal.until(&["y"], "✔ copied to");
    assert_eq!(std::fs::read_to_string(&run).unwrap(), "hi\n");
    terminal.keys(&["Escape"]);
    // A missing file leaves nothing behind.
    let none = home.path("none");
    copy(&terminal, "", "/tmp/nowhere", none.to_str().unwrap());
    terminal.shows("✖ tar in box ended with exit code");
    assert!(!none.exists());
    terminal.keys(&["Escape"]);
    // A file is copied into the container, and out again.
    std::fs::write(here.join("big"), vec![7; 200_000]).unwrap();
    copy(&terminal, IN, "/tmp/back", here.to_str().unwrap());
    terminal.shows("✔ copied to /tmp/back");
    terminal.keys(&["Escape"]);
    let again = home.path("again");
    copy(&terminal, "", "/tmp/back", again.to_str().unwrap());
    terminal.shows("✔ copied to");
    assert_eq!(std::fs::read(again.join("big")).unwrap(), vec![7; 200_000]);
    assert_eq!(std::fs::read_to_string(again.join("sub/run")).unwrap(), "hi\n");
    terminal.keys(&["Escape"]);
    // A file copied into an existing directory gets its own name, and a second copy needs confirmation; a directory is
    // not replaced.
    copy(&terminal, IN, "/tmp", run.to_str().unwrap());
    terminal.shows("✔ copied to /tmp/run");
    terminal.keys(&["Escape"]);
    copy(&terminal, IN, "/tmp", run.to_str().unwrap());
    terminal.shows("already exists");
    terminal.until(&["y"], "✔ copied to /tmp/run");
    terminal.keys(&["Escape"]);
    copy(&terminal, IN, "/tmp/sub", again.to_str().unwrap());
    terminal.shows("✔ copied to /tmp/sub");
    terminal.keys(&["Escape"]);
    // No temporary files are left, here or there.
    let names = || {
        std::fs::read_dir(home.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    wait_for("nothing beside", || {
        (!names().iter().any(|name| name.to_string_lossy().starts_with(".podium-copy"))).then_some(())
    });
    let whole = home.path("whole");
    copy(&terminal, "", "/tmp", whole.to_str().unwrap());
    terminal.shows("✔ copied to");
    let inside: Vec<_> = std::fs::read_dir(&whole).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!inside.iter().any(|name| name.to_string_lossy().starts_with(".podium-copy")), "{inside:?}");
    terminal.keys(&["Escape"]);
    // An Escape and a letter that are read together are one Alt key.
    terminal.until(&["U"], "kubectl cp -n default -c box");
    instance.stop();
}
