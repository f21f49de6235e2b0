//! Volumes, claims and storage classes.

use super::{AGE, Column, NAME, text, wide};

const MODE: Column = wide("VolumeMode", "Whether the volume is a file system or a block device.");
const CLASS_NAME: Column = text("StorageClass", "The class the storage is of.");
const ATTRIBUTES: Column = text("VolumeAttributesClass", "The class of attributes of the volume.");
const ACCESS: Column = text("Access Modes", "How the volume may be mounted.");

pub(super) const CLASS: &[Column] = &[
    NAME,
    text("Provisioner", "Who makes volumes of this class."),
    text("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
    text("VolumeBindingMode", "When claims are bound."),
    text("AllowVolumeExpansion", "Whether claims may grow."),
    AGE,
];

pub(super) const VOLUME: &[Column] = &[
    NAME,
    text("Capacity", "How much the volume holds."),
    ACCESS,
    text("Reclaim Policy", "What becomes of the volume when its claim is gone."),
    text("Status", "The volume's phase."),
    text("Claim", "The claim the volume is bound to."),
    CLASS_NAME,
    ATTRIBUTES,
    text("Reason", "Why the volume is in its phase."),
    AGE,
    MODE,
];

pub(super) const CLAIM: &[Column] = &[
    NAME,
    text("Status", "The claim's phase."),
    text("Volume", "The volume the claim is bound to."),
    text("Capacity", "How much the volume holds."),
    ACCESS,
    CLASS_NAME,
    ATTRIBUTES,
    AGE,
    MODE,
];
