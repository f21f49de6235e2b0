//! Rules of probes and lifecycle hooks.

use k8s_openapi::api::core::v1::{
    ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::{FieldErrors, Path};
use super::names;
use super::pod_context::PodContext;
use base::sort::SliceOrder;

/// Validates a liveness or startup probe. Such a probe's `successThreshold` is 1, and it may have its own grace period.
pub(crate) fn single_success(errors: &mut FieldErrors, path: &Path<'_>, probe: &Probe) {
    any_probe(errors, path, probe);
    let threshold = probe.success_threshold.unwrap_or(1);
    if threshold != 1 {
        errors.invalid(&path.child("successThreshold"), &threshold, "must be 1");
    }
    if let Some(seconds) = probe.termination_grace_period_seconds
        && seconds <= 0
    {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), &seconds, "must be greater than 0");
    }
}

/// Validates a readiness probe, which never terminates a container.
pub(crate) fn readiness(errors: &mut FieldErrors, path: &Path<'_>, probe: &Probe) {
    any_probe(errors, path, probe);
    if let Some(seconds) = probe.termination_grace_period_seconds {
        errors.invalid(
            &path.child("terminationGracePeriodSeconds"),
            &seconds,
            "must not be set for readinessProbes",
        );
    }
}

fn any_probe(errors: &mut FieldErrors, path: &Path<'_>, probe: &Probe) {
    handler(
        errors,
        path,
        &Handler {
            exec: probe.exec.as_ref(),
            http_get: probe.http_get.as_ref(),
            tcp_socket: probe.tcp_socket.as_ref(),
            grpc: probe.grpc.as_ref(),
            sleep: None,
        },
        0,
    );
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        errors.non_negative(&path.child(field), number.unwrap_or(0));
    }
}

/// Validates a container's postStart and preStop hooks and its stop signal.
pub(crate) fn lifecycle(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    lifecycle: &Lifecycle,
    pod: &PodContext<'_>,
) {
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(LifecycleHandler { exec, http_get, sleep, tcp_socket }) = hook {
            let hook = Handler {
                exec: exec.as_ref(),
                http_get: http_get.as_ref(),
                tcp_socket: tcp_socket.as_ref(),
                grpc: None,
                sleep: sleep.as_ref(),
            };
            handler(errors, &path.child(field), &hook, pod.grace_seconds);
        }
    }
    if let Some(signal) = &lifecycle.stop_signal {
        stop_signal(errors, &path.child("stopSignal"), signal, pod.os);
    }
}

/// Validates the signal that stops a container; the valid signals depend on the operating system.
fn stop_signal(errors: &mut FieldErrors, path: &Path<'_>, signal: &str, os: Option<&str>) {
    match os {
        None | Some("") => {
            errors.forbidden(path, "may not be set for containers with empty `spec.os.name`");
        }
        Some("windows") => errors.one_of(path, signal, &["SIGKILL", "SIGTERM"]),
        Some(_) => {
            let supported = signals();
            errors.one_of(path, signal, &supported.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}

/// Returns the names of Linux' signals in alphabetical order.
fn signals() -> Vec<String> {
    let named = "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV \
                 STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ";
    let named = named.split_ascii_whitespace().map(|name| format!("SIG{name}"));
    let above = (1..=15).map(|above| format!("SIGRTMIN+{above}"));
    let below = (1..=14).map(|below| format!("SIGRTMAX-{below}"));
    let mut all: Vec<String> = named.chain(above).chain(below).collect();
    all.order();
    all
}

/// The action of a probe or hook: exactly one of these.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

fn handler(errors: &mut FieldErrors, path: &Path<'_>, handler: &Handler<'_>, grace_seconds: i64) {
    let mut handlers = 0;
    // Only the first handler is validated; each further one is an error in itself.
    let mut is_first = |errors: &mut FieldErrors, field: &str| {
        handlers += 1;
        if handlers > 1 {
            errors.forbidden(&path.child(field), "may not specify more than 1 handler type");
        }
        handlers == 1
    };
    if let Some(exec) = handler.exec
        && is_first(errors, "exec")
        && exec.command.as_ref().is_none_or(Vec::is_empty)
    {
        errors.required(&path.child("exec.command"), "");
    }
    if let Some(get) = handler.http_get
        && is_first(errors, "httpGet")
    {
        http_get(errors, &path.child("httpGet"), get);
    }
    if let Some(socket) = handler.tcp_socket
        && is_first(errors, "tcpSocket")
    {
        port(errors, &path.child("tcpSocket.port"), &socket.port);
    }
    if let Some(grpc) = handler.grpc
        && is_first(errors, "grpc")
    {
        errors.invalid_each(&path.child("grpc.port"), &grpc.port, names::port_number(grpc.port.into()));
    }
    if let Some(sleep) = handler.sleep
        && is_first(errors, "sleep")
        && !(0..=grace_seconds).contains(&sleep.seconds)
    {
        errors.invalid(
            path,
            &sleep.seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"),
        );
    }
    if handlers == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn http_get(errors: &mut FieldErrors, path: &Path<'_>, get: &HTTPGetAction) {
    if get.path.as_deref().unwrap_or_default().is_empty() {
        errors.required(&path.child("path"), "");
    }
    port(errors, &path.child("port"), &get.port);
    errors.one_of(&path.child("scheme"), get.scheme.as_deref().unwrap_or_default(), &["HTTP", "HTTPS"]);
    for header in get.http_headers.iter().flatten() {
        errors.invalid_each(&path.child("httpHeaders"), &header.name, names::http_header(&header.name));
    }
}

fn port(errors: &mut FieldErrors, path: &Path<'_>, port: &IntOrString) {
    let wrong = match port {
        IntOrString::Int(number) => names::port_number((*number).into()),
        IntOrString::String(name) => names::port_name(name),
    };
    errors.invalid_each(path, port, wrong);
}
