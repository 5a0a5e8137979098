//! The tables of HyperLogLog++: the bias of raw estimates, and the limits up to which linear counting is better.
//!
//! The algorithm's authors measured them (appendix of "HyperLogLog in Practice", 2013). `bias.csv` lists the raw
//! estimates of each precision in the order of publication, which is nearly sorted.

use once_cell::race::OnceBox;

const FIRST: u32 = 4;
/// How many neighbours of a raw estimate determine its bias.
const NEIGHBOURS: usize = 6;
const THRESHOLDS: [f64; 15] = [
    10.0, 20.0, 40.0, 80.0, 220.0, 400.0, 900.0, 1_800.0, 3_100.0, 6_500.0, 15_500.0, 20_000.0, 50_000.0, 120_000.0,
    350_000.0,
];

/// (raw estimate, bias) by precision. Built by the first thread that needs it. No thread waits for another: after a
/// fork, that thread may not exist.
static TABLES: OnceBox<Vec<Vec<(f64, f64)>>> = OnceBox::new();

fn tables() -> &'static [Vec<(f64, f64)>] {
    TABLES.get_or_init(|| Box::new(read_tables()))
}

fn read_tables() -> Vec<Vec<(f64, f64)>> {
    let mut tables = vec![Vec::new(); THRESHOLDS.len()];
    for line in include_str!("bias.csv").lines().skip(1) {
        let numbers: Vec<f64> = line.split(',').filter_map(|number| number.parse().ok()).collect();
        if let [precision, estimate, bias] = numbers[..] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "4 to 18")]
            tables[(precision as u32 - FIRST) as usize].push((estimate, bias));
        }
    }
    tables
}

/// Return the greatest linear count that is better than the corrected estimate.
pub(super) fn threshold(precision: u32) -> f64 {
    THRESHOLDS[(precision - FIRST) as usize]
}

/// Return the bias of a raw estimate: the mean bias of its nearest neighbours.
#[expect(clippy::cast_precision_loss, reason = "six at most")]
pub(super) fn of(raw: f64, precision: u32) -> f64 {
    let table = &tables()[(precision - FIRST) as usize];
    let distance = |at: usize| (raw - table[at].0).powi(2);
    let mut low = position(table, raw).saturating_sub(NEIGHBOURS - 1);
    let mut high = (low + NEIGHBOURS).min(table.len());
    while high < table.len() && distance(high) < distance(low) {
        (low, high) = (low + 1, high + 1);
    }
    table[low..high].iter().map(|(_, bias)| bias).sum::<f64>() / (high - low) as f64
}

/// Return the position of `raw` in a table. Two of the tables are not quite sorted, so the steps of the search matter;
/// they are the same as in Java's binary search.
fn position(table: &[(f64, f64)], raw: f64) -> usize {
    let (mut low, mut high) = (0, table.len());
    while low < high {
        let middle = usize::midpoint(low, high - 1);
        if table[middle].0 < raw {
            low = middle + 1;
        } else if table[middle].0 > raw {
            high = middle;
        } else {
            return middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::tables;

    #[test]
    fn all_lines_of_the_tables_are_read() {
        let rows: Vec<usize> = tables().iter().map(Vec::len).collect();
        assert_eq!(rows, [79, 159, 200, 200, 200, 201, 200, 201, 201, 200, 201, 201, 200, 201, 200]);
    }
}
