//! Semantic versions (semver.org), as Kubernetes' `semver()` reads and compares them.

use std::cmp::Ordering;

use base::quote::quote;

/// A version, without its build metadata, which does not matter in comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemanticVersion {
    pub(super) major: u64,
    pub(super) minor: u64,
    pub(super) patch: u64,
    /// The identifiers of a pre-release, with dots between them; empty for a release.
    pre_release: Box<str>,
}

impl SemanticVersion {
    /// Parses a version of three numbers; `normalize` also accepts a leading `v`, leading zeros, and missing
    /// minor and patch numbers.
    pub(super) fn parse(text: &str, normalize: bool) -> Result<Self, String> {
        if normalize { Self::parse_strictly(&normalized(text)?) } else { Self::parse_strictly(text) }
    }

    fn parse_strictly(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".into());
        };
        let (major, minor) = (number("major", "Major", major)?, number("minor", "Minor", minor)?);
        let (patch, build) = split(patch, '+');
        let (patch, pre_release) = split(patch, '-');
        let patch = number("patch", "Patch", patch)?;
        for part in pre_release.into_iter().flat_map(|all| all.split('.')) {
            if part.is_empty() {
                return Err("Prerelease is empty".into());
            }
            if !is_identifier(part) {
                return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
            }
            if is_numeric(part) {
                if has_leading_zero(part) {
                    let quoted = quote(part);
                    return Err(format!(
                        "Numeric PreRelease version must not contain leading zeroes {quoted}"
                    ));
                }
                parse_number(part)?;
            }
        }
        for part in build.into_iter().flat_map(|all| all.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".into());
            }
            if !is_identifier(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
            }
        }
        Ok(Self { major, minor, patch, pre_release: pre_release.unwrap_or_default().into() })
    }

    /// Returns the number of bytes that a comparison may read.
    pub(super) fn bytes(&self) -> usize {
        self.pre_release.len()
    }
}

impl Ord for SemanticVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release follows its pre-releases.
        let numbers = |of: &Self| (of.major, of.minor, of.patch, of.pre_release.is_empty());
        numbers(self).cmp(&numbers(other)).then_with(|| {
            let others = other.pre_release.split('.').map(Identifier::of);
            self.pre_release.split('.').map(Identifier::of).cmp(others)
        })
    }
}

impl PartialOrd for SemanticVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An identifier of a pre-release: numbers precede words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'v> {
    Number(u64),
    Word(&'v str),
}

impl<'v> Identifier<'v> {
    fn of(text: &'v str) -> Self {
        text.parse().map_or(Self::Word(text), Self::Number)
    }
}

/// Returns the text before a letter, and the text after it if it occurs.
fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn number(name: &str, at_start: &str, text: &str) -> Result<u64, String> {
    if !is_numeric(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if has_leading_zero(text) {
        return Err(format!("{at_start} number must not contain leading zeroes {}", quote(text)));
    }
    parse_number(text)
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {reason}", quote(text))
    })
}

fn is_numeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".into());
    }
    parts.resize(3, "0".into());
    Ok(parts.join("."))
}

fn without_leading_zeros(part: &str) -> String {
    match part.trim_start_matches('0') {
        _ if part.len() <= 1 => part.into(),
        rest if rest.starts_with(|first: char| first.is_ascii_digit()) => rest.into(),
        rest => format!("0{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_semver_org_api_14() {
        let ordered = [
            "0.9.10", "1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.9", "1.0.0-alpha.10",
            "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0", "1.0.1", "1.2.0", "1.10.0",
            "18446744073709551615.0.0",
        ];
        let versions = ordered.map(|text| SemanticVersion::parse(text, false).unwrap());
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
        let build = |text| SemanticVersion::parse(text, false).unwrap();
        assert_eq!(build("1.2.3-a+x.1"), build("1.2.3-a+y"));
    }

    #[test]
    fn errors_of_versions_are_kubernetes_api_14() {
        for (text, normalize, expected) in [
            ("", false, "Version string empty"),
            ("v1.0", false, "No Major.Minor.Patch elements found"),
            ("v1.0.0", false, "Invalid character(s) found in major number \"v1\""),
            ("1. 0.0", true, "Invalid character(s) found in minor number \"0 0\""),
            ("1.0.0 ", true, "Invalid character(s) found in patch number \"0 \""),
            ("1.01.0", false, "Minor number must not contain leading zeroes \"01\""),
            ("1..0", false, "strconv.ParseUint: parsing \"\": invalid syntax"),
            (
                "18446744073709551616.0.0",
                false,
                "strconv.ParseUint: parsing \"18446744073709551616\": value out of range",
            ),
            ("1.0.0-a..b", false, "Prerelease is empty"),
            ("1.0.0-", false, "Prerelease is empty"),
            ("1.0.0-a_b", false, "Invalid character(s) found in prerelease \"a_b\""),
            ("1.0.0-01", false, "Numeric PreRelease version must not contain leading zeroes \"01\""),
            ("1.0.0+", false, "Build meta data is empty"),
            ("1.0.0+é", false, "Invalid character(s) found in build meta data \"é\""),
            ("1.0-rc", true, "short version cannot contain PreRelease/Build meta data"),
            ("", true, "strconv.ParseUint: parsing \"\": invalid syntax"),
            ("v", true, "strconv.ParseUint: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(SemanticVersion::parse(text, normalize), Err(expected.into()), "{text}");
        }
        for (text, plain) in
            [("v01.01", "1.1.0"), ("1", "1.0.0"), ("v1.00.03-rc.1", "1.0.3-rc.1"), ("0.0.0", "0.0.0")]
        {
            let normalized = SemanticVersion::parse(text, true);
            assert_eq!(normalized, SemanticVersion::parse(plain, false), "{text}");
        }
    }
}
