//! Case 05: a variable of an environment file that an init container has written.

use crate::instance::DataDir;
use crate::needs::needs;

#[test]
fn a_variable_comes_from_a_file_that_an_init_container_wrote_pod_13() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/05-file-key-ref.yaml");
    instance.kubectl(&["apply", "-f", manifest]);
    instance.kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/ef", "--timeout=60s"]);
    assert_eq!(instance.kubectl(&["logs", "ef", "-c", "c"]), "K=v\n");
}
