//! Concludes a report: listeners, test connections, and the result.

use std::net::SocketAddr;

use super::endpoints::{Endpoint, MAX_TRIED};
use super::report::{ConnectionResult, Finding, Report, State, WalkStep};
use super::walk::Walk;
use super::{Facts, Outcome, ProbeResults};
use network_policy::Protocol;
use object::low_ports::LowPorts;

/// Maximum number of other ports listed in a finding.
const MAX_LISTED: usize = 8;
/// The ports that an ordinary user's programs cannot bind, in a loopback network.
const LOW_PORTS: LowPorts = LowPorts::below(1024);

impl Walk {
    /// Concludes the report with the results of probes.
    pub fn conclude(mut self, facts: &Facts, probed: &ProbeResults) -> Report {
        let listeners = self.listener(facts, probed);
        self.findings.extend(listeners);
        let connection = self.connection(probed);
        let connected = match &connection {
            Some(finding) => finding.state == State::Fine,
            None => false,
        };
        let problem = self.findings.iter().find(|finding| finding.state == State::Problem).cloned();
        self.findings.extend(connection.clone());
        let verdict = match (connected, problem, connection) {
            (true, problem, Some(connection)) => {
                // Some of several endpoints may still fail.
                let partly = problem.map(|problem| problem.text);
                ConnectionResult { connected: true, reason: connection.text, advice: partly }
            }
            (_, Some(problem), _) => {
                ConnectionResult { connected: false, reason: problem.text, advice: problem.advice }
            }
            (_, None, Some(connection)) if self.protocol == Protocol::Tcp => {
                ConnectionResult { connected: false, reason: connection.text, advice: connection.advice }
            }
            (_, None, _) if self.ends.is_empty() => {
                let reason = "the path of the connection could not be followed to its end".to_owned();
                ConnectionResult { connected: false, reason, advice: None }
            }
            (_, None, _) => {
                let reason =
                    format!("found no problem, but {} cannot be tested with a connection", self.protocol);
                ConnectionResult { connected: true, reason, advice: None }
            }
        };
        Report {
            source: self.source.to_string(),
            destination: self.destination,
            findings: self.findings,
            verdict,
        }
    }

    /// Checks that a process listens at each end; `None` if no end is a pod.
    fn listener(&self, facts: &Facts, probed: &ProbeResults) -> Option<Finding> {
        let of_pods: Vec<&Endpoint> =
            self.ends.iter().take(MAX_TRIED).filter(|end| end.pod.is_some()).collect();
        let findings: Vec<Finding> =
            of_pods.iter().filter_map(|end| check_listener(end, facts, probed)).collect();
        let bad = findings.iter().filter(|finding| finding.state == State::Problem).count();
        let first =
            findings.iter().find(|finding| finding.state == State::Problem).or(findings.first())?.clone();
        if bad > 0 && findings.len() > 1 {
            let text = format!("{} ({bad} of {} endpoints)", first.text, findings.len());
            return Some(Finding { text, ..first });
        }
        Some(first)
    }

