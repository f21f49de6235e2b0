//! Known ways out of a container: no process outlives its container, its pod or its host, in every mode that the
//! machine allows (POD-10, SAFE-3).

use podium::kubelet::runtime::{ContainerRecord, ContainerSpec, Runtime};

use crate::instance::seconds_of_its_own;
use crate::runtime::node::{Node, modes, sandbox, shell, sleeping, until};

/// A way out: its name, and a script in which `SLEEP` is a sleeper with a unique duration.
const ESCAPES: [(&str, &str); 12] = [
    ("new session", "setsid SLEEP & wait"),
    ("forked twice, all descriptors closed", "(setsid sh -c '(SLEEP) <&- >&- 2>&- &' &) ; sleep 10000"),
    ("deaf to every signal", "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE TSTP TTIN TTOU; SLEEP"),
    ("empty environment", "env -i setsid SLEEP & sleep 10000"),
    ("another name", "exec -a '[kworker/0:1]' SLEEP"),
    (
        "stopped",
        // The script stops the child only once it has become the sleeper.
        "setsid sh -c 'kill -STOP $$; :' & SLEEP & until grep -q ^sleep /proc/$!/cmdline; do :; done; kill -STOP $!; \
         sleep 10000",
    ),
    ("its parent is gone", "sh -c 'SLEEP & exit 0'; sleep 10000"),
    ("begins anew whenever it ends", "(setsid sh -c 'while :; do SLEEP; done' &) ; sleep 10000"),
    ("a crowd", "for n in 1 2 3 4 5 6 7 8 9 10; do setsid SLEEP & done; wait"),
    ("a chain", "sh -c \"sh -c \\\"sh -c 'setsid SLEEP & wait'; :\\\"; :\" ; sleep 10000"),
    ("zombies beside it", "sh -c 'for n in 1 2 3 4 5 6 7 8 9 10; do : & done; exec sleep 10000' & SLEEP"),
    (
        "namespaces of its own, or none",
        "unshare --user --map-root-user --pid --fork SLEEP 2>/dev/null || SLEEP",
    ),
];

/// A way out, and the sleep duration of its process, which identifies it.
struct EscapeRoute {
    name: &'static str,
    script: String,
    seconds: u32,
}

impl EscapeRoute {
    fn all() -> Vec<Self> {
        let way = |(name, script): &(&'static str, &str)| {
            let seconds = seconds_of_its_own();
            Self { name, script: script.replace("SLEEP", &format!("sleep {seconds}")), seconds }
        };
        ESCAPES.iter().map(way).collect()
    }

    /// A container that tries this way.
    fn container(&self, pod: &str) -> ContainerSpec {
        let id = format!("way-{}", self.seconds);
        let mut spec = ContainerSpec { pod_uid: pod.to_owned(), ..shell(&id, &self.script) };
        // `exec -a` needs bash.
        spec.command[0] = "bash".into();
        spec.image = "host".into();
        spec
    }

    async fn out(&self, node: &Node, pod: &str) -> ContainerRecord {
        let record = node.start(self.container(pod)).await;
        until(self.name, || self.survivors() > 0).await;
        record
    }

    fn survivors(&self) -> usize {
        sleeping(self.seconds)
    }
}

/// Processes that try to outlive their container are killed with it.
#[tokio::test]
async fn no_way_out_survives_its_container_pod_10() {
    for namespaces in modes().await {
        let mut node = Node::new(namespaces).await;
        for way in EscapeRoute::all() {
            let record = way.out(&node, "pod").await;
            node.runtime.kill_container(&record.id).await.unwrap();
            node.exit(&record.id).await;
            until(&format!("{}, namespaces: {namespaces}", way.name), || way.survivors() == 0).await;
        }
        node.shutdown().await;
    }
}

/// The same when a pod with all of them is stopped, and when the host ends.
#[tokio::test]
async fn no_way_out_survives_its_pod_or_its_host_pod_10_safe_3() {
    for namespaces in modes().await {
        let node = Node::new(namespaces).await;
        let ways = EscapeRoute::all();
        let all = || ways.iter().map(EscapeRoute::survivors).sum::<usize>();
        for way in &ways {
            way.out(&node, "pod").await;
        }
        node.runtime.stop_sandbox(&"pod".to_owned()).await.unwrap();
        assert_eq!(all(), 0, "of a stopped pod, namespaces: {namespaces}");

        node.runtime.run_sandbox(sandbox("other")).await.unwrap();
        for way in &ways {
            way.out(&node, "other").await;
        }
        let host = rustix::process::Pid::from_raw(node.host_pid()).unwrap();
        rustix::process::kill_process(host, rustix::process::Signal::KILL).unwrap();
        until("everything is gone with the host", || all() == 0).await;
    }
}
