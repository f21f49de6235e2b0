//! Images: what a reference means on this machine.
//!
//! A reference resolves in the [`Catalogue`]: to an entry of the user's, to an image that was loaded into the
//! [`ImageStore`], to a small server built into this binary, or to a program that the machine already has. The catalogue
//! only resolves; it never starts and never downloads anything. [`registry`] pulls images from registries and pushes
//! them.

mod accounts;
mod builtin;
mod catalogue;
mod entry;
mod explain;
pub mod garbage;
mod image_build;
mod pull;
pub mod push;
mod reference;
pub mod registry;
mod removal;
mod signal;
pub mod store;

pub use accounts::password_file;
pub use catalogue::{Catalogue, CatalogueImage, Explanation, ImageOrigin, ResolveError, ResolvedImage, Step};
pub use entry::{ImageEntry, ImageEnv, UserImageSource, UserImages};
pub use explain::{ExplainedSources, explain_registry, explain_sources};
pub use image_build::ImageBuild;
pub use pull::{PullError, PullSecret, Puller, RunningPull};
pub use reference::{ImageReference, InvalidReference};
pub use removal::{remove_unused, remove_unused_names};
pub use signal::signal_number;
pub use store::{ImageStore, StoredImage};

/// An image on this machine: the fields of CRI's `Image` that a kubelet reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The identity shown as `imageID`.
    pub image_id: String,
    /// Its size on the machine, in bytes; shown in the Node's `status.images`.
    pub size_bytes: u64,
}
