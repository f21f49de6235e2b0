//! Limits the rate at which a target grows and shrinks: stabilization windows, scaling policies, and the bounds.
//!
//! Pure: earlier recommendations and changes are arguments, with times since an arbitrary start.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerSpec};

/// The default stabilization window for shrinking: the size follows the highest recommendation of this time.
const SCALE_DOWN_WINDOW: Duration = Duration::from_mins(5);
/// Without rules, one sync may double a target's size, or raise it to this size if that is more.
const FIRST_STEP: i32 = 4;

/// Earlier recommendations and changes.
#[derive(Clone, Debug, Default)]
pub(super) struct ScalingHistory {
    recommended: Vec<(Duration, i32)>,
    added: Vec<(Duration, i32)>,
    removed: Vec<(Duration, i32)>,
}

/// A condition's reason and message.
pub(super) type ReasonAndMessage = (&'static str, &'static str);

/// The size that follows from a recommendation, and the conditions that explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) replicas: i32,
    pub(super) able: ReasonAndMessage,
    pub(super) limited: bool,
    pub(super) limit: ReasonAndMessage,
}

const READY: ReasonAndMessage = ("ReadyForNewScale", "recommended size matches current size");
const DOWN_STABILIZED: ReasonAndMessage = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_STABILIZED: ReasonAndMessage = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const TOO_FAST_UP: ReasonAndMessage =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: ReasonAndMessage =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: ReasonAndMessage =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: ReasonAndMessage =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const WITHIN: ReasonAndMessage = ("DesiredWithinRange", "the desired count is within the acceptable range");

impl ScalingHistory {
    /// Counts the first size seen as a recommendation, so that a new controller does not shrink the target at once.
    pub(super) fn begin(&mut self, now: Duration, current: i32) {
        if self.recommended.is_empty() {
            self.recommended.push((now, current));
        }
    }

    /// Records that the target was resized.
    pub(super) fn scaled(&mut self, now: Duration, from: i32, to: i32) {
        let events = if to > from { &mut self.added } else { &mut self.removed };
        events.push((now, to.saturating_sub(from).saturating_abs()));
    }

    /// Adds a recommendation and returns the size that follows from it.
    pub(super) fn take(
        &mut self,
        spec: &HorizontalPodAutoscalerSpec,
        now: Duration,
        current: i32,
        recommended: i32,
    ) -> Outcome {
        let rules = Rules::of(spec);
        let stable = self.stabilize(&rules, now, current, recommended);
        self.forget(&rules, now);
        let able = match stable == recommended {
            true => READY,
            false if rules.up.is_some() && recommended >= current => UP_STABILIZED,
            false => DOWN_STABILIZED,
        };
        let (least, most) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let (replicas, limit) = match (rules.up, rules.down) {
            (Some(up), Some(down)) => self.bounded(up, down, now, current, stable, least, most),
            _ => bounded_without_rules(current, stable, least, most),
        };
        Outcome { replicas, able, limited: replicas != stable, limit }
    }

    /// Follows the lowest recent recommendation when growing, the highest when shrinking.
    fn stabilize(&mut self, rules: &Rules<'_>, now: Duration, current: i32, recommended: i32) -> i32 {
        let within = |window: Duration| move |at: &Duration| now.saturating_sub(*at) < window;
        let recent =
            |window| self.recommended.iter().filter(move |(at, _)| within(window)(at)).map(|(_, n)| *n);
        let lowest = recent(rules.up_window).min().map_or(recommended, |n| n.min(recommended));
        let highest = recent(rules.down_window).max().map_or(recommended, |n| n.max(recommended));
        let stable = if rules.up.is_some() { current.max(lowest).min(highest) } else { highest };
        self.recommended.push((now, recommended));
        stable
    }

