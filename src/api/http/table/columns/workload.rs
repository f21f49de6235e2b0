//! What runs pods from a template.

use super::{AGE, Column, NAME, SELECTOR, number, text, wide};

const CONTAINERS: Column = wide("Containers", "Names of each container in the template.");
const IMAGES: Column = wide("Images", "Images referenced by each container in the template.");

pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    text("Ready", "Number of the pod with ready state"),
    number("Up-to-date", "Total number of non-terminated pods that have the desired template spec."),
    number("Available", "Total number of available pods (ready for at least minReadySeconds)."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const REPLICAS: &[Column] = &[
    NAME,
    number("Desired", "Number of desired pods."),
    number("Current", "The most recently observed number of pods."),
    number("Ready", "The number of pods with a Ready condition."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const POD_TEMPLATE: &[Column] = &[
    NAME,
    text("Containers", "Names of each container in the template."),
    text("Images", "Images referenced by each container in the template."),
    text("Pod Labels", "The labels for the pod template."),
];

pub(super) const REVISION: &[Column] = &[
    NAME,
    text("Controller", "Controller of the object"),
    text("Revision", "Revision indicates the revision of the state represented by Data."),
    AGE,
];

pub(super) const STATEFUL_SET: &[Column] =
    &[NAME, text("Ready", "Number of the pod with ready state"), AGE, CONTAINERS, IMAGES];

pub(super) const DAEMON_SET: &[Column] = &[
    NAME,
    number("Desired", "The total number of nodes that should be running the daemon pod."),
    number("Current", "The number of nodes that are running the daemon pod and are supposed to."),
    number("Ready", "The number of nodes that should be running the daemon pod and have it ready."),
    number("Up-to-date", "The total number of nodes that are running the updated daemon pod."),
    number("Available", "The number of nodes that should be running the daemon pod and have it available."),
    text("Node Selector", "The labels a node must have to run the pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const JOB: &[Column] = &[
    NAME,
    text("Status", "Status of the job."),
    text("Completions", "How many pods have succeeded, of how many."),
    text("Duration", "Time required to complete the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CRON_JOB: &[Column] = &[
    NAME,
    text("Schedule", "The schedule in Cron format."),
    text("Timezone", "The time zone of the schedule."),
    text("Suspend", "Whether later executions are held back."),
    number("Active", "How many jobs run now."),
    text("Last Schedule", "When the job was last scheduled."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
