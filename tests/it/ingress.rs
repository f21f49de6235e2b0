//! Ingresses as users see them: curl and raw sockets connect to a real instance, and the test's own servers are behind
//! it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use crate::instance::{DataDir, Instance, WAIT_TIMEOUT, wait_for};
use crate::needs::needs;

/// A server that answers each connection as the test defines, given the head of the request.
pub(crate) fn backend(answer: impl Fn(TcpStream, String) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    // Ends with the test's process.
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
                let head = head(&stream);
                if !head.is_empty() {
                    answer(stream, head);
                }
            });
        }
    });
    port
}

/// The text before the first empty line; everything that was read if there is none.
fn head(mut stream: &TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

pub(crate) fn whole(mut stream: &TcpStream, body: &str) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// A service with ports of this machine as endpoints.
pub(crate) fn service(name: &str, ports: &[u16]) -> String {
    use std::fmt::Write;
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n"
    );
    for (n, port) in ports.iter().enumerate() {
        write!(
            text,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: {name}-{n}, labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: IPv4\n\
             ports: [{{name: '', port: {port}}}]\nendpoints: [{{addresses: ['127.0.0.1']}}]\n"
        )
        .unwrap();
    }
    text + "---\n"
}

/// An Ingress of one host and service.
fn ingress(name: &str, host: &str, service: &str, annotations: &str, tls: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
         spec:\n  tls: [{tls}]\n  rules:\n  - host: {host}\n    http:\n      paths:\n      - path: /\n        pathType: \
         Prefix\n        backend: {{service: {{name: {service}, port: {{number: 80}}}}}}\n---\n"
    )
}

struct IngressInstance {
    home: DataDir,
    instance: Instance,
    http: u16,
    https: u16,
}

impl IngressInstance {
    /// Starts an instance, applies manifests and waits until their Ingresses are served.
    fn start(manifests: &str) -> Self {
        let home = DataDir::new();
        let config = home.path("config.yaml");
        std::fs::write(&config, "ingress: {httpPort: 0, httpsPort: 0}\n").unwrap();
        let instance = home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()]);
        let mut served = Self { home, instance, http: 0, https: 0 };
        served.apply(manifests);
        let ports = "jsonpath={.items[0].status.loadBalancer.ingress[0].ports[*].port}";
        (served.http, served.https) = wait_for("the ingress is served", || {
            let text = served.instance.kubectl(&["get", "ingress", "-o", ports]);
            let (http, https) = text.split_once(' ')?;
            Some((http.parse().ok()?, https.parse().ok()?))
        });
        served
    }

    fn apply(&self, manifests: &str) {
        self.instance.apply(manifests);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        stream
    }

    /// Returns the whole response to these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, host: &str, path: &str) -> String {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    }

    /// Waits until a response has this status.
    fn wait_for_status(&self, host: &str, status: &str) {
        wait_for(&format!("{host} answers {status}"), || {
            self.get(host, "/").starts_with(&format!("HTTP/1.1 {status}")).then_some(())
        });
    }

    fn events(&self) -> String {
        self.instance.kubectl(&[
            "get",
            "events",
            "-o",
            "jsonpath={range .items[*]}{.reason}: {.message}{'\\n'}{end}",
        ])
    }

    /// curl's output for a host's root over TLS, with the certificate that it must trust.
    fn curl(&self, host: &str, authority: &str, arguments: &[&str]) -> Result<String, String> {
        let path = self.home.path("authority.pem");
        std::fs::write(&path, authority).unwrap();
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "30", "--resolve", &format!("{host}:{}:127.0.0.1", self.https)])
            .args(["--noproxy", "*", "--cacert", path.to_str().unwrap()])
            .args(arguments)
            .arg(format!("https://{host}:{}/", self.https))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

