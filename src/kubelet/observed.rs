//! The kubelet's knowledge of one pod besides its object: the runtime's records and its own memory.
//!
//! Plain data: `plan` and `status` read it, the worker writes it. Its times are of the steady clock; the times in
//! records are the runtime's, are of the wall clock, and are only displayed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::needed_images::ImageUser;
use super::probe::ProbeSet;
use super::resize::Resize;
use super::runtime::{ContainerId, ContainerRecord, Image, SandboxRecord};
use crate::ips::Ips;
use base::clock::{ClockReading, saturating_after, time};

/// The knowledge about one pod on its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedPod {
    /// The runtime's record when it was last read.
    pub(crate) sandbox: Option<SandboxRecord>,
    /// The pod's addresses.
    pub(crate) ips: Ips,
    /// The node's addresses.
    pub(crate) host_ips: Ips,
    /// The state of the pod's volumes.
    pub(crate) setup: SetupState,
    /// The memory of each container, by name.
    ///
    /// Boxed: a map reserves space for several entries, and most pods have one.
    pub(crate) containers: BTreeMap<String, Box<ContainerMemory>>,
    /// The state of each image volume's image, by the volume's name.
    pub(crate) volume_images: BTreeMap<String, ImageState>,
    /// The end of the whole pod, once it has started.
    pub(crate) stop: Option<PodStop>,
    /// The time from which its `activeDeadlineSeconds` count.
    pub(crate) active_since: Option<Timestamp>,
    /// The control plane stops: a pod that has ended for good is removed from the node too, but its object stays.
    pub(crate) shutdown: bool,
    /// Containers have mounts of their own on this node.
    pub(crate) own_mounts: bool,
    /// The resources that its containers were allocated, and those they have requested since.
    pub(crate) resize: Resize,
    /// The offset of the node's clock: the pod's status goes by that clock, while records go by the machine's.
    pub(crate) skew: SignedDuration,
}

/// The state of a pod's volumes and address before its first container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SetupState {
    /// Not tried yet.
    #[default]
    No,
    /// Everything is prepared.
    Ready,
    /// Something is missing; retried at `until`.
    Blocked {
        /// The time of the next attempt.
        until: Timestamp,
        /// Names what is missing.
        message: String,
    },
}

/// The cause of a whole pod's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// Its containers have done their work, or failed for good.
    Completed,
    /// Its object has a deletion timestamp.
    Deleted,
    /// Its object was removed from the API or never existed.
    Orphaned,
    /// The node fails the pod: `DeadlineExceeded`, `Evicted`.
    Failed {
        /// `status.reason`.
        reason: String,
        /// `status.message`.
        message: String,
        /// The node disrupts the pod (condition DisruptionTarget).
        disrupted: bool,
    },
    /// The whole control plane stops; the pod returns with its next start.
    Shutdown,
}

impl StopCause {
    /// Returns true if the pod's object is removed once its processes have exited.
    pub(crate) fn removes_pod(&self) -> bool {
        matches!(self, Self::Deleted | Self::Orphaned)
    }
}

/// The end of a whole pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodStop {
    pub(crate) cause: StopCause,
    /// The time at which it began.
    pub(crate) began: Timestamp,
    /// The grace period of its containers.
    pub(crate) grace: Duration,
}

impl PodStop {
    /// The time at which its containers are killed.
    pub(crate) fn deadline(&self) -> Timestamp {
        saturating_after(self.began, self.grace)
    }
}

/// The memory of one container of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerMemory {
    /// An attempt of which the runtime has no record.
    pub(crate) unrecorded: Option<FailedAttempt>,
    /// The back-off of the next restart.
    pub(crate) back_off: Option<RestartBackOff>,
    pub(crate) image: ImageState,
    /// The error of its creation (`CreateContainerConfigError`, `RunContainerError`).
    pub(crate) error: Option<CreateError>,
    /// The attempt that runs or ran last.
    pub(crate) current: Option<AttemptMemory>,
    /// The end of the wait for which a BackOff event was recorded.
    pub(crate) reported_back_off: Option<Timestamp>,
    /// The last lines of the log of an attempt that failed without a message, by its id.
    pub(crate) log_message: Option<(ContainerId, String)>,
    /// The id and end time of the newest ended attempt.
    pub(crate) ended: Option<(ContainerId, Timestamp)>,
}

