//! The Gateway API as users see it: definitions are applied, curl and raw sockets connect to a real instance, and the
//! test's own servers are behind it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ingress::{backend, certificate, secret, service, whole};
use crate::instance::{DataDir, Instance, WAIT_TIMEOUT, wait_for};
use crate::needs::needs;

/// The kinds, without validation, because Podium must handle objects that the real definitions refuse.
const KINDS: [(&str, &str, &str); 4] = [
    ("GatewayClass", "gatewayclasses", "Cluster"),
    ("Gateway", "gateways", "Namespaced"),
    ("HTTPRoute", "httproutes", "Namespaced"),
    ("ReferenceGrant", "referencegrants", "Namespaced"),
];

fn definitions() -> String {
    let one = |(kind, plural, scope): (&str, &str, &str)| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
             metadata:\n  name: {plural}.gateway.networking.k8s.io\n  annotations: {{api-approved.kubernetes.io: https://github.com/kubernetes-sigs/gateway-api/pull/1}}\n\
             spec:\n  group: gateway.networking.k8s.io\n  scope: {scope}\n  names: {{kind: {kind}, plural: {plural}}}\n  \
             versions:\n  - name: v1\n    served: true\n    storage: true\n    subresources: {{status: {{}}}}\n    \
             schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n---\n"
        )
    };
    KINDS.map(one).concat()
}

/// Returns an address and a port that no other test has, nor another run on this machine.
fn place() -> (String, u16) {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let (pid, turn) = (std::process::id(), TURN.fetch_add(1, Ordering::Relaxed));
    let port = 20_000 + (pid as usize * 10 + turn * 3) % 9_990;
    (format!("127.0.0.{}", 2 + pid % 250), u16::try_from(port).unwrap())
}

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
    )
}

/// A Gateway at an address.
fn gateway(name: &str, address: &str, listeners: &str) -> String {
    let addresses = format!("[{{type: IPAddress, value: {address}}}]");
    let spec = format!("{{gatewayClassName: podium, addresses: {addresses}, listeners: [{listeners}]}}");
    object("Gateway", name, &spec)
}

/// A route of Gateway `g` for a host.
fn route(name: &str, host: &str, rules: &str) -> String {
    object(
        "HTTPRoute",
        name,
        &format!("{{parentRefs: [{{name: g}}], hostnames: ['{host}'], rules: [{rules}]}}"),
    )
}

struct GatewayInstance {
    home: DataDir,
    instance: Instance,
    address: String,
    port: u16,
}

impl GatewayInstance {
    /// An instance with the definitions installed, and the place that its Gateway may have.
    fn start() -> Self {
        let home = DataDir::new();
        let config = home.path("config.yaml");
        std::fs::write(&config, "ingress: {httpPort: 0, httpsPort: 0}\n").unwrap();
        let instance = home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()]);
        let (address, port) = place();
        let served = Self { home, instance, address, port };
        served.install();
        served
    }

    fn install(&self) {
        self.apply(&definitions());
        wait_for("the class is accepted", || {
            let output = self.instance.kubectl_output(&["get", "gatewayclass", "podium", "-o", "yaml"]);
            String::from_utf8_lossy(&output.stdout).contains("reason: Accepted").then_some(())
        });
    }

    fn apply(&self, manifests: &str) {
        self.instance.apply(manifests);
    }

    /// Formats conditions as `Accepted=True:Accepted`: of a Gateway's listeners, or of a route's parents.
    fn conditions(&self, what: &str, path: &str) -> String {
        let each = "{range .conditions[*]}{.type}={.status}:{.reason} {.message};{end}";
        let path = format!("jsonpath={{range {path}[*]}}{each}{{'\\n'}}{{end}}");
        let arguments: Vec<&str> = ["get"].into_iter().chain(what.split(' ')).chain(["-o", &path]).collect();
        self.instance.kubectl(&arguments)
    }

    fn wait_for_condition(&self, what: &str, path: &str, part: &str) {
        wait_for(&format!("{what} says {part}"), || self.conditions(what, path).contains(part).then_some(()));
    }

    /// The whole response to these bytes; empty if no server listens.
    fn raw(&self, bytes: &[u8]) -> String {
        let Ok(mut stream) = TcpStream::connect((self.address.as_str(), self.port)) else {
            return String::new();
        };
        stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, host: &str, path: &str) -> String {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
    }

    fn wait_for_answer(&self, host: &str, path: &str, part: &str) -> String {
        wait_for(&format!("{host}{path} answers {part}"), || {
            Some(self.get(host, path)).filter(|answer| answer.contains(part))
        })
    }
}

