//! Explains how a reference resolves: `podium image explain` (IMG-9).

use super::{Catalogue, ImageOrigin, MissingTag, best_match, candidates, missing_tag, other_owners};
use crate::ImageReference;
use crate::registry::PullMode;

/// The way a reference resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reference with its registry, repository and tag or digest.
    pub name: String,
    /// The sources in their order; the first one that has the image gives it.
    pub steps: Vec<Step>,
}

/// One source of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The source.
    pub source: &'static str,
    /// The source gives the image, if no earlier one does.
    pub applies: bool,
    /// The image that the source has, or the reason why it does not apply.
    pub reason: String,
}

impl Catalogue {
    /// Explains how a reference resolves; an error says why it is not valid.
    pub fn explain(&self, reference: &str) -> Result<Explanation, String> {
        let parsed =
            ImageReference::parse(reference).map_err(|error| format!("image name {reference:?}: {error}"))?;
        let steps = vec![
            self.explain_stored(&parsed),
            self.explain_entry(&parsed),
            self.explain_builtin(&parsed),
            self.explain_registry(&parsed),
        ];
        Ok(Explanation { name: parsed.full_name(), steps })
    }

    /// The origin of the image that a reference means on this machine; `None` if only a registry may have it.
    pub fn origin(&self, reference: &str) -> Option<ImageOrigin> {
        let parsed = ImageReference::parse(reference).ok()?;
        if self.loaded(&parsed).is_some() {
            return Some(ImageOrigin::Loaded);
        }
        let user = self.user.current();
        if best_match(&candidates(&user.entries, &parsed), &parsed).is_some() {
            return Some(ImageOrigin::User);
        }
        self.builtin(&parsed.name()).map(|_| ImageOrigin::Builtin)
    }

    fn explain_stored(&self, parsed: &ImageReference) -> Step {
        let found = self.loaded(parsed);
        let other = self.of_other_owners(parsed).filter(|_| found.is_none());
        let reason = match (&found, &other) {
            (Some(image), _) => format!("{} ({})", image.id, image.platform),
            (None, Some(image)) => other_owners(&parsed.to_string(), image),
            (None, None) => "no image of this name was loaded or pulled".to_owned(),
        };
        Step { source: "loaded or pulled image", applies: found.is_some(), reason }
    }

    fn explain_entry(&self, parsed: &ImageReference) -> Step {
        let user = self.user.current();
        let candidates = candidates(&user.entries, parsed);
        let entry = best_match(&candidates, parsed);
        let reason = match (entry, candidates.is_empty()) {
            (Some(entry), _) => format!("the entry {}", entry.name),
            (None, true) => {
                format!("neither the config file nor {} has an entry of this name", self.location)
            }
            (None, false) => "the entries of this name have other tags".to_owned(),
        };
        Step { source: "entry of yours", applies: entry.is_some(), reason }
    }

    fn explain_builtin(&self, parsed: &ImageReference) -> Step {
        let image = self.builtin(&parsed.name());
        let missing = image.and_then(|image| missing_tag(image, parsed));
        let reason = match (image, missing) {
            (_, Some(missing)) => missing.reason().to_owned(),
            (Some(image), None) => format!("Podium's own {}", image.name()),
            (None, None) if self.pull == PullMode::Registry => {
                "the config file has registry.pull: registry, and registry.builtin does not name it"
                    .to_owned()
            }
            (None, None) => {
                "none stands for this repository, and registry.builtin does not name it".to_owned()
            }
        };
        Step { source: "built-in image", applies: image.is_some() && missing.is_none(), reason }
    }

    fn explain_registry(&self, parsed: &ImageReference) -> Step {
        let missing = self.builtin(&parsed.name()).and_then(|image| missing_tag(image, parsed));
        let (applies, reason) = match missing {
            _ if self.pull == PullMode::Never => {
                (false, "the config file has registry.pull: never".to_owned())
            }
            Some(MissingTag::Nonexistent(reason)) => (false, reason.to_owned()),
            _ => (true, parsed.registry_host().to_owned()),
        };
        Step { source: "registry", applies, reason }
    }
}