/// A certificate for a host, and its key.
pub(crate) fn certificate(host: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![host.into()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

pub(crate) fn secret(name: &str, (certificate, key): &(String, String)) -> String {
    let indented = |text: &str| text.replace('\n', "\n    ");
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\ntype: kubernetes.io/tls\nstringData:\n  tls.crt: |\n    \
         {}\n  tls.key: |\n    {}\n---\n",
        indented(certificate),
        indented(key)
    )
}

#[test]
fn requests_reach_the_service_of_their_host_and_sockets_are_open_while_there_is_one_net_9() {
    needs!(Kubectl);
    let echo = backend(|stream, head| whole(&stream, &head));
    let served =
        IngressInstance::start(&(service("echo", &[echo]) + &ingress("i", "a.example.com", "echo", "", "")));
    let listed = served.instance.kubectl(&["get", "ingress"]);
    assert!(listed.contains("podium") && listed.contains("127.0.0.1"), "{listed}");
    served.wait_for_status("a.example.com", "200");
    let answer = served.raw(
        b"GET /x?y=%20 HTTP/1.1\r\nHost: A.example.com:8080\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close, x-own\r\n\
          X-Own: 1\r\n\r\n",
    );
    let seen = answer.to_ascii_lowercase();
    for part in [
        "get /x?y=%20 http/1.1\r\n", "host: a.example.com:8080\r\n", "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: http\r\n",
    ] {
        assert!(seen.contains(part), "{part}: {answer}");
    }
    assert!(!seen.contains("x-own") && !seen.contains("6.6.6.6"), "{answer}");
    let missing = served.get("b.example.com", "/");
    assert!(missing.starts_with("HTTP/1.1 404") && missing.ends_with("default backend - 404"), "{missing}");

    served.instance.kubectl(&["delete", "ingress", "i"]);
    wait_for("the port to close", || TcpStream::connect(("127.0.0.1", served.http)).err());
    served.apply(&ingress("i", "a.example.com", "echo", "", ""));
    let again = wait_for("it is served again", || {
        let port = "jsonpath={.items[0].status.loadBalancer.ingress[0].ports[0].port}";
        served.instance.kubectl(&["get", "ingress", "-o", port]).parse::<u16>().ok()
    });
    assert!(TcpStream::connect(("127.0.0.1", again)).is_ok());
    served.instance.stop();
}

#[test]
fn hosts_have_their_certificates_and_a_changed_secret_is_in_force_at_once_net_9() {
    needs!(Kubectl);
    needs!(Curl);
    let echo = backend(|stream, head| whole(&stream, &head));
    let (first, second) = (certificate("a.example.com"), certificate("a.example.com"));
    let tls = "{hosts: [a.example.com], secretName: tls}, {hosts: [b.example.com], secretName: missing}";
    let off = "nginx.ingress.kubernetes.io/ssl-redirect: 'false'";
    let served = IngressInstance::start(
        &(service("echo", &[echo])
            + &secret("tls", &first)
            + &ingress("i", "a.example.com", "echo", "", tls)
            + &ingress("j", "b.example.com", "echo", off, "")),
    );
    for version in ["--http1.1", "--http2"] {
        let answer =
            wait_for("an answer over TLS", || served.curl("a.example.com", &first.0, &[version]).ok());
        assert!(answer.contains("x-forwarded-proto: https"), "{answer}");
    }
    let refused = served.curl("b.example.com", &first.0, &[]).unwrap_err();
    assert!(refused.contains("certificate"), "the default certificate names no host: {refused}");
    let redirect = served.get("a.example.com", "/x?y=1");
    let location = format!("location: https://a.example.com:{}/x?y=1\r\n", served.https);
    assert!(redirect.starts_with("HTTP/1.1 308") && redirect.contains(&location), "{redirect}");
    assert!(served.get("b.example.com", "/").starts_with("HTTP/1.1 200"), "switched off");
    wait_for("the missing secret to be reported", || {
        served.events().contains("secret \"default/missing\" not found").then_some(())
    });

    served.apply(&secret("tls", &second));
    wait_for("the new certificate", || served.curl("a.example.com", &second.0, &[]).ok());
    assert!(served.curl("a.example.com", &first.0, &[]).is_err(), "the old one is gone");
    served.instance.stop();
}

#[test]
fn each_failure_of_an_endpoint_has_its_own_status_net_9() {
    needs!(Kubectl);
    let good = backend(|stream, _| whole(&stream, "good"));
    let silent = backend(|mut stream, _| drop(stream.read(&mut [0; 16])));
    let nonsense = backend(|mut stream, _| drop(stream.write_all(b"nonsense\r\n\r\n")));
    let half = backend(|mut stream, _| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"));
    });
    // No server listens there: the port was bound, and is not any more.
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let late = "nginx.ingress.kubernetes.io/proxy-read-timeout: '1'";
    let small = "nginx.ingress.kubernetes.io/proxy-body-size: 8k, nginx.ingress.kubernetes.io/auth-url: x";
    let served = IngressInstance::start(
        &(service("mixed", &[refusing, good])
            + &service("refusing", &[refusing])
            + &service("none", &[])
            + &service("silent", &[silent])
            + &service("nonsense", &[nonsense])
            + &service("half", &[half])
            + &ingress("mixed", "mixed", "mixed", small, "")
            + &ingress("refusing", "refusing", "refusing", "", "")
            + &ingress("none", "none", "none", "", "")
            + &ingress("gone", "gone", "gone", "", "")
            + &ingress("silent", "silent", "silent", late, "")
            + &ingress("nonsense", "nonsense", "nonsense", "", "")
            + &ingress("half", "half", "half", "", "")),
    );
    served.wait_for_status("half", "200");
    for _ in 0..4 {
        assert!(served.get("mixed", "/").ends_with("good"), "the next endpoint is asked");
    }
    for (host, status) in
        [("refusing", "502"), ("none", "503"), ("gone", "503"), ("nonsense", "502"), ("silent", "504")]
    {
        let answer = served.get(host, "/");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    let broken = served.get("half", "/");
    assert!(
        broken.starts_with("HTTP/1.1 200") && !broken.ends_with("0\r\n\r\n"),
        "half is not whole: {broken}"
    );
    let large = b"POST / HTTP/1.1\r\nHost: mixed\r\nContent-Length: 8193\r\n\r\n";
    assert!(served.raw(large).starts_with("HTTP/1.1 413"));
    let events = wait_for("all problems to be reported", || {
        let events = served.events();
        let all =
            ["service \"default/gone\" not found", "nginx.ingress.kubernetes.io/auth-url is not supported"];
        all.iter().all(|part| events.contains(part)).then_some(events)
    });
    assert_eq!(events.matches("auth-url").count(), 1, "{events}");
    served.instance.stop();
}

#[test]
fn bodies_stream_both_ways_and_connections_are_upgraded_net_9() {
    needs!(Kubectl);
    // Answers each line as soon as it arrives, in either protocol.
    let lines = backend(|mut stream, head| {
        let is_upgrade = head.to_ascii_lowercase().contains("upgrade: echo");
        let reply: &[u8] = if is_upgrade {
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
        } else {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        };
        stream.write_all(reply).unwrap();
        let mut bytes = [0; 256];
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            let end = bytes[..read].ends_with(b"0\r\n\r\n");
            let length = if is_upgrade { String::new() } else { format!("{read:x}\r\n") };
            let mut answer = [length.as_bytes(), &bytes[..read]].concat();
            if !is_upgrade {
                answer.extend_from_slice(if end { b"\r\n0\r\n\r\n" } else { b"\r\n" });
            }
            if stream.write_all(&answer).is_err() || end {
                return;
            }
        }
    });
    let served =
        IngressInstance::start(&(service("lines", &[lines]) + &ingress("i", "lines", "lines", "", "")));
    wait_for("it is served", || {
        let mut stream = served.connect();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: lines\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            .unwrap();
        let head = head(&stream);
        let is_switched =
            head.starts_with("HTTP/1.1 101") && head.to_ascii_lowercase().contains("upgrade: echo");
        if !is_switched {
            return None;
        }
        for word in [b"one", b"two"] {
            stream.write_all(word).unwrap();
            let mut echoed = [0; 3];
            stream.read_exact(&mut echoed).unwrap();
            assert_eq!(&echoed, word);
        }
        Some(())
    });

    let mut stream = served.connect();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: lines\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let response = head(&stream);
    assert!(response.starts_with("HTTP/1.1 200"), "before the request's body has ended: {response}");
    for word in ["first", "again"] {
        stream.write_all(format!("5\r\n{word}\r\n").as_bytes()).unwrap();
        let mut seen = String::new();
        while !seen.contains(word) {
            let mut bytes = [0; 64];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    served.instance.stop();
}

/// A server of HTTP/2 without TLS that responds as gRPC does: with the request's data, and the status in the trailers.
fn grpc_backend() -> u16 {
    use futures::TryStreamExt;
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::{Bytes, Frame, Incoming};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let answer = |request: http::Request<Incoming>| async move {
        let (parts, body) = request.into_parts();
        let te = parts.headers.get("te").and_then(|te| te.to_str().ok()).unwrap_or("none");
        let summary = format!("{:?} {} te={te} ", parts.version, parts.uri);
        let body = body.into_data_stream().map_ok(Frame::data);
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let first = futures::stream::iter([Ok(Frame::data(Bytes::from(summary)))]);
        let last = futures::stream::iter([Ok(Frame::trailers(trailers))]);
        let frames = futures::StreamExt::chain(futures::StreamExt::chain(first, body), last);
        Ok::<_, hyper::Error>(http::Response::new(StreamBody::new(frames)))
    };
    // Ends with the test's process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let service = hyper::service::service_fn(answer);
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
    });
    port
}

