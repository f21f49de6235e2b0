//! The themes that ship with the console, as text.

/// The default theme.
pub const DEFAULT: &str = "night";

pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("night", include_str!("../../../themes/night.toml")),
    ("paper", include_str!("../../../themes/paper.toml")),
    ("contrast", include_str!("../../../themes/contrast.toml")),
    ("clear", include_str!("../../../themes/clear.toml")),
    ("ansi", include_str!("../../../themes/ansi.toml")),
    ("dusk", include_str!("../../../themes/dusk.toml")),
    ("forest", include_str!("../../../themes/forest.toml")),
    ("nord", include_str!("../../../themes/nord.toml")),
];

/// Names of the shipped themes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