/// An attempt that failed before it had a process, or one that only the pod's status lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedAttempt {
    /// The record in the runtime's form.
    pub(crate) record: ContainerRecord,
    /// The reason of its end: `StartError`, `ContainerStatusUnknown`, or that of the status.
    pub(crate) reason: String,
}

/// The back-off of a container's restarts: the delay doubles while the container keeps failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RestartBackOff {
    /// The wait after the next exit.
    pub(crate) delay: Duration,
    /// The time of the container's last restart.
    pub(crate) last_start: Timestamp,
}

/// The state of an image that a container or a volume needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ImageState {
    /// Not requested yet.
    #[default]
    Unknown,
    /// The image is present.
    Present(Image),
    /// It is being pulled.
    Pulling {
        /// The end of the pull.
        end: PullEnd,
        /// The delay after the last failed pull, if one failed.
        waited: Option<Duration>,
    },
    /// It was pulled a moment ago: the next start uses it without asking the registry again.
    Pulled {
        /// The image, as the pod named it when it was pulled.
        name: String,
        /// The image that is present.
        image: Image,
    },
    /// The pull failed.
    Failed {
        /// The image, as the pod named it when it was pulled.
        image: String,
        /// `ErrImagePull`, `ErrImageNeverPull`, `InvalidImageName`.
        reason: &'static str,
        /// The error of the pull.
        message: String,
        /// The time of the failure.
        at: Timestamp,
        /// The delay before the next attempt.
        delay: Duration,
    },
}

impl ImageState {
    /// Returns true if a fault delays its pull.
    pub(crate) fn is_delayed(&self) -> bool {
        matches!(self, Self::Pulling { end: PullEnd::At(_), .. })
    }

    /// The image that the runtime pulls or pulled for the next start, or whose pull failed, as the pod named it.
    pub(crate) fn requested_image(&self) -> Option<&str> {
        match self {
            Self::Pulling { end: PullEnd::Event { image: name, .. }, .. }
            | Self::Pulled { name, .. }
            | Self::Failed { image: name, .. } => Some(name),
            _ => None,
        }
    }

    /// The progress of its pull, in words.
    pub(crate) fn progress(&self) -> Option<&str> {
        match self {
            Self::Pulling { end: PullEnd::Event { progress, .. }, .. } => {
                Some(progress.as_str()).filter(|text| !text.is_empty())
            }
            _ => None,
        }
    }

    /// The image that is present.
    pub(crate) fn present(&self) -> Option<&Image> {
        match self {
            Self::Present(image) | Self::Pulled { image, .. } => Some(image),
            _ => None,
        }
    }

    /// The delay after the last failed pull, if one failed since the image was last used.
    pub(crate) fn failed_delay(&self) -> Option<Duration> {
        match self {
            Self::Failed { delay, .. } => Some(*delay),
            Self::Pulling { waited, .. } => *waited,
            _ => None,
        }
    }
}

/// The end of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PullEnd {
    /// A fault delays the pull until this time, on the steady clock.
    At(Timestamp),
    /// The runtime pulls the image; an event comes at the end.
    Event {
        /// The image, as the pod named it when the pull began.
        image: String,
        /// The progress that the status shows; empty at first.
        progress: String,
    },
}