#[test]
fn grpc_goes_through_with_its_trailers_net_9() {
    needs!(Kubectl);
    needs!(Curl);
    let protocol = "nginx.ingress.kubernetes.io/backend-protocol: GRPC";
    let served = IngressInstance::start(
        &(service("g", &[grpc_backend()]) + &ingress("i", "g.example.com", "g", protocol, "")),
    );
    served.wait_for_status("g.example.com", "200");
    let output = Command::new("curl")
        .args(["-sS", "-i", "--max-time", "30", "--noproxy", "*", "--http2-prior-knowledge"])
        .args(["-H", "host: g.example.com", "-H", "te: trailers", "-H", "content-type: application/grpc"])
        .args(["--data-binary", "called"])
        .arg(format!("http://127.0.0.1:{}/pkg.Service/Method", served.http))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("HTTP/2 200"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("HTTP/2.0 http://g.example.com/pkg.Service/Method te=trailers called"), "{text}");
    assert!(text.contains("grpc-status: 0"), "{text}");
    served.instance.stop();
}

/// Holds connections open, as servers of HTTP/1.1 do, and closes each without a response when its second request comes.
#[test]
fn a_connection_that_its_endpoint_closes_is_nobodys_failure_net_9() {
    needs!(Kubectl);
    let closing = backend(|mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        head(&stream);
    });
    let served = IngressInstance::start(&(service("c", &[closing]) + &ingress("i", "c", "c", "", "")));
    served.wait_for_status("c", "200");
    for _ in 0..20 {
        let answer = served.get("c", "/");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }
    served.instance.stop();
}

