//! `podium-lab simulate --controller`: a correct controller passes, and a wrong one does not (FAULT-3).

use std::process::{Command, Output};

use super::needs::needs;
use super::processes::HostDirectory;

/// Copies each config map with the label, and deletes copies of deleted originals; works from any state.
const RIGHT: &str = r#"
while true; do
  all=" $(kubectl get cm -o 'jsonpath={.items[*].metadata.name}') "
  for name in $(kubectl get cm -l copy=me -o 'jsonpath={.items[*].metadata.name}'); do
    case "$all" in *" $name-copy "*) continue ;; esac
    kubectl create cm "$name-copy" --from-literal=of=$name
  done
  for name in $all; do
    original=${name%-copy}
    case "$all" in *" $original "*) continue ;; esac
    kubectl delete cm "$name" --wait=false
  done
  sleep 0.3
done
"#;

/// Copies each config map with the label under a random name, and remembers the copied ones only in memory.
const WRONG: &str = r#"
made=" "
while true; do
  for name in $(kubectl get cm -l copy=me -o name); do
    case "$made" in *" $name "*) continue ;; esac
    printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"copy-","labels":{"copy-of":"%s"}}}' "${name#configmap/}" |
      kubectl create -f - && made="$made$name "
  done
  all=$(kubectl get cm -o 'jsonpath= {.items[*].metadata.name} ')
  for name in $(kubectl get cm -l copy-of -o 'jsonpath={.items[*].metadata.labels.copy-of}'); do
    case "$all" in *" $name "*) ;; *) kubectl delete cm -l "copy-of=$name" --wait=false ;; esac
  done
  sleep 0.3
done
"#;

/// The output and the exit code of a controller's trial.
fn tried(script: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let home = HostDirectory::new();
    let [controller, manifest] = ["controller.sh", "one.yaml"].map(|name| home.path().join(name));
    std::fs::write(&controller, script).unwrap();
    let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default, labels: {copy: me}}\ndata: {x: why}\n";
    std::fs::write(&manifest, one).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium-lab"));
    command.args(["simulate", "--quiet-period", "4s", "--apply"]).arg(&manifest);
    command.arg("--controller").arg(format!("exec sh {}", controller.display())).args(arguments);
    let Output { status, stdout, stderr } = command.env("HOME", home.path()).output().unwrap();
    let output = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output, status.code())
}

#[test]
fn a_correct_controller_reaches_the_same_state_under_all_disturbances_fault_3() {
    needs!(Kubectl);
    let (output, code) = tried(RIGHT, &["--seed", "1", "--seeds", "2"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("seed 2: 0 differences"), "{output}");
}

#[test]
fn a_controller_that_forgets_what_it_has_made_is_found_fault_3() {
    needs!(Kubectl);
    // It never recovers, however long the trial waits.
    let (output, code) = tried(WRONG, &["--seed", "1", "--no-shrink", "--recovery-timeout", "30s"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("ConfigMap default/copy-*: 2 objects, expected 1"), "{output}");
    assert!(output.contains("the controller is killed after its write"), "{output}");
}

#[test]
fn a_trial_says_what_it_lacks_fault_3_cli_1() {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_podium-lab")).arg("simulate").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, output) = run(&["--controller", "true"]);
    assert!(code == Some(2) && output.contains("--apply"), "{output}");
    let (code, output) = run(&["--controller", "true", "--apply", "/nowhere.yaml"]);
    assert!(code == Some(1) && output.contains("/nowhere.yaml"), "{output}");
}
