//! Numbers as the network writes them.

/// The shortest decimal text that reads back as `number`. Without an exponent or a negative zero.
#[must_use]
pub fn decimal(number: f64) -> String {
    format!("{}", number + 0.0)
}