    fn forget(&mut self, rules: &Rules<'_>, now: Duration) {
        let longest = rules.up_window.max(rules.down_window);
        self.recommended.retain(|(at, _)| now.saturating_sub(*at) <= longest);
        let period = rules.longest_period();
        for events in [&mut self.added, &mut self.removed] {
            events.retain(|(at, _)| now.saturating_sub(*at) <= period);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of them are numbers of one sum")]
    fn bounded(
        &self,
        up: &HPAScalingRules,
        down: &HPAScalingRules,
        now: Duration,
        current: i32,
        desired: i32,
        least: i32,
        max_replicas: i32,
    ) -> (i32, ReasonAndMessage) {
        if desired > current {
            let limit = self.limit(up, now, current, Direction::Up).max(current);
            let (allowed, why) =
                if max_replicas > limit { (limit, TOO_FAST_UP) } else { (max_replicas, TOO_MANY) };
            if desired > allowed {
                return (allowed, why);
            }
        } else if desired < current {
            let limit = self.limit(down, now, current, Direction::Down).min(current);
            let (allowed, why) = if least < limit { (limit, TOO_FAST_DOWN) } else { (least, TOO_FEW) };
            if desired < allowed {
                return (allowed, why);
            }
        }
        (desired, WITHIN)
    }

    /// Returns the furthest size that the policies allow. Each counts from the target's size at the start of its
    /// period.
    fn limit(&self, rules: &HPAScalingRules, now: Duration, current: i32, direction: Direction) -> i32 {
        let change = |events: &[(Duration, i32)], seconds: i32| -> i64 {
            let period = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            events.iter().filter(|(at, _)| now.saturating_sub(*at) < period).map(|(_, n)| i64::from(*n)).sum()
        };
        let limits = rules.policies.iter().flatten().map(|policy| {
            let start = i64::from(current) - change(&self.added, policy.period_seconds)
                + change(&self.removed, policy.period_seconds);
            let start = i32::try_from(start).unwrap_or(if start < 0 { i32::MIN } else { i32::MAX });
            let part = f64::from(policy.value) / 100.0;
            match (policy.type_.as_str(), direction) {
                ("Pods", Direction::Up) => start.saturating_add(policy.value),
                ("Pods", Direction::Down) => start.saturating_sub(policy.value),
                // Rounded away from the present size: otherwise a small target would never change.
                (_, Direction::Up) => (f64::from(start) * (1.0 + part)).ceil() as i32,
                (_, Direction::Down) => (f64::from(start) * (1.0 - part)) as i32,
            }
        });
        let select = rules.select_policy.as_deref();
        // The smallest change is the lowest limit when growing and the highest when shrinking.
        let lowest = (select == Some("Min")) == (direction == Direction::Up);
        let picked = match select {
            Some("Disabled") => None,
            _ if lowest => limits.min(),
            _ => limits.max(),
        };
        picked.unwrap_or(current)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The rules of an autoscaler. Without any, only the stabilization window for shrinking applies.
struct Rules<'a> {
    up: Option<&'a HPAScalingRules>,
    down: Option<&'a HPAScalingRules>,
    up_window: Duration,
    down_window: Duration,
}

impl<'a> Rules<'a> {
    fn of(spec: &'a HorizontalPodAutoscalerSpec) -> Self {
        let behavior = spec.behavior.as_ref();
        let up = behavior.and_then(|b| b.scale_up.as_ref());
        let down = behavior.and_then(|b| b.scale_down.as_ref());
        let window = |rules: Option<&HPAScalingRules>, default: Duration| {
            let seconds = rules.and_then(|r| r.stabilization_window_seconds);
            seconds.map_or(default, |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
        };
        Self { up, down, up_window: window(up, Duration::ZERO), down_window: window(down, SCALE_DOWN_WINDOW) }
    }

    fn longest_period(&self) -> Duration {
        let policies = self.up.into_iter().chain(self.down).flat_map(|r| r.policies.iter().flatten());
        let seconds = policies.map(|p| u64::try_from(p.period_seconds).unwrap_or(0)).max();
        Duration::from_secs(seconds.unwrap_or(0))
    }
}

fn bounded_without_rules(current: i32, desired: i32, least: i32, most: i32) -> (i32, ReasonAndMessage) {
    let limit = current.saturating_mul(2).max(FIRST_STEP);
    let (allowed, why) = if most > limit { (limit, TOO_FAST_UP) } else { (most, TOO_MANY) };
    if desired < least {
        (least, TOO_FEW)
    } else if desired > allowed {
        (allowed, why)
    } else {
        (desired, WITHIN)
    }
}

#[cfg(test)]
mod tests;
