//! Selects the platform of an image that this machine can run.

use serde::Deserialize;

/// A platform as image indexes and configurations write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) variant: String,
}

impl Platform {
    /// The machine's own.
    pub(crate) fn machine() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "x86" => ("386", ""),
            "aarch64" => ("arm64", "v8"),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        Self { os: "linux".into(), architecture: architecture.into(), variant: variant.into() }
    }

    /// Returns true if programs for `self` run on `machine`; an unnamed variant matches any.
    pub(crate) fn runs_on(&self, machine: &Self) -> bool {
        self.os == machine.os
            && self.architecture == machine.architecture
            && (self.variant.is_empty() || machine.variant.is_empty() || self.variant <= machine.variant)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_platform_is_chosen() {
        let platform = |text: &str| {
            let mut parts = text.split('/').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            Platform { os: next(), architecture: next(), variant: next() }
        };
        let table = [
            ("linux/amd64", "linux/amd64", true),
            ("linux/amd64/v2", "linux/amd64", true),
            ("linux/arm64", "linux/arm64/v8", true),
            ("linux/arm/v6", "linux/arm/v7", true),
            ("linux/arm/v7", "linux/arm/v6", false),
            ("windows/amd64", "linux/amd64", false),
            ("linux/arm64/v8", "linux/amd64", false),
            ("unknown/unknown", "linux/amd64", false),
        ];
        for (image, machine, expect) in table {
            assert_eq!(platform(image).runs_on(&platform(machine)), expect, "{image} on {machine}");
        }
    }
}