    /// Reports the results of test connections; `None` if there was nothing to try.
    fn connection(&self, probed: &ProbeResults) -> Option<Finding> {
        let attempts = self.attempts();
        let tried: Vec<(SocketAddr, &Outcome)> =
            attempts.iter().filter_map(|to| Some((*to, probed.attempts.get(to)?))).collect();
        if attempts.is_empty() {
            let note = format!("{} is not tested: a server need not answer", self.protocol);
            return (!self.ends.is_empty()).then(|| Finding::note(WalkStep::Connection, note));
        }
        let (to, outcome) = *tried.first()?;
        let lines: Vec<String> =
            tried.iter().skip(1).map(|(to, outcome)| format!("{to} {}", worded(outcome))).collect();
        let text = format!("{to} {}", worded(outcome));
        let ends: Vec<&Outcome> = match self.service {
            Some(_) => tried.iter().skip(1).map(|(_, outcome)| *outcome).collect(),
            None => tried.iter().map(|(_, outcome)| *outcome).collect(),
        };
        let working = ends.iter().filter(|outcome| ***outcome == Outcome::Connected).count();
        let finding = match outcome {
            Outcome::Connected => {
                let few = if working < ends.len() {
                    format!(", though {} of {} endpoints do not", ends.len() - working, ends.len())
                } else {
                    String::new()
                };
                Finding::fine(WalkStep::Connection, format!("{text}{few}"))
            }
            // A connection to the service may have reached one of the few endpoints that fail.
            _ if working > 0 => {
                let text = format!("{text}; {working} of {} endpoints work", ends.len());
                Finding::problem(WalkStep::Connection, text, "check the endpoints that fail")
            }
            Outcome::Refused => {
                let advice = "check that a program listens on this address and port";
                Finding::problem(WalkStep::Connection, text, advice)
            }
            Outcome::TimedOut => {
                let advice = "a policy or a firewall drops the packets, or the address is unused";
                Finding::problem(WalkStep::Connection, text, advice)
            }
            Outcome::Unreachable(_) => {
                Finding::problem(WalkStep::Connection, text, "check the address and the network")
            }
            Outcome::Untried(_) => Finding::note(WalkStep::Connection, text),
        };
        Some(finding.with(lines))
    }
}

fn worded(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Connected => "answers".to_owned(),
        Outcome::Refused => "refuses the connection".to_owned(),
        Outcome::TimedOut => "does not answer in time".to_owned(),
        Outcome::Unreachable(why) => format!("cannot be reached: {why}"),
        Outcome::Untried(why) => format!("was not tried: {why}"),
    }
}

/// Checks that a process of a pod listens at the end of a connection.
fn check_listener(end: &Endpoint, facts: &Facts, probed: &ProbeResults) -> Option<Finding> {
    let key = end.pod.as_ref()?;
    let (ip, port) = (end.address.ip(), end.address.port());
    let listeners = match probed.listeners.get(key)? {
        Ok(listeners) => listeners,
        Err(why) => {
            return Some(Finding::note(
                WalkStep::Listener,
                format!("cannot read the listening ports of pod {key}: {why}"),
            ));
        }
    };
    let served = if facts.own_network { port } else { LOW_PORTS.served(port) };
    let at_port = |own: &&SocketAddr| [port, served].contains(&own.port());
    let own: Vec<&SocketAddr> = listeners.iter().filter(at_port).collect();
    if let Some(hears) = own.iter().find(|own| own.ip() == ip || own.ip().is_unspecified()) {
        return Some(Finding::fine(WalkStep::Listener, format!("pod {key} listens at {hears}")));
    }
    if let Some(local) = own.iter().find(|own| own.ip().is_loopback()) {
        let text = format!("pod {key} listens only at {local}, which other pods cannot reach");
        let advice = format!("make the program listen at 0.0.0.0:{port}, not at {}", local.ip());
        return Some(Finding::problem(WalkStep::Listener, text, advice));
    }
    if let Some(other) = own.first() {
        let text = format!("pod {key} listens at {other}, not at {ip}");
        return Some(Finding::problem(
            WalkStep::Listener,
            text,
            format!("make the program listen at 0.0.0.0:{port}"),
        ));
    }
    let others: Vec<String> = listeners.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    let (text, advice) = if others.is_empty() {
        let text = format!("no program in pod {key} listens at port {port} or any other port");
        (text, format!("read its logs with `kubectl logs -n {} {}`", key.namespace, key.name))
    } else {
        let text = format!(
            "no program in pod {key} listens at port {port}; the pod listens at {}",
            others.join(", ")
        );
        (
            text,
            "use a port at which it listens (a service's targetPort), or make the program listen at this one"
                .to_owned(),
        )
    };
    Some(Finding::problem(WalkStep::Listener, text, advice))
}
