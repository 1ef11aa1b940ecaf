//! Amounts: whole numbers with 18 decimals, as contracts reckon.

use std::iter::repeat;

use num_bigint::BigUint;

/// How many of an amount's digits stand behind the point.
pub const DECIMALS: usize = 18;

/// The most digits that are read: those of the largest amount, and as many again behind it.
const DIGITS_MAX: usize = 160;

/// Why a decimal is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// Contracts of this kind know no numbers below zero.
    #[error("write {text} as an unsigned integer, since it is negative")]
    Negative {
        /// The text that is no such number.
        text: String,
    },
    /// It has no place in 256 bits.
    #[error("write a number of that size in 256 bits")]
    TooLarge,
    /// It is no decimal.
    #[error("read a decimal number")]
    NoNumber,
}

/// A number of 256 bits, which counts units of 10⁻¹⁸.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub struct Amount(BigUint);

impl Amount {
    /// The amount that `text` is, cut after [`DECIMALS`] decimals. Nothing is rounded by way of a
    /// double.
    ///
    /// # Errors
    /// [`AmountError`] says why it is none.
    pub fn of_decimal(text: &str) -> Result<Self, AmountError> {
        let text = text.trim();
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                (mantissa, exponent.parse::<i64>().map_err(|_| AmountError::NoNumber)?)
            }
            None => (text, 0),
        };
        let (is_negative, plain) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, part) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = format!("{whole}{part}");
        let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits || digits.is_empty() || digits.len() > DIGITS_MAX {
            return Err(AmountError::NoNumber);
        }
        if is_negative && digits.bytes().any(|digit| digit != b'0') {
            return Err(AmountError::Negative { text: text.to_owned() });
        }
        let significant = digits.trim_start_matches('0');
        // How many of them stand before the point of the amount.
        let n_before = i64::try_from(whole.len() + DECIMALS).unwrap_or(i64::MAX);
        let n_zeros = i64::try_from(digits.len() - significant.len()).unwrap_or(i64::MAX);
        let n_kept = n_before.saturating_add(exponent).saturating_sub(n_zeros);
        if significant.is_empty() || n_kept <= 0 {
            return Ok(Self(BigUint::ZERO));
        }
        let n_kept = usize::try_from(n_kept).ok().filter(|n_kept| *n_kept <= DIGITS_MAX);
        let n_kept = n_kept.ok_or(AmountError::TooLarge)?;
        let kept: String = significant.chars().chain(repeat('0')).take(n_kept).collect();
        let amount: BigUint = kept.parse().map_err(|_| AmountError::NoNumber)?;
        if amount.bits() > 256 { Err(AmountError::TooLarge) } else { Ok(Self(amount)) }
    }

    /// The number in 32 bytes, most significant byte first.
    pub fn bytes(&self) -> [u8; 32] {
        let bytes = self.0.to_bytes_be();
        let mut word = [0; 32];
        for (place, byte) in word.iter_mut().rev().zip(bytes.iter().rev()) {
            *place = *byte;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(Amount::of_decimal(text).map(|amount| amount.to_string()), Ok(want.to_owned()));
    }

    #[test]
    fn decimals_are_moved_by_eighteen_places() {
        check("3365.485208027959", "3365485208027959000000");
        check("0", "0");
        check("-0.0", "0");
        check("2.28", "2280000000000000000");
        check("1e-18", "1");
        check("3e1", "30000000000000000000");
        check("12.5E-1", "1250000000000000000");
        check(".5", "500000000000000000");
    }

    #[test]
    fn what_is_behind_the_last_place_is_cut_off() {
        check("0.0000000000000000019", "1");
        check("1e-19", "0");
        check("1e-400", "0");
    }

    #[test]
    fn no_double_is_in_between() {
        check("90071992547409931234.000000000000000001", "90071992547409931234000000000000000001");
        let largest =
            "115792089237316195423570985008687907853269984665640564039457.584007913129639935";
        check(largest, &largest.replace('.', ""));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let negative = AmountError::Negative { text: "-1.5".to_owned() };
        assert_eq!(Amount::of_decimal("-1.5"), Err(negative));
        assert_eq!(Amount::of_decimal("1e60"), Err(AmountError::TooLarge));
        assert_eq!(Amount::of_decimal("1e999999999999"), Err(AmountError::TooLarge));
        for text in ["", "x", "1.2.3", "0x10", "1e", "NaN", "--1"] {
            assert_eq!(Amount::of_decimal(text), Err(AmountError::NoNumber), "{text}");
        }
    }
}
