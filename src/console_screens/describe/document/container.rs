//! The containers and volumes of a pod or of a pod template.

use serde_json::Value;

use super::builder::{DocumentBuilder, Tone, at, items, pairs, text, time};
use console_toolkit::widget::gauge::bar_text;
use object::pod::waiting_pull_progress;

/// Width of the bar of an image pull.
const PULL_BAR: usize = 24;

/// Appends every group of containers under its heading, and the volumes.
pub(crate) fn describe_all(doc: &mut DocumentBuilder, indent: usize, spec: &Value, status: Option<&Value>) {
    let groups = [
        ("Init Containers", "/initContainers", "initContainerStatuses"),
        ("Containers", "/containers", "containerStatuses"),
        ("Ephemeral Containers", "/ephemeralContainers", "ephemeralContainerStatuses"),
    ];
    for (title, path, statuses) in groups {
        let containers: Vec<&Value> = items(spec, path).collect();
        if containers.is_empty() {
            continue;
        }
        doc.head(indent, title);
        for container in containers {
            let status = status
                .and_then(|status| status[statuses].as_array())
                .and_then(|list| list.iter().find(|status| status["name"] == container["name"]));
            describe(doc, indent + 2, container, status);
        }
    }
}

fn describe(doc: &mut DocumentBuilder, indent: usize, container: &Value, status: Option<&Value>) {
    doc.head(indent, &text(&container["name"]));
    let inner = indent + 2;
    if let Some(status) = status {
        doc.field(inner, "Container ID", text(&status["containerID"]));
    }
    doc.field(inner, "Image", text(&container["image"]));
    if let Some(status) = status {
        doc.field(inner, "Image ID", text(&status["imageID"]));
    }
    let ports = |key: &str| -> String {
        let all: Vec<String> = items(container, "/ports")
            .map(|port| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                format!("{}/{protocol}", port[key].as_u64().unwrap_or(0))
            })
            .collect();
        all.join(", ")
    };
    let several = items(container, "/ports").count() > 1;
    doc.field(inner, if several { "Ports" } else { "Port" }, ports("containerPort"));
    doc.field(inner, if several { "Host Ports" } else { "Host Port" }, ports("hostPort"));
    for (title, path) in [("Command", "/command"), ("Args", "/args")] {
        let words: Vec<String> = items(container, path).map(text).collect();
        if !words.is_empty() {
            doc.head(inner, title);
            for word in words.iter().flat_map(|word| word.split('\n')) {
                doc.line(inner + 2, word, Tone::Plain);
            }
        }
    }
    if let Some(status) = status {
        state(doc, inner, "State", &status["state"]);
        if status["lastState"].as_object().is_some_and(|state| !state.is_empty()) {
            state(doc, inner, "Last State", &status["lastState"]);
        }
        let ready = status["ready"] == true;
        doc.toned(inner, "Ready", text(&status["ready"]), if ready { Tone::Good } else { Tone::Waiting });
        doc.field(inner, "Restart Count", text(&status["restartCount"]));
    }
    resources(doc, inner, container);
    for (title, key) in
        [("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe")]
    {
        if container[key].is_object() {
            doc.field(inner, title, probe(&container[key]));
        }
    }
    environment(doc, inner, container);
    let mounts = items(container, "/volumeMounts").map(|mount| {
        let access = if mount["readOnly"] == true { "ro" } else { "rw" };
        let path = mount["subPath"].as_str().map(|path| format!(",path=\"{path}\"")).unwrap_or_default();
        format!("{} from {} ({access}{path})", text(&mount["mountPath"]), text(&mount["name"]))
    });
    block(doc, inner, "Mounts", mounts.collect());
}

/// Appends a heading with the lines below it, or with `<none>` beside it if there are no lines.
fn block(doc: &mut DocumentBuilder, indent: usize, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return doc.field(indent, title, "");
    }
    doc.head(indent, title);
    for line in lines {
        doc.line(indent + 2, line, Tone::Plain);
    }
}

fn state(doc: &mut DocumentBuilder, indent: usize, title: &str, state: &Value) {
    if let Some(running) = state.get("running") {
        doc.toned(indent, title, "Running", Tone::Good);
        doc.field(indent + 2, "Started", time(&running["startedAt"]));
    } else if let Some(waiting) = state.get("waiting") {
        let reason = text(&waiting["reason"]);
        let pull = waiting_pull_progress(&reason, waiting["message"].as_str().unwrap_or_default());
        let calm = matches!(reason.as_str(), "ContainerCreating" | "PodInitializing" | "");
        let tone = if calm { Tone::Waiting } else { Tone::Bad };
        doc.toned(indent, title, "Waiting", tone);
        if !reason.is_empty() {
            doc.toned(indent + 2, "Reason", reason, tone);
        }
        if waiting["message"].is_string() {
            doc.toned(indent + 2, "Message", text(&waiting["message"]), tone);
        }
        if let Some((share, percent)) = pull.and_then(|pull| pull.share().zip(pull.percent())) {
            let bar = format!("{} {percent}%", bar_text(share, PULL_BAR));
            doc.toned(indent + 2, "Progress", bar, tone);
        }
    } else if let Some(ended) = state.get("terminated") {
        let tone = if ended["exitCode"] == 0 { Tone::Plain } else { Tone::Bad };
        doc.toned(indent, title, "Terminated", tone);
        for (key, field) in
            [("Reason", "reason"), ("Message", "message"), ("Exit Code", "exitCode"), ("Signal", "signal")]
        {
            if !ended[field].is_null() {
                doc.toned(indent + 2, key, text(&ended[field]), tone);
            }
        }
        doc.field(indent + 2, "Started", time(&ended["startedAt"]));
        doc.field(indent + 2, "Finished", time(&ended["finishedAt"]));
    } else {
        doc.toned(indent, title, "Waiting", Tone::Waiting);
    }
}

