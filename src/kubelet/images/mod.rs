//! Images: what an image reference means on this machine.
//!
//! Nothing is downloaded. A reference resolves in the [`Catalogue`]: to an entry of the user's, to an image that
//! was loaded into the [`ImageStore`], to a small server built into this binary, or to a program the machine
//! already has. The catalogue only answers; it never starts anything.

pub mod builtin;
pub mod catalogue;
pub mod entry;
mod nslookup;
mod present;
mod program;
pub mod reference;
mod signal;
pub mod store;
mod web;

pub use catalogue::{Catalogue, CatalogueImage, ImageOrigin, Program, ResolveError, ResolvedImage};
pub use entry::{ImageEntry, ImageEnv, UserImageSource, UserImages};
pub(super) use present::PresentImages;
pub use program::{image_program_main, is_image_program};
pub use reference::{ImageReference, InvalidReference};
pub(in crate::kubelet) use signal::signal_number;
pub(super) use store::Beneath;
pub use store::{ImageStore, StoredImage};

/// The file that marks a directory as brought along by an image and not filled yet.
pub const IMAGE_DIRECTORY: &str = ".podium-image";
