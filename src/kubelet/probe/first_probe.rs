//! The first probes of a program that has just started.
//!
//! Kubernetes' kubelet learns that a container runs when it lists the runtime's containers again, up to a second later;
//! by then most servers listen. Here it is known at once. So failures within that second do not count: the probe is
//! repeated at short intervals, until it succeeds or the second is over.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;

use super::ProbeOutcome;
use base::clock::Clock;

/// The interval at which a program that does not respond yet is probed.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Repeats a probe until it does not fail. A failure counts only from `blameless_until` on, by the steady clock. A
/// command runs once, since it may have side effects.
pub(crate) async fn run_first_probe<Answer: Future<Output = ProbeOutcome>>(
    clock: &Clock,
    probe: &Probe,
    blameless_until: Timestamp,
    mut ask: impl FnMut() -> Answer,
) -> ProbeOutcome {
    loop {
        let outcome = ask().await;
        let last = probe.exec.is_some() || clock.steady() >= blameless_until;
        if last || !matches!(outcome, ProbeOutcome::Failure(_)) {
            return outcome;
        }
        clock.sleep(PROBE_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A server that listens a moment after its start becomes ready then, without a warning (POD-5).
    #[tokio::test(start_paused = true)]
    async fn a_program_is_not_blamed_for_the_moment_it_takes_to_listen() {
        let http = json!({"httpGet": {"port": 80}});
        for (probe, listens_after, started, expect, attempts) in [
            (&http, 120, 0, ProbeOutcome::Success, 4),
            (&http, 0, 0, ProbeOutcome::Success, 1),
            (&http, 5000, 0, ProbeOutcome::Failure("refused".into()), 21),
            // The first failure of a program that started long ago counts.
            (&http, 120, -2000, ProbeOutcome::Failure("refused".into()), 1),
            (&json!({"exec": {"command": ["x"]}}), 120, 0, ProbeOutcome::Failure("refused".into()), 1),
        ] {
            let clock = Clock::starting_at("2026-11-21T00:00:00Z".parse().unwrap());
            let begin = clock.now();
            let at = |millis: i64| begin + jiff::SignedDuration::from_millis(millis);
            let probe: Probe = serde_json::from_value(probe.clone()).unwrap();
            let mut count = 0;
            let answer = run_first_probe(&clock, &probe, at(started + 1000), || {
                count += 1;
                let listens = clock.now() >= at(listens_after);
                std::future::ready(if listens {
                    ProbeOutcome::Success
                } else {
                    ProbeOutcome::Failure("refused".into())
                })
            });
            assert_eq!(answer.await, expect, "{listens_after} {started}");
            assert_eq!(count, attempts, "{listens_after} {started}");
        }
    }
}
