//! Meaning of the values of a Parquet column.

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::schema::types::Type;

/// Maximum number of digits of a supported decimal, which has 128 bits.
const DECIMAL_DIGITS_MAX: i32 = 38;

/// Meaning of the stored values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Booleans, integers, floats, or texts, as stored.
    Plain,
    /// Integers without a sign.
    Unsigned,
    /// Floating-point numbers of 16 bits.
    Half,
    /// Integers with this number of digits after the decimal point.
    Decimal { n_decimals: u32 },
    /// Days since 1970, without a time zone.
    Date,
    /// Time since 1970, either in UTC or without a time zone.
    Timestamp { unit: TimeUnit, is_utc: bool },
    /// Time since midnight.
    TimeOfDay(TimeUnit),
    /// 16 bytes, formatted with hyphens.
    Uuid,
}

impl Kind {
    /// Returns the meaning of a top-level column.
    ///
    /// # Errors
    /// Reason why datasets do not support the column.
    pub(super) fn classify(column: &Type) -> Result<Self, String> {
        let basic = column.get_basic_info();
        let none = |what: &str| Err(format!("values are {what}, which datasets do not support"));
        if column.is_group() {
            return match (basic.logical_type_ref(), basic.converted_type()) {
                (Some(LogicalType::List), _) | (_, ConvertedType::LIST) => none("lists"),
                (Some(LogicalType::Map), _) | (_, ConvertedType::MAP) => none("maps"),
                _ => none("nested values"),
            };
        }
        if basic.has_repetition() && basic.repetition() == Repetition::REPEATED {
            return none("lists");
        }
        let of_logical = basic.logical_type_ref().and_then(|logical| of_logical(logical, column));
        let kind = match of_logical {
            Some(kind) => kind,
            None => of_converted(basic.converted_type(), column),
        };
        match (column.get_physical_type(), kind) {
            (_, Err(what)) => none(what),
            (Physical::FIXED_LEN_BYTE_ARRAY, Ok(Self::Plain)) => none("bytes"),
            (_, Ok(kind)) => Ok(kind),
        }
    }
}

/// Returns the meaning by the logical type, or `None` if it is unknown.
fn of_logical(logical: &LogicalType, column: &Type) -> Option<Result<Kind, &'static str>> {
    Some(match logical {
        LogicalType::Decimal(_) => decimal(column),
        LogicalType::Date => Ok(Kind::Date),
        LogicalType::Time(time) => Ok(Kind::TimeOfDay(time.unit)),
        LogicalType::Timestamp(timestamp) => {
            Ok(Kind::Timestamp { unit: timestamp.unit, is_utc: timestamp.is_adjusted_to_u_t_c })
        }
        LogicalType::Integer(integer) if !integer.is_signed => Ok(Kind::Unsigned),
        LogicalType::Integer(_)
        | LogicalType::String
        | LogicalType::Enum
        | LogicalType::Json
        | LogicalType::Unknown => Ok(Kind::Plain),
        LogicalType::Uuid => Ok(Kind::Uuid),
        LogicalType::Float16 => Ok(Kind::Half),
        LogicalType::Bson => Err("BSON"),
        LogicalType::Variant(_) => Err("values of several types"),
        LogicalType::Geometry(_) | LogicalType::Geography(_) => Err("shapes"),
        LogicalType::File => Err("files"),
        LogicalType::List | LogicalType::Map => Err("lists"),
        LogicalType::_Unknown { .. } => return None,
    })
}

/// Returns the meaning by the older converted type. Timestamps of these types are in UTC.
fn of_converted(converted: ConvertedType, column: &Type) -> Result<Kind, &'static str> {
    match converted {
        ConvertedType::DECIMAL => decimal(column),
        ConvertedType::DATE => Ok(Kind::Date),
        ConvertedType::TIME_MILLIS => Ok(Kind::TimeOfDay(TimeUnit::MILLIS)),
        ConvertedType::TIME_MICROS => Ok(Kind::TimeOfDay(TimeUnit::MICROS)),
        ConvertedType::TIMESTAMP_MILLIS => {
            Ok(Kind::Timestamp { unit: TimeUnit::MILLIS, is_utc: true })
        }
        ConvertedType::TIMESTAMP_MICROS => {
            Ok(Kind::Timestamp { unit: TimeUnit::MICROS, is_utc: true })
        }
        ConvertedType::UINT_8
        | ConvertedType::UINT_16
        | ConvertedType::UINT_32
        | ConvertedType::UINT_64 => Ok(Kind::Unsigned),
        ConvertedType::BSON => Err("BSON"),
        ConvertedType::INTERVAL => Err("intervals"),
        _ => Ok(Kind::Plain),
    }
}

fn decimal(column: &Type) -> Result<Kind, &'static str> {
    if column.get_precision() > DECIMAL_DIGITS_MAX {
        return Err("decimals of more than 38 digits");
    }
    u32::try_from(column.get_scale())
        .map(|n_decimals| Kind::Decimal { n_decimals })
        .map_err(|_| "decimals of a negative scale")
}
