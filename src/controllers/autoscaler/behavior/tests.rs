//! Recommendations over time, and the sizes that the rules allow.

use serde_json::{Value, json};

use super::*;

fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
    let mut spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2,
        "maxReplicas": 100});
    if !behavior.is_null() {
        spec["behavior"] = behavior;
    }
    serde_json::from_value(spec).unwrap()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn without_rules_a_target_doubles_and_shrinks_after_five_minutes_hpa_1() {
    let spec = spec(Value::Null);
    for (current, desired, replicas, limited, reason) in [
        (2, 50, 4, true, "ScaleUpLimit"),
        (10, 50, 20, true, "ScaleUpLimit"),
        (60, 110, 100, true, "TooManyReplicas"),
        (10, 15, 15, false, "DesiredWithinRange"),
        (3, 1, 2, true, "TooFewReplicas"),
    ] {
        let outcome = ScalingHistory::default().take(&spec, seconds(0), current, desired);
        assert_eq!((outcome.replicas, outcome.limited, outcome.limit.0), (replicas, limited, reason));
        assert_eq!(outcome.able.0, "ReadyForNewScale");
    }
    let mut past = ScalingHistory::default();
    past.begin(seconds(0), 10);
    for (at, replicas, able) in
        [(15, 10, "ScaleDownStabilized"), (299, 10, "ScaleDownStabilized"), (300, 4, "ReadyForNewScale")]
    {
        let outcome = past.take(&spec, seconds(at), 10, 4);
        assert_eq!((outcome.replicas, outcome.able.0), (replicas, able), "{at}");
    }
}

/// The rules of the page "Horizontal Pod Autoscaling", *Configurable scaling behavior*.
#[test]
fn policies_bound_the_rate_over_their_period_hpa_1() {
    let down = |rules: Value| {
        let up = json!({"policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}], "selectPolicy": "Max",
            "stabilizationWindowSeconds": 0});
        spec(json!({"scaleUp": up, "scaleDown": rules}))
    };
    let both = json!([{"type": "Pods", "value": 4, "periodSeconds": 60},
        {"type": "Percent", "value": 10, "periodSeconds": 60}]);
    let rules =
        |select: &str| json!({"policies": both, "selectPolicy": select, "stabilizationWindowSeconds": 0});
    for (select, current, replicas) in
        [("Max", 80, 72), ("Max", 10, 6), ("Min", 80, 76), ("Min", 10, 9), ("Disabled", 80, 80)]
    {
        let outcome = ScalingHistory::default().take(&down(rules(select)), seconds(0), current, 2);
        assert_eq!((outcome.replicas, outcome.limit.0), (replicas, "ScaleDownLimit"), "{select} {current}");
    }
    // Changes within the period count in both directions.
    let spec = down(rules("Max"));
    let mut past = ScalingHistory::default();
    past.scaled(seconds(0), 80, 72);
    assert_eq!(past.take(&spec, seconds(30), 72, 2).replicas, 72);
    assert_eq!(past.take(&spec, seconds(60), 72, 2).replicas, 64, "of 72, a tenth less, rounded down");
    let outcome = past.take(&spec, seconds(75), 3, 1);
    assert_eq!((outcome.replicas, outcome.limit.0), (2, "TooFewReplicas"));
    let outcome = past.take(&spec, seconds(90), 60, 200);
    assert_eq!((outcome.replicas, outcome.limit.0), (100, "TooManyReplicas"));
    let outcome = past.take(&spec, seconds(90), 5, 50);
    assert_eq!((outcome.replicas, outcome.limit.0), (10, "ScaleUpLimit"));
}

#[test]
fn a_window_of_growth_waits_for_the_lowest_hpa_1() {
    let policies = json!([{"type": "Percent", "value": 900, "periodSeconds": 60}]);
    let spec = spec(json!({
        "scaleUp": {"policies": policies, "selectPolicy": "Max", "stabilizationWindowSeconds": 60},
        "scaleDown": {"policies": policies, "selectPolicy": "Max", "stabilizationWindowSeconds": 0}}));
    let mut past = ScalingHistory::default();
    past.begin(seconds(0), 3);
    for (at, desired, replicas, able) in [
        (15, 20, 3, "ScaleUpStabilized"),
        (30, 8, 3, "ScaleUpStabilized"),
        (60, 20, 8, "ScaleUpStabilized"),
        (90, 20, 20, "ReadyForNewScale"),
    ] {
        let outcome = past.take(&spec, seconds(at), 3, desired);
        assert_eq!((outcome.replicas, outcome.able.0), (replicas, able), "{at}");
    }
}
