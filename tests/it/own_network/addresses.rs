//! `podium address`: where programs of the machine reach services and pods of one of several clusters.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use super::{Cluster, idle, needs, users, wait_for, web};

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}\n---\n";

/// Returns the cells of each line that `podium address` prints, one line for each port.
fn address(cluster: &Cluster, arguments: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.arg("address").arg("--data-dir").arg(cluster.home.data_dir()).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cells = |line: &str| {
        line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    String::from_utf8_lossy(&output.stdout).lines().skip(1).map(cells).collect()
}

fn title(at: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.contains("podium (as nginx/").then_some(text)
}

#[test]
fn each_of_several_clusters_says_where_the_machine_reaches_its_services_and_pods_net_7() {
    needs!(Kubectl);
    let Some(user) = users().into_iter().next() else { return };
    let clusters = [Cluster::start(user, ""), Cluster::start(user, "")];
    for cluster in &clusters {
        cluster.apply(&[&web("web", "node-1", ""), &idle("idle", "node-1"), SERVICE].concat());
    }
    let mut reported = Vec::new();
    for cluster in &clusters {
        cluster.ready("web");
        let of_service = address(cluster, &["svc/web"]);
        let ip = cluster.instance.kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]);
        assert_eq!(of_service.len(), 1, "{of_service:?}");
        assert_eq!(
            of_service[0][..3],
            ["service/web".to_owned(), "8080/TCP".to_owned(), format!("{ip}:8080")]
        );
        wait_for(&of_service[0][3], || title(&of_service[0][3]));
        let of_pod = address(cluster, &["pod/web"]);
        wait_for(&of_pod[0][3], || title(&of_pod[0][3]));
        // Without a name, all objects of the namespace are listed: services first.
        let all: Vec<String> = address(cluster, &[]).into_iter().map(|mut row| row.remove(0)).collect();
        assert_eq!(all, ["service/kubernetes", "service/web", "pod/idle", "pod/web"]);
        reported.push(of_service[0][3].clone());
    }
    assert_ne!(reported[0], reported[1], "each cluster has its own part of the machine's loopback");
    for cluster in clusters {
        cluster.instance.stop();
    }
}