#[test]
fn malformed_requests_to_an_ingress_are_rejected_without_affecting_others_net_9_sec_2() {
    needs!(Kubectl);
    let echo = backend(|stream, head| whole(&stream, &head));
    let served = IngressInstance::start(&(service("echo", &[echo]) + &ingress("i", "a", "echo", "", "")));
    served.wait_for_status("a", "200");
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: a\r\n".repeat(1000));
    for (bytes, status) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\nConnection: close\r\n\r\n", "400"),
        ("GET /../x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400"),
        ("GET /x/..%2fy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "400"),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "405"),
        (&endless, "431"),
        (&many, "431"),
    ] {
        let answer = served.raw(bytes.as_bytes());
        let shown: String = bytes.chars().take(80).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown:?}: {answer}");
    }
    // The endpoint sees one end of the body, the same as the proxy, and no second request results from it.
    let two = served.raw(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
          0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert!(two.contains("transfer-encoding: chunked") && !two.contains("content-length: 5"), "{two}");
    assert!(!two.contains("smuggled"), "{two}");
    // Idle connections take no permits.
    let idle: Vec<TcpStream> = (0..500).map(|_| served.connect()).collect();
    assert!(served.get("a", "/").starts_with("HTTP/1.1 200"));
    drop(idle);
    served.instance.stop();
}

#[test]
fn an_occupied_ingress_port_is_replaced_and_other_machines_have_no_access_net_9_sec_1() {
    needs!(Kubectl);
    let home = DataDir::new();
    let config = home.path("config.yaml");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    std::fs::write(&config, format!("ingress: {{httpPort: {port}, httpsPort: 0}}\n")).unwrap();
    let instance = home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()]);
    instance.apply(&(service("a", &[]) + &ingress("i", "a", "a", "", "")));
    let events = wait_for("the taken port to be reported", || {
        let events = instance.kubectl(&["get", "events"]);
        events.contains("PortMoved").then_some(events)
    });
    assert!(events.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{events}");
    instance.stop();

    std::fs::write(&config, "ingress: {address: 0.0.0.0}\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_podium"))
        .args(["serve", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .arg("--data-dir")
        .arg(home.path("other"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("0.0.0.0") && text.contains("--expose"), "{text}");
}
