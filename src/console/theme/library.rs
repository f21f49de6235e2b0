//! The themes there are: those shipped and those in the user's configuration directory.

use std::path::Path;

use super::{Theme, ThemeError};

/// The theme used when none is named.
pub const DEFAULT: &str = "night";

const SHIPPED: &[(&str, &str)] = &[
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
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Shipped themes and the user's, read anew at each call so that a file being edited is seen.
/// A user's theme of the same name comes in place of the shipped one.
pub fn all(config_dir: Option<&Path>) -> Vec<(String, Result<Theme, ThemeError>)> {
    let mut themes: Vec<(String, Result<Theme, ThemeError>)> = SHIPPED
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Theme::parse(name, &format!("{name}.toml"), text)))
        .collect();
    let folder = config_dir.map(|dir| dir.join("themes"));
    let Some(entries) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else { return themes };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let (Some(stem), Some("toml")) =
            (path.file_stem().and_then(|s| s.to_str()), path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let theme = Theme::parse(stem, &path.display().to_string(), &text);
        match themes.iter_mut().find(|(name, _)| name == stem) {
            Some(place) => place.1 = theme,
            None => themes.push((stem.to_owned(), theme)),
        }
    }
    themes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::theme::depth::rgb;
    use ratatui::style::{Color, Style};

    fn luminance((r, g, b): (u8, u8, u8)) -> f64 {
        let part = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
    }

    fn contrast(a: (u8, u8, u8), b: (u8, u8, u8)) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn con_13_shipped_themes_can_be_read_and_have_contrast() {
        let themes = all(None);
        assert!(themes.len() >= 8);
        for (name, theme) in themes {
            let theme = theme.expect("a shipped theme parses");
            let ground = theme.body.text.bg.and_then(rgb).unwrap_or((0, 0, 0));
            // Themes on the terminal's own ground cannot be judged; they use its own colours.
            if theme.body.text.bg.is_none_or(|bg| bg == Color::Reset) {
                continue;
            }
            let least = if name == "contrast" { 7.0 } else { 4.5 };
            let parts: [(&str, Style); 16] = [
                ("body.text", theme.body.text),
                ("body.accent", theme.body.accent),
                ("header.title", theme.header.title),
                ("status.running", theme.status.running),
                ("status.pending", theme.status.pending),
                ("status.failed", theme.status.failed),
                ("status.crashing", theme.status.crashing),
                ("status.terminating", theme.status.terminating),
                ("status.succeeded", theme.status.succeeded),
                ("status.unknown", theme.status.unknown),
                ("table.header", theme.table.header),
                ("table.cursor", theme.table.cursor),
                ("table.mark", theme.table.mark),
                ("help.key", theme.help.key),
                ("yaml.key", theme.yaml.key),
                ("dialog.focus", theme.dialog.focus),
            ];
            for (part, style) in parts {
                let front = style.fg.and_then(rgb).or(theme.body.text.fg.and_then(rgb)).expect("a colour");
                let back = style.bg.and_then(rgb).unwrap_or(ground);
                let found = contrast(front, back);
                assert!(found >= least, "{name}: {part} has contrast {found:.1}, wants {least}");
            }
            let dim = theme.body.dim.fg.and_then(rgb).expect("a colour");
            assert!(contrast(dim, ground) >= 3.0, "{name}: body.dim");
        }
    }
}