/// Returns `http-get http://:80/ delay=0s timeout=1s period=10s #success=1 #failure=3`, as kubectl does.
fn probe(probe: &Value) -> String {
    let number = |key: &str, default: i64| probe[key].as_i64().unwrap_or(default);
    let timing = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds", 0),
        number("timeoutSeconds", 1),
        number("periodSeconds", 10),
        number("successThreshold", 1),
        number("failureThreshold", 3)
    );
    let handler = if let Some(exec) = probe.get("exec") {
        let command: Vec<String> = items(exec, "/command").map(text).collect();
        format!("exec [{}]", command.join(" "))
    } else if let Some(get) = probe.get("httpGet") {
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        format!("http-get {scheme}://{}:{}{}", text(&get["host"]), text(&get["port"]), text(&get["path"]))
    } else if let Some(tcp) = probe.get("tcpSocket") {
        format!("tcp-socket {}:{}", text(&tcp["host"]), text(&tcp["port"]))
    } else if let Some(grpc) = probe.get("grpc") {
        format!("grpc <pod>:{} {}", text(&grpc["port"]), text(&grpc["service"]))
    } else {
        "unknown".to_owned()
    };
    format!("{handler} {timing}")
}

/// Appends the limits and requests of a container, or of a pod's spec as a whole.
pub(super) fn resources(doc: &mut DocumentBuilder, indent: usize, of: &Value) {
    for (title, path) in [("Limits", "/resources/limits"), ("Requests", "/resources/requests")] {
        let amounts = of.pointer(path).and_then(Value::as_object).filter(|map| !map.is_empty());
        if let Some(amounts) = amounts {
            doc.head(indent, title);
            for (name, amount) in amounts {
                doc.field(indent + 2, name, text(amount));
            }
        }
    }
}

fn environment(doc: &mut DocumentBuilder, indent: usize, container: &Value) {
    let from: Vec<String> = items(container, "/envFrom")
        .map(|source| {
            let (kind, reference) = if source["configMapRef"].is_object() {
                ("ConfigMap", &source["configMapRef"])
            } else {
                ("Secret", &source["secretRef"])
            };
            let optional = reference["optional"] == true;
            format!(
                "{}  {kind}  Optional: {}",
                text(&reference["name"]),
                if optional { "true" } else { "false" }
            )
        })
        .collect();
    if !from.is_empty() {
        block(doc, indent, "Environment Variables from", from);
    }
    let env: Vec<&Value> = items(container, "/env").collect();
    if env.is_empty() {
        return doc.field(indent, "Environment", "");
    }
    doc.head(indent, "Environment");
    for variable in env {
        let source = &variable["valueFrom"];
        let reference = |key: &str, kind: &str| {
            let from = &source[key];
            let optional = from["optional"] == true;
            let optional = if optional { "true" } else { "false" };
            format!(
                "<set to the key '{}' in {kind} '{}'>  Optional: {optional}",
                text(&from["key"]),
                text(&from["name"])
            )
        };
        let value = if source["configMapKeyRef"].is_object() {
            reference("configMapKeyRef", "config map")
        } else if source["secretKeyRef"].is_object() {
            reference("secretKeyRef", "secret")
        } else if source["fieldRef"].is_object() {
            format!(" ({}:{})", at(source, "/fieldRef/apiVersion"), at(source, "/fieldRef/fieldPath"))
        } else if source["resourceFieldRef"].is_object() {
            format!("({})", at(source, "/resourceFieldRef/resource"))
        } else {
            text(&variable["value"])
        };
        doc.field(indent + 2, &text(&variable["name"]), value);
    }
}

/// Appends the volumes with their sources.
pub(crate) fn volumes(doc: &mut DocumentBuilder, indent: usize, spec: &Value) {
    let volumes: Vec<&Value> = items(spec, "/volumes").collect();
    if volumes.is_empty() {
        return doc.field(indent, "Volumes", "");
    }
    doc.head(indent, "Volumes");
    for volume in volumes {
        doc.head(indent + 2, &text(&volume["name"]));
        let Some((kind, source)) =
            volume.as_object().and_then(|map| map.iter().find(|(key, _)| *key != "name"))
        else {
            continue;
        };
        let title = match kind.as_str() {
            "emptyDir" => "EmptyDir (a temporary directory that shares a pod's lifetime)".to_owned(),
            "hostPath" => "HostPath (bare host directory volume)".to_owned(),
            "secret" => "Secret (a volume populated by a Secret)".to_owned(),
            "configMap" => "ConfigMap (a volume populated by a ConfigMap)".to_owned(),
            "projected" => {
                "Projected (a volume that contains injected data from multiple sources)".to_owned()
            }
            "downwardAPI" => "DownwardAPI (a volume populated by information about the pod)".to_owned(),
            "persistentVolumeClaim" => {
                "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)"
                    .to_owned()
            }
            other => other.to_owned(),
        };
        doc.field(indent + 4, "Type", title);
        for pair in pairs(source, "", "\n") {
            if let Some((key, value)) = pair.split_once('\n')
                && !value.starts_with(['[', '{'])
                && key != "defaultMode"
            {
                let mut letters = key.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                let key: String = first.into_iter().chain(letters).collect();
                doc.field(indent + 4, &key, value);
            }
        }
    }
}