/// A container could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreateError {
    /// The waiting reason.
    pub(crate) reason: &'static str,
    /// The waiting message.
    pub(crate) message: String,
    /// The time of the next attempt.
    pub(crate) until: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptMemory {
    /// The attempt.
    pub(crate) id: ContainerId,
    /// Its postStart hook.
    pub(crate) post_start: HookState,
    pub(crate) probes: ProbeSet,
    /// It is being stopped.
    pub(crate) stop: Option<ContainerStop>,
    /// The limits in force since its start or its last resize.
    pub(crate) resources: Option<ResourceRequirements>,
}

/// The progress of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HookState {
    /// There is no hook, or it has not started.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It is over; a preStop hook may have failed.
    Done,
    /// It failed with this message.
    Failed(String),
}

/// The end of one container attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerStop {
    /// The time at which it began.
    pub(crate) began: Timestamp,
    /// The grace period, including preStop.
    pub(crate) grace: Duration,
    /// Its preStop hook.
    pub(crate) pre_stop: HookState,
    /// The time at which the container's main process received the stop signal.
    pub(crate) terminated_at: Option<Timestamp>,
    /// The time at which the container's processes were killed.
    pub(crate) killed_at: Option<Timestamp>,
    /// The container restarts at once, regardless of its restart rules: it was stopped to get its new resources or
    /// image.
    pub(crate) for_change: bool,
}

impl ContainerStop {
    /// A stop that begins now.
    pub(crate) fn new(began: Timestamp, grace: Duration) -> Self {
        Self { began, grace, ..Self::default() }
    }

    /// Returns the end of the grace period.
    pub(crate) fn deadline(&self) -> Timestamp {
        saturating_after(self.began, self.grace)
    }
}

static NO_MEMORY: LazyLock<ContainerMemory> = LazyLock::new(ContainerMemory::default);

impl ObservedPod {
    /// The memory of a container; empty for one that was never touched.
    pub(crate) fn memory(&self, name: &str) -> &ContainerMemory {
        self.containers.get(name).map_or(&*NO_MEMORY, |memory| memory)
    }

    /// Returns true if an image is being pulled or was pulled for the next start, or its pull failed.
    pub(crate) fn has_pulls(&self) -> bool {
        let mut of_containers = self.containers.values().map(|memory| &memory.image);
        let is_pull = |image: &ImageState| !matches!(image, ImageState::Unknown | ImageState::Present(_));
        of_containers.any(is_pull) || self.volume_images.values().any(is_pull)
    }

    /// The state of an image.
    pub(crate) fn image(&self, user: &ImageUser) -> &ImageState {
        match user {
            ImageUser::Container(name) => &self.memory(name).image,
            ImageUser::Volume(name) => self.volume_images.get(name).unwrap_or(&ImageState::Unknown),
        }
    }

    /// The state of an image, for changing.
    pub(crate) fn image_mut(&mut self, user: &ImageUser) -> &mut ImageState {
        match user {
            ImageUser::Container(name) => &mut self.memory_mut(name).image,
            ImageUser::Volume(name) => self.volume_images.entry(name.clone()).or_default(),
        }
    }

    /// The memory of a container, for changing.
    pub(crate) fn memory_mut(&mut self, name: &str) -> &mut ContainerMemory {
        self.containers.entry(name.to_string()).or_default()
    }

    /// Every known attempt of a container, oldest first.
    pub(crate) fn attempts<'a>(
        &'a self,
        name: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a ContainerRecord> {
        let known = self.sandbox.iter().flat_map(|s| &s.containers).filter(move |c| c.name == name);
        let unrecorded = self.memory(name).unrecorded.as_ref().map(|u| &u.record);
        let superseded = unrecorded.is_some_and(|u| known.clone().any(|c| c.attempt > u.attempt));
        unrecorded.filter(|_| superseded).into_iter().chain(known).chain(unrecorded.filter(|_| !superseded))
    }

    /// The newest attempt of a container.
    pub(crate) fn latest<'a>(&'a self, name: &'a str) -> Option<&'a ContainerRecord> {
        self.attempts(name).next_back()
    }

