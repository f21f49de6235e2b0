//! The page `/metrics`: every metric of the cluster as text, in Prometheus' format.

use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;
use serde_json::Value;

use super::Server;
use super::discovery;
use super::flow_control::FlowController;
use super::process_metrics::process;
use api::metrics::FamilyOptions;
use base::sort::SliceOrder;

/// The content type of the Prometheus text format.
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics as text.
pub(super) fn page(server: &Server) -> String {
    server.flows().follow(server.api());
    let mut families = server.api().metric_families();
    families.extend(seats(server.flows()));
    families.extend(build_info(&discovery::version()));
    families.extend(process());
    text(families)
}

/// Returns the seats of priority levels, nominal and in use.
fn seats(flows: &FlowController) -> Vec<MetricFamily> {
    let nominal = FamilyOptions::beta(
        "apiserver_flowcontrol_nominal_limit_seats",
        "Nominal number of execution seats configured for each priority level",
    )
    .gauges(&["priority_level"]);
    let executing = FamilyOptions::beta(
        "apiserver_flowcontrol_current_executing_seats",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage \
         otherwise) requests in the API Priority and Fairness subsystem",
    )
    .gauges(&["priority_level"]);
    flows.report_seats(|level, seats, taken| {
        nominal.set(&[level], f64::from(seats));
        executing.set(&[level], f64::from(taken));
    });
    [nominal.gather(), executing.gather()].concat()
}

/// Returns the build information of `/version`.
pub(super) fn build_info(version: &Value) -> Vec<MetricFamily> {
    let labels = [
        ("build_date", "buildDate"),
        ("compiler", "compiler"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("git_version", "gitVersion"),
        ("go_version", "goVersion"),
        ("major", "major"),
        ("minor", "minor"),
        ("platform", "platform"),
    ];
    let family = FamilyOptions::alpha(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build \
         date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    )
    .gauges(&labels.map(|(label, _)| label));
    family.set(&labels.map(|(_, field)| version[field].as_str().unwrap_or_default()), 1.0);
    family.gather()
}

/// Families ordered by name, as text.
pub(super) fn text(mut families: Vec<MetricFamily>) -> String {
    families.retain(|family| !family.get_metric().is_empty());
    families.order_by(|a, b| a.name().cmp(b.name()));
    let mut text = String::new();
    if let Err(error) = TextEncoder::new().encode_utf8(&families, &mut text) {
        tracing::error!("cannot encode the metrics: {error}");
    }
    text
}
