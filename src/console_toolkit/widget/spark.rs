//! A sparkline: one small bar for each number.
//!
//! A sparkline is a text, because it is part of a frame's title; ratatui's `Sparkline` needs an area of its own. That
//! one also rounds down, so that a single event beside a hundred would be invisible.

const EIGHTHS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the numbers as bars, scaled to the greatest one. A zero is a dot; every other number is visible.
pub fn spark(numbers: &[usize]) -> String {
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
