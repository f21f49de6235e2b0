//! Computes the score of a played scenario: pure.

use std::time::Duration;

use extension::scenario::{ScenarioPoints, ScenarioSpec, ScenarioStatus};
use object::time::go_duration;

/// The points for repairing the trouble at all.
const REPAIRED: i32 = 40;
/// The maximum of points for noticing the trouble quickly.
const NOTICED: i32 = 20;
/// The maximum of points for repairing the trouble quickly.
const QUICK: i32 = 40;

/// The score of a passed scenario, out of a hundred, and its parts. A passed scenario gets at least one point.
///
/// A part gives all its points up to its target time; after that they decrease linearly to 0 at the time limit.
pub(super) fn score(spec: &ScenarioSpec, status: &ScenarioStatus) -> (i32, Vec<ScenarioPoints>) {
    let (detect_within, repair_within) = spec.quick();
    let limit = spec.time_limit();
    let took = |until: Option<Duration>, within: Duration, most: i32, name: &str| match until {
        Some(took) => ScenarioPoints {
            name: name.into(),
            points: in_time(took, within, limit, most),
            most,
            message: Some(format!("after {}; full points within {}", go_duration(took), go_duration(within))),
        },
        None => ScenarioPoints { name: name.into(), points: 0, most, message: None },
    };
    let mut points = vec![
        ScenarioPoints { name: "repaired".into(), points: REPAIRED, most: REPAIRED, message: None },
        took(times(status).0, detect_within, NOTICED, "noticed"),
        took(times(status).1, repair_within, QUICK, "quick"),
    ];
    if status.hints_shown > 0 {
        let cost = spec.hint_cost().saturating_mul(status.hints_shown);
        let message =
            format!("{} of {} hints at {} each", status.hints_shown, spec.hints.len(), spec.hint_cost());
        points.push(ScenarioPoints { name: "hints".into(), points: -cost, most: 0, message: Some(message) });
    }
    let sum = points.iter().fold(0_i32, |sum, part| sum.saturating_add(part.points));
    (sum.clamp(1, 100), points)
}

/// The times until detection and repair, since the trouble began.
pub(super) fn times(status: &ScenarioStatus) -> (Option<Duration>, Option<Duration>) {
    let since = |at: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        Some(base::clock::since(at?.0, status.troubled_at.as_ref()?.0))
    };
    (since(status.detected_at.as_ref()), since(status.repaired_at.as_ref()))
}

fn in_time(took: Duration, within: Duration, limit: Duration, most: i32) -> i32 {
    if took <= within {
        return most;
    }
    let left = limit.saturating_sub(took).as_secs_f64();
    let all = limit.saturating_sub(within).as_secs_f64();
    if all <= 0.0 {
        return 0;
    }
    // The cast cannot overflow: the value is between 0 and `most`.
    (f64::from(most) * left / all).round() as i32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn points_are_given_for_noticing_and_repairing_and_taken_for_hints_fault_2() {
        let spec: ScenarioSpec =
            serde_json::from_value(json!({"title": "t", "timeLimit": "10m", "hints": ["a", "b", "c"],
            "scoring": {"detectWithin": "1m", "repairWithin": "2m", "hintCost": 15}}))
            .unwrap();
        let at = |minutes: i64| format!("2026-11-21T00:{minutes:02}:00Z");
        for (noticed, repaired, hints, expected, parts) in [
            (0, 0, 0, 100, vec![40, 20, 40]),
            (1, 2, 0, 100, vec![40, 20, 40]),
            (1, 6, 0, 80, vec![40, 20, 20]),
            (10, 10, 0, 40, vec![40, 0, 0]),
            (1, 2, 2, 70, vec![40, 20, 40, -30]),
            (10, 10, 3, 1, vec![40, 0, 0, -45]),
            (30, 30, 0, 40, vec![40, 0, 0]),
        ] {
            let status: ScenarioStatus =
                serde_json::from_value(json!({"troubledAt": at(0), "detectedAt": at(noticed),
                "repairedAt": at(repaired), "hintsShown": hints}))
                .unwrap();
            let (sum, points) = score(&spec, &status);
            assert_eq!(
                points.iter().map(|part| part.points).collect::<Vec<_>>(),
                parts,
                "{noticed} {repaired}"
            );
            assert_eq!(sum, expected, "{noticed} {repaired} {hints}");
        }
        // Time spans of zero are not divided by.
        let spec = ScenarioSpec { time_limit: Some("1m".into()), ..spec };
        let status: ScenarioStatus =
            serde_json::from_value(json!({"troubledAt": at(0), "detectedAt": at(5), "repairedAt": at(5)}))
                .unwrap();
        assert_eq!(score(&spec, &status).0, 40);
    }
}
