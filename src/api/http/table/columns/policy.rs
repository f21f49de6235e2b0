//! What bounds workloads: budgets, quotas, limits, autoscalers.

use super::{AGE, Column, NAME, number, text};

pub(super) const BUDGET: &[Column] = &[
    NAME,
    text("Min Available", "The minimum number of pods that must be available."),
    text("Max Unavailable", "The maximum number of pods that may be unavailable."),
    number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
    AGE,
];

pub(super) const QUOTA: &[Column] = &[
    NAME,
    text("Request", "Used and hard amounts of what may be requested."),
    text("Limit", "Used and hard amounts of limits."),
    AGE,
];

pub(super) const CREATED: &[Column] = &[NAME, text("Created At", "When the object was made.")];

pub(super) const AUTOSCALER: &[Column] = &[
    NAME,
    text("Reference", "What is scaled."),
    text("Targets", "What is measured, and what it shall be."),
    text("MinPods", "The least number of pods."),
    text("MaxPods", "The greatest number of pods."),
    text("Replicas", "The number of pods now."),
    AGE,
];
