//! Shells on nodes: the pods created for them are all removed, however the shell or its console ends (CON-3, CON-8).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use rustix::process::{Signal, kill_process};

use super::pty::Terminal;
use crate::instance::{DataDir, Instance, pause};

/// A console on the cluster of another process, in the place of the shell that starts it.
fn console(instance: &Instance) -> Terminal {
    let (binary, kubeconfig) = (env!("CARGO_BIN_EXE_podium"), instance.kubeconfig().display());
    let terminal = Terminal::run(&format!("exec {binary} console --no-restore --kubeconfig {kubeconfig}"));
    terminal.shows("1 node");
    terminal.keys(&[":"]);
    terminal.keys(&["nodes", "Enter"]);
    terminal.shows("Nodes 1");
    terminal
}

/// Opens a shell on the node under the cursor, and waits for its prompt.
fn open(terminal: &Terminal) {
    terminal.until(&["s"], "Shell on Node node-1");
    terminal.until_gone(&["Enter"], "Shell on Node node-1");
    terminal.shows("detach · f12 end");
    terminal.until(&["echo in-$((40+2)) of $(ls -d /host/proc)", "Enter"], "in-42 of /host/proc");
}

async fn shells(client: &kube::Client) -> Vec<Pod> {
    let pods: Api<Pod> = Api::all(client.clone());
    pods.list(&ListParams::default().labels("podium.dev/node-shell")).await.unwrap().items
}

/// Waits until there is this number of such pods, in these phases.
async fn until(client: &kube::Client, count: usize, phases: &[&str]) {
    for _ in 0..3000 {
        let pods = shells(client).await;
        let phase =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        if pods.len() == count && pods.iter().all(|pod| phases.contains(&phase(pod).as_str())) {
            return;
        }
        pause();
    }
    panic!("not {count} of {phases:?}: {:#?}", shells(client).await);
}

#[tokio::test]
async fn a_shell_on_a_node_leaves_no_pod_behind_con_3_con_8() {
    let home = DataDir::visible_to_containers();
    let instance = home.start(&["--nodes", "1"]);
    let client = instance.client().await;
    let terminal = console(&instance);
    open(&terminal);
    let pods = shells(&client).await;
    let spec = pods[0].spec.as_ref().unwrap();
    assert_eq!((spec.node_name.as_deref(), spec.host_pid), (Some("node-1"), Some(true)));
    // The shell ends by itself.
    terminal.keys(&["exit 3", "Enter"]);
    terminal.shows("command terminated with exit code 3");
    until(&client, 0, &[]).await;
    // The changes are in the journal, as kubectl commands.
    terminal.keys(&["Enter"]);
    terminal.shows("Nodes 1");
    terminal.keys(&["U"]);
    terminal.shows("remove the node shell's Pod default/node-debugger-node-1-");
    terminal.shows("kubectl delete pod node-debugger-node-1-");
    terminal.keys(&["j"]);
    terminal.shows("kubectl debug node/node-1 -n default -it --image=busybox --profile=sysadmin");
    terminal.keys(&["q"]);
    terminal.shows("Nodes 1");
    // It cannot start: the server's message is shown, and the pod is removed.
    terminal.until(&["s"], "Shell on Node node-1");
    terminal.keys(&["no/such:image"]);
    terminal.until_gone(&["Enter"], "Shell on Node node-1");
    terminal.shows("ErrImagePull");
    until(&client, 1, &["Pending"]).await;
    terminal.keys(&["Escape"]);
    until(&client, 0, &[]).await;
    terminal.until(&["s"], "Shell on Node node-1");
    terminal.keys(&["\t", "nowhere"]);
    terminal.until_gone(&["Enter"], "Shell on Node node-1");
    terminal.shows("namespaces \"nowhere\" not found");
    terminal.keys(&["Escape"]);
    terminal.shows("Nodes 1");
    // The console is left while a shell runs in the background.
    open(&terminal);
    terminal.keys(&["\u{1d}"]);
    terminal.shows("continues in the background");
    until(&client, 1, &["Running"]).await;
    terminal.keys(&["C-c", "C-c"]);
    until(&client, 0, &[]).await;
    instance.stop();
}

#[tokio::test]
async fn the_pod_of_a_console_that_was_killed_ends_and_the_next_console_removes_it_con_3() {
    let home = DataDir::visible_to_containers();
    let instance = home.start(&["--nodes", "1"]);
    let client = instance.client().await;
    let terminal = console(&instance);
    open(&terminal);
    kill_process(terminal.program(), Signal::KILL).unwrap();
    until(&client, 1, &["Succeeded", "Failed"]).await;
    drop(terminal);
    let terminal = console(&instance);
    terminal.shows("a killed console left");
    terminal.keys(&[":"]);
    terminal.keys(&["node-shells", "Enter"]);
    terminal.shows("on node-1: ended");
    terminal.until(&["y"], "remove the node shell's Pod");
    until(&client, 0, &[]).await;
    instance.stop();
}
