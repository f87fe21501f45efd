//! Tests of the list of indices.

use super::*;

fn of_ten(text: &str) -> Outcome<Vec<u64>> {
    parse(text, |index| {
        let at = if index < 0 { index + 10 } else { index };
        u64::try_from(at)
            .ok()
            .filter(|at| *at < 10)
            .ok_or_else(|| Error::out_of_range(index, 10))
    })
}

#[test]
fn lists_ranges_and_negative_numbers_keep_their_order() {
    assert_eq!(of_ten("3,1, -1").unwrap(), [3, 1, 9]);
    assert_eq!(of_ten("2..5,0").unwrap(), [2, 3, 4, 0]);
    assert_eq!(of_ten("-3..0").unwrap(), Vec::<u64>::from([7, 8, 9]));
    assert_eq!(of_ten("5..5").unwrap(), [0_u64; 0]);
    assert_eq!(of_ten("").unwrap(), [0_u64; 0]);
}

#[test]
fn nonsense_is_a_usage_error_and_a_wrong_index_is_out_of_range() {
    assert!(matches!(of_ten("one"), Err(Failure::Usage(text)) if text.contains("`one`")));
    assert!(
        matches!(of_ten("10"), Err(Failure::Error(e)) if e.kind() == staddle_base::ErrorKind::OutOfRange)
    );
    assert!(matches!(of_ten("0..4000000000"), Err(Failure::Error(_))));
}
