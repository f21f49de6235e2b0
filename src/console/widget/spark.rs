//! A line of small bars, one a number.
//!
//! A text, because it stands within the title of a frame, where ratatui's `Sparkline`, which wants an area of its own,
//! cannot; that one rounds down, so that a single event beside a hundred would be invisible.

const EIGHTHS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The numbers as bars, the greatest as high as the line. A zero is a dot, anything more is seen.
pub(crate) fn spark(numbers: &[usize]) -> String {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let bar = |number: &usize| EIGHTHS[(number * 8).div_ceil(most).min(8)];
    numbers.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_seen_beside_great_ones_con_2() {
        for (numbers, drawn) in
            [(vec![], ""), (vec![0, 0], "··"), (vec![1, 2, 4], "▂▄█"), (vec![0, 1, 1_000], "·▁█")]
        {
            assert_eq!(spark(&numbers), drawn, "{numbers:?}");
        }
    }
}