    /// The attempt before the newest.
    pub(crate) fn previous<'a>(&'a self, name: &'a str) -> Option<&'a ContainerRecord> {
        self.attempts(name).rev().nth(1)
    }

    /// The newest attempt, when it belongs to the sandbox that lives now (INIT-2).
    pub(crate) fn latest_in_sandbox<'a>(&'a self, name: &'a str) -> Option<&'a ContainerRecord> {
        let made = self.sandbox.as_ref().filter(|s| s.ready)?.created_at;
        self.latest(name).filter(|c| c.started_at >= made)
    }

    /// Converts a time of a record to the node's clock, for display.
    pub(crate) fn display_time(&self, at: Timestamp) -> Time {
        time(at.checked_add(self.skew).unwrap_or(at))
    }

    /// Converts a time of the node's clock to the clock of records.
    pub(crate) fn recorded(&self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.skew).unwrap_or(at)
    }

    /// Converts the wall-clock times from which durations count to the steady clock, at `now` on the machine's clock,
    /// before the wall clock is set. `started` is the start time in the pod's status, by the node's clock.
    pub(crate) fn record_times(&mut self, started: Option<Timestamp>, now: ClockReading) {
        if self.active_since.is_none() {
            self.active_since = started.map(|started| now.steady_of(self.recorded(started)));
        }
        let records = self.sandbox.iter().flat_map(|s| &s.containers).map(|c| c.name.as_str());
        let names: BTreeSet<&str> = records.chain(self.containers.keys().map(String::as_str)).collect();
        let ended = names.into_iter().filter_map(|name| {
            let record = self.latest(name)?;
            let exit = record.exit.as_ref()?;
            let known = self.memory(name).ended.as_ref().is_some_and(|(id, _)| *id == record.id);
            (!known).then(|| (name.to_string(), (record.id.clone(), now.steady_of(exit.finished_at))))
        });
        for (name, ended) in ended.collect::<Vec<_>>() {
            self.memory_mut(&name).ended = Some(ended);
        }
    }

    /// The end of an attempt; none while it runs.
    pub(crate) fn ended_at(&self, record: &ContainerRecord) -> Option<Timestamp> {
        let exit = record.exit.as_ref()?;
        let recorded = self.memory(&record.name).ended.as_ref().filter(|(id, _)| *id == record.id);
        Some(recorded.map_or(exit.finished_at, |(_, at)| *at))
    }

    /// Returns true if the newest attempt runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.latest(name).is_some_and(|c| c.exit.is_none())
    }

    /// Returns the memory of this attempt, unless a later attempt has replaced it.
    pub(crate) fn current(&self, record: &ContainerRecord) -> Option<&AttemptMemory> {
        self.memory(&record.name).current.as_ref().filter(|a| a.id == record.id)
    }

    /// Returns true if the attempt ended, or is ending, so that the next one gets other resources or another image.
    pub(crate) fn restarts_for_change(&self, record: &ContainerRecord) -> bool {
        self.current(record).and_then(|attempt| attempt.stop.as_ref()).is_some_and(|stop| stop.for_change)
    }

    /// Returns true if the sandbox is alive.
    pub(crate) fn sandbox_ready(&self) -> bool {
        self.sandbox.as_ref().is_some_and(|s| s.ready)
    }

    /// Returns true if the attempt runs and counts as started: its hook is over and its startup probe, if any, has
    /// succeeded.
    pub(crate) fn started(&self, record: &ContainerRecord) -> bool {
        record.exit.is_none()
            && self.current(record).is_none_or(|attempt| {
                matches!(attempt.post_start, HookState::Done) && attempt.probes.startup_passed()
            })
    }

    /// Returns true if the attempt serves: it is started and its readiness probe, if any, succeeds.
    pub(crate) fn ready(&self, record: &ContainerRecord) -> bool {
        self.started(record) && self.current(record).is_none_or(|attempt| attempt.probes.ready())
    }
}