#[test]
fn httproutes_are_served_as_long_as_their_definitions_are_installed_net_9() {
    needs!(Kubectl);
    let echo =
        |name: &'static str| backend(move |stream, head| whole(&stream, &format!("from {name}\n{head}")));
    let served = GatewayInstance::start();
    let (seen, copies) = std::sync::mpsc::channel();
    let seen = std::sync::Mutex::new(seen);
    let mirror = backend(move |mut stream, head| {
        let mut body = [0; 5];
        let _ = stream.read_exact(&mut body);
        let _ = seen.lock().unwrap().send((head, String::from_utf8_lossy(&body).into_owned()));
        whole(&stream, "this response is discarded");
    });
    let silent = backend(|mut stream, _| drop(stream.read(&mut [0; 16])));
    let to = |name: &str| format!("backendRefs: [{{name: {name}, port: 80}}]");
    let header = "{matches: [{headers: [{name: env, value: canary}]}], backendRefs: [{name: b, port: 80}]}";
    let rewrite = "filters: [{type: URLRewrite, urlRewrite: {hostname: in.test, path: {type: ReplacePrefixMatch, \
        replacePrefixMatch: /new}}}, {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: a}], \
        remove: [x-gone]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: x-back, value: b}]}}]";
    let rules = [
        format!("{{{}}}", to("a")),
        header.into(),
        format!("{{matches: [{{path: {{value: /old}}}}], {rewrite}, {}}}", to("a")),
        "{matches: [{path: {value: /go}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: else.test, \
            statusCode: 301}}]}"
            .into(),
        format!(
            "{{matches: [{{path: {{value: /copy}}}}], filters: [{{type: RequestMirror, requestMirror: {{backendRef: \
             {{name: mirror, port: 80}}}}}}], {}}}",
            to("a")
        ),
        format!("{{matches: [{{path: {{value: /late}}}}], timeouts: {{request: 300ms}}, {}}}", to("silent")),
        format!("{{matches: [{{path: {{value: /none}}}}], {}}}", to("gone")),
        "{matches: [{path: {value: /split}}], backendRefs: [{name: a, port: 80, weight: 3}, {name: b, port: 80, weight: 1}]}"
            .into(),
    ];
    let manifests = [
        service("a", &[echo("a")]),
        service("b", &[echo("b")]),
        service("mirror", &[mirror]),
        service("silent", &[silent]),
        gateway("g", &served.address, &format!("{{name: http, port: {}, protocol: HTTP}}", served.port)),
        route("r", "*.r.test", &rules.join(", ")),
    ]
    .concat();
    served.apply(&manifests);
    served.wait_for_condition(
        "gateway g",
        ".status.listeners",
        "Programmed=True:Programmed served at http://",
    );
    let answer = served.wait_for_answer("x.r.test", "/y?z=1", "from a\n");
    assert!(answer.contains("GET /y?z=1 HTTP/1.1\r\nhost: x.r.test\r\n"), "{answer}");
    assert!(served.get("r.test", "/").starts_with("HTTP/1.1 404"), "a star is a label at least");
    let canary = b"GET / HTTP/1.1\r\nHost: a.b.r.test\r\nEnv: canary\r\nConnection: close\r\n\r\n";
    assert!(served.raw(canary).contains("from b\n"));
    let old = b"GET /old/x?y HTTP/1.1\r\nHost: x.r.test\r\nX-Gone: 1\r\nConnection: close\r\n\r\n";
    let answer = served.raw(old);
    for part in [
        "x-back: b\r\n", "GET /new/x?y HTTP/1.1\r\n", "host: in.test\r\n", "x-set: a\r\n",
        "x-forwarded-host: x.r.test\r\n",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(!answer.contains("x-gone"), "{answer}");
    let answer = served.get("x.r.test", "/go/on?a");
    let location = format!("location: http://else.test:{}/go/on?a\r\n", served.port);
    assert!(answer.starts_with("HTTP/1.1 301") && answer.contains(&location), "{answer}");
    let copied =
        b"POST /copy HTTP/1.1\r\nHost: x.r.test\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    assert!(served.raw(copied).contains("from a\n"));
    let (head, body) = copies.recv_timeout(WAIT_TIMEOUT).unwrap();
    assert!(head.starts_with("POST /copy HTTP/1.1\r\n") && body == "hello", "{head}{body}");
    assert!(served.get("x.r.test", "/late").starts_with("HTTP/1.1 504"));
    assert!(served.get("x.r.test", "/none").starts_with("HTTP/1.1 500"));
    let of_b = (0..40).filter(|_| served.get("x.r.test", "/split").contains("from b\n")).count();
    assert!((8..=12).contains(&of_b), "{of_b} of 40");
    served.wait_for_condition("httproute r", ".status.parents", "ResolvedRefs=False:BackendNotFound");
    let shown = served.instance.kubectl(&["get", "gateway", "g", "-o", "jsonpath={.status}"]);
    assert!(shown.contains(r#""attachedRoutes":1"#) && shown.contains(&served.address), "{shown}");

    // The port is open as long as a listener uses it.
    let refusal = || TcpStream::connect((served.address.as_str(), served.port)).err();
    served.instance.kubectl(&["delete", "gatewayclass", "podium"]);
    wait_for("the port to close without the class", refusal);
    let conditions = "jsonpath={.status.conditions[*].reason}";
    wait_for("the Gateway says so", || {
        (served.instance.kubectl(&["get", "gateway", "g", "-o", conditions]) == "Pending Pending")
            .then_some(())
    });
    served.apply(&object("GatewayClass", "podium", "{controllerName: podium.dev/gateway}"));
    served.wait_for_answer("x.r.test", "/", "from a\n");
    served.instance.kubectl(&["delete", "crd", "gateways.gateway.networking.k8s.io"]);
    wait_for("the port to close", refusal);
    let parents = || served.conditions("httproute r", ".status.parents");
    wait_for("the route has no parents", || parents().is_empty().then_some(()));
    served.install();
    served.apply(&manifests);
    served.wait_for_answer("x.r.test", "/", "from a\n");
    served.instance.stop();
}

#[test]
fn gateways_speak_tls_and_name_only_what_they_may_net_9() {
    needs!(Kubectl);
    needs!(Curl);
    let echo = backend(|stream, head| whole(&stream, &head));
    let served = GatewayInstance::start();
    let (one, other) = (certificate("a.test"), certificate("b.test"));
    let listener = |name: &str, host: &str, secret: &str| {
        format!(
            "{{name: {name}, port: {}, protocol: HTTPS, hostname: {host}, tls: {{certificateRefs: [{secret}]}}}}",
            served.port
        )
    };
    let listeners =
        [listener("a", "a.test", "{name: one}"), listener("b", "b.test", "{name: other, namespace: away}")]
            .join(", ");
    let in_away =
        |text: &str| text.replace("metadata: {name: other}", "metadata: {name: other, namespace: away}");
    served.apply(
        &[
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: away}\n---\n".into(),
            service("echo", &[echo]),
            secret("one", &one),
            in_away(&secret("other", &other)),
            gateway("g", &served.address, &listeners),
            object(
                "HTTPRoute",
                "r",
                "{parentRefs: [{name: g}], rules: [{backendRefs: [{name: echo, port: 80}]}]}",
            ),
        ]
        .concat(),
    );
    let curl = |host: &str, authority: &str, more: &[&str]| {
        let path = served.home.path("authority.pem");
        std::fs::write(&path, authority).unwrap();
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "30", "--noproxy", "*", "--cacert", path.to_str().unwrap(), "-i"])
            .args(["--resolve", &format!("{host}:{}:{}", served.port, served.address)])
            .args(more)
            .arg(format!("https://{host}:{}/", served.port))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for version in ["--http1.1", "--http2"] {
        wait_for("an answer over TLS", || {
            curl("a.test", &one.0, &[version]).contains("x-forwarded-proto: https").then_some(())
        });
    }
    // A connection made for one listener's host cannot be used for another's.
    let misdirected = curl("a.test", &one.0, &["-H", "host: else.test"]);
    assert!(misdirected.contains(" 404"), "{misdirected}");
    served.wait_for_condition("gateway g", ".status.listeners", "ResolvedRefs=False:RefNotPermitted");
    assert!(curl("b.test", &other.0, &[]).is_empty());
    let grant = object(
        "ReferenceGrant",
        "g",
        "{from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: default}], to: [{group: '', kind: Secret}]}",
    );
    served.apply(&grant.replace("{name: g}", "{name: g, namespace: away}"));
    wait_for("the other certificate", || curl("b.test", &other.0, &[]).contains("HTTP/").then_some(()));
    let misdirected = curl("a.test", &one.0, &["-H", "host: b.test"]);
    assert!(misdirected.contains(" 421"), "{misdirected}");
    // A changed Secret is in force at once.
    let next = certificate("a.test");
    served.apply(&secret("one", &next));
    wait_for("the new certificate", || curl("a.test", &next.0, &[]).contains("HTTP/").then_some(()));
    served.instance.stop();
}

#[test]
fn an_occupied_port_is_reported_and_hostile_resources_affect_no_others_net_9_sec_2() {
    needs!(Kubectl);
    let echo = Arc::new(backend(|stream, head| whole(&stream, &head)));
    let served = GatewayInstance::start();
    let taken = TcpListener::bind((served.address.as_str(), served.port + 1)).unwrap();
    let listeners = format!(
        "{{name: http, port: {}, protocol: HTTP}}, {{name: taken, port: {}, protocol: HTTP}}, {{name: udp, port: 53, protocol: \
         UDP}}",
        served.port,
        served.port + 1
    );
    let matches = vec!["{path: {value: /x}}"; 2000].join(", ");
    let patterns = vec!["{path: {type: RegularExpression, value: 'a{1000}{1000}'}}"; 90].join(", ");
    served.apply(
        &[
            service("echo", &[*echo]),
            gateway("g", &served.address, &listeners),
            object("Gateway", "odd", "{gatewayClassName: podium, listeners: {a: [1, 2]}}"),
            object("Gateway", "empty", "{gatewayClassName: podium}"),
            route("good", "good.test", "{backendRefs: [{name: echo, port: 80}]}"),
            route("many", "good.test", &format!("{{matches: [{matches}]}}")),
            route("patterns", "good.test", &format!("{{matches: [{patterns}]}}")),
            route("unknown", "good.test", "{filters: [{type: ExtensionRef, extensionRef: {name: x}}]}"),
            object("HTTPRoute", "odd", "{parentRefs: [{name: g}], rules: {a: b}}"),
            object("HTTPRoute", "odder", "{parentRefs: 7}"),
        ]
        .concat(),
    );
    served.wait_for_answer("good.test", "/", "HTTP/1.1 200");
    for name in ["many", "patterns", "unknown", "odd"] {
        let what = format!("httproute {name}");
        served.wait_for_condition(&what, ".status.parents", "Accepted=False:UnsupportedValue");
    }
    served.wait_for_condition("gateway g", ".status.listeners", "Accepted=False:PortUnavailable");
    let all = served.conditions("gateway g", ".status.listeners");
    assert!(all.contains(&format!("cannot listen on {}:{}", served.address, served.port + 1)), "{all}");
    assert!(all.contains("Accepted=False:UnsupportedProtocol"), "{all}");
    assert!(served.get("good.test", "/").starts_with("HTTP/1.1 200"));
    drop(taken);
    wait_for("the port is served once it is free", || {
        (served.conditions("gateway g", ".status.listeners").matches("Programmed=True").count() == 2)
            .then_some(())
    });
    served.instance.stop();
}
