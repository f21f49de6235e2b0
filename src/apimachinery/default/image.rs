//! The default pull policy of an image.

use super::set_text;

/// Images with the tag `latest` or without a tag are pulled every time.
pub(super) fn pull_policy(image: Option<&str>, policy: &mut Option<String>) {
    let latest = tag(image.unwrap_or_default()).is_none_or(|tag| tag == "latest");
    set_text(policy, if latest { "Always" } else { "IfNotPresent" });
}

/// Returns the tag of an image reference. A digest counts as a tag.
fn tag(image: &str) -> Option<&str> {
    if let Some((_, digest)) = image.split_once('@') {
        return Some(digest);
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides_the_pull_policy_img_1() {
        for (image, expected) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.16", "IfNotPresent"),
            ("localhost:5000/nginx", "Always"),
            ("localhost:5000/nginx:1", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
        ] {
            let mut policy = None;
            pull_policy(Some(image), &mut policy);
            assert_eq!(policy.as_deref(), Some(expected), "{image}");
        }
    }
}
