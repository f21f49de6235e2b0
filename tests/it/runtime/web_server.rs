//! The built-in web server as an image (IMG-2).

use std::time::Duration;

use podium::kubelet::runtime::{ContainerSpec, Mount, Runtime};

use super::node::{Node, modes, shell, soon, words};

async fn request(address: std::net::SocketAddr, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = soon("connect", async {
        loop {
            match tokio::net::TcpStream::connect(address).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// IMG-2: the built-in nginx answers on the pod's address with its version, serves its own directory or the volume
/// mounted there, and ends with exit code 0 when terminated.
#[tokio::test]
async fn nginx_is_built_in() {
    for namespaces in modes().await {
        let last = if namespaces { 71 } else { 72 };
        let mut node = Node::new(namespaces).await;
        let ip = format!("127.9.{}.{last}", std::process::id() % 250);
        let root = rustix::process::geteuid().is_root();
        let first_port = if root { 0 } else { 1024 };
        let image = |name: &str, image: &str| ContainerSpec {
            command: Vec::new(),
            image: image.to_owned(),
            env: vec![
                ("POD_IP".to_owned(), ip.clone()),
                // As the kubelet sets it on a node that may not bind lower ports.
                ("PODIUM_UNPRIVILEGED_PORT_START".to_owned(), first_port.to_string()),
            ],
            ..shell(name, "")
        };
        let web = node.start(image("web", "nginx:1.9.1")).await;
        let port = if root { 80 } else { 8080 };
        let address: std::net::SocketAddr = format!("{ip}:{port}").parse().unwrap();
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let page = request(address, &get("/")).await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("Welcome to nginx!"), "{page}");
        assert!(page.to_ascii_lowercase().contains("\r\nserver: podium (as nginx/1.9.1)\r\n"), "{page}");
        assert!(request(address, &get("/none")).await.starts_with("HTTP/1.1 404"));
        assert!(request(address, &get("/../../etc/passwd")).await.starts_with("HTTP/1.1 400"));
        let head = request(address, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        node.log_has(&web.id, "\"GET /none HTTP/1.1\" 404").await;
        let version = node.runtime.exec_sync(&web.id, words(&["nginx", "-v"]), Duration::from_mins(1));
        assert_eq!(version.await.unwrap().output, b"nginx version: podium (as nginx/1.9.1)\n");
        node.runtime.terminate_container(&web.id).await.unwrap();
        assert_eq!(node.exit(&web.id).await.exit_code, 0);

        let volume = node.directory.path().join("html");
        std::fs::create_dir(&volume).unwrap();
        let mut spec = image("own", "nginx:1.7.9");
        spec.mounts = vec![Mount {
            host_path: volume.clone(),
            container_path: "/usr/share/nginx/html".into(),
            read_only: true,
            ..Mount::default()
        }];
        let own = node.start(spec).await;
        assert!(request(address, &get("/")).await.starts_with("HTTP/1.1 403"));
        std::fs::write(volume.join("index.html"), "mine").unwrap();
        assert!(request(address, &get("/")).await.ends_with("\r\n\r\nmine"));
        node.runtime.kill_container(&own.id).await.unwrap();
        node.exit(&own.id).await;
        node.shutdown().await;
    }
}

/// IMG-2, POD-7: on SIGQUIT, the built-in nginx answers all connected clients, including those it has not accepted yet,
/// lets downloads finish, and accepts no new ones; SIGTERM ends it at once.
#[tokio::test]
async fn nginx_ends_after_those_who_have_connected() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const BIG: usize = 40_000_000;
    let mut node = Node::new(true).await;
    let volume = node.directory.path().join("html");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("index.html"), "page").unwrap();
    std::fs::write(volume.join("big"), vec![b'x'; BIG]).unwrap();
    let root = rustix::process::geteuid().is_root();
    let ip = format!("127.9.{}.73", std::process::id() % 250);
    let address: std::net::SocketAddr = format!("{ip}:{}", if root { 80 } else { 8080 }).parse().unwrap();
    let spec = ContainerSpec {
        command: Vec::new(),
        image: "nginx:1.27".to_owned(),
        env: vec![
            ("POD_IP".to_owned(), ip.clone()),
            ("PODIUM_UNPRIVILEGED_PORT_START".to_owned(), if root { "0" } else { "1024" }.to_owned()),
        ],
        mounts: vec![Mount {
            host_path: volume.clone(),
            container_path: "/usr/share/nginx/html".into(),
            read_only: true,
            ..Mount::default()
        }],
        ..shell("web", "")
    };
    let web = node.start(spec.clone()).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(request(address, &get("/")).await.ends_with("page"));

    let mut download = tokio::net::TcpStream::connect(address).await.unwrap();
    download.write_all(get("/big").as_bytes()).await.unwrap();
    let mut begin = [0; 1000];
    download.read_exact(&mut begin).await.unwrap();
    // While it is stopped, others connect and send requests; the signal arrives before it continues.
    let pid = rustix::process::Pid::from_raw(web.pid.unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(get("/").as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    node.runtime.terminate_container(&web.id).await.unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    for mut stream in waiting {
        let mut answer = String::new();
        soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("page"), "{answer}");
    }
    soon("the door to close", async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(node.record(&web.id).await.exit.is_none(), "a download is still in progress");
    let mut rest = Vec::new();
    soon("the download", download.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.len() + begin.len() > BIG, "{}", rest.len());
    assert_eq!(node.exit(&web.id).await.exit_code, 0);

    let fast = ContainerSpec { attempt: 1, stop_signal: Some(libc::SIGTERM), ..spec };
    let web = node.start(fast).await;
    assert!(request(address, &get("/")).await.ends_with("page"));
    let mut download = tokio::net::TcpStream::connect(address).await.unwrap();
    download.write_all(get("/big").as_bytes()).await.unwrap();
    download.read_exact(&mut begin).await.unwrap();
    node.runtime.terminate_container(&web.id).await.unwrap();
    assert_eq!(node.exit(&web.id).await.exit_code, 0);
    let mut rest = Vec::new();
    let _ = download.read_to_end(&mut rest).await;
    assert!(rest.len() < BIG - 1000, "cut off");
    node.shutdown().await;
}
