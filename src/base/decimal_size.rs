//! Sizes of images as text.

/// `3.2MB`, in the decimal units image tools use.
pub fn decimal_size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.5 {
        format!("{value:.0}{}", units[unit])
    } else {
        format!("{value:.1}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_in_image_tools() {
        for (bytes, text) in
            [(0, "0B"), (999, "999B"), (1000, "1.0kB"), (4_261_502, "4.3MB"), (187_000_000, "187MB")]
        {
            assert_eq!(decimal_size(bytes), text);
        }
    }
}
