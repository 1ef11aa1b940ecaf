//! A look at the beginning of a file: its fields, what they seem to hold, and which is the moment.

use std::path::Path;

use model::dataset::Dtype;

use super::{
    BadRow, FileError, Format, Place, ReadOptions, Records, Stop,
    cell::Cell,
    moment::{TimeUnit, moment, number},
    source::Input,
};

/// Records looked at. More would say more of what a column holds, and take longer than a second.
pub const SURVEYED_RECORDS: usize = 10_000;

/// Names of the field with the moment, the likeliest first, in lower case.
const TIME_NAMES: [&str; 11] = [
    "timestamp",
    "time",
    "open_time",
    "datetime",
    "date_time",
    "date",
    "ts",
    "t",
    "unix",
    "unix_timestamp",
    "open time",
];

/// Whole numbers of more than this do not fit a column of floats exactly.
const EXACT_MAX: i64 = 1 << 53;

/// Every unit, the coarsest first.
const UNITS: [TimeUnit; 4] =
    [TimeUnit::Seconds, TimeUnit::Millis, TimeUnit::Micros, TimeUnit::Nanos];

/// What the beginning of a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The fields, in their order.
    pub fields: Vec<Field>,
    /// How many records were looked at.
    pub n_records: usize,
}

/// A field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it seems to hold: numbers are floats, unless they are whole and too large for that, or
    /// the file itself says otherwise.
    pub dtype: Dtype,
    /// The first value, as it stands in the file; none where there is none.
    pub example: Option<String>,
    /// How many of its values are moments.
    moments: Moments,
    /// The unit of its numbers, if they are moments.
    unit: Option<TimeUnit>,
}

/// How many values of a field are moments. One that is none does not make another field the moment:
/// reading tells of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Moments {
    /// Less than half.
    Few,
    /// At least half: enough for a field that is called like it.
    Half,
    /// At least nine in ten: enough for one that is not.
    Most,
}

/// What is known of a field so far.
struct Seen {
    name: String,
    example: Option<String>,
    is_boolean: bool,
    is_float: bool,
    n_values: usize,
    n_moments: usize,
    whole: Whole,
    /// How many of its numbers are of the size of each unit.
    units: [(TimeUnit, usize); 4],
}

/// What is known of a field as whole numbers.
struct Whole {
    is_all: bool,
    /// Whether one of them is too large for a float.
    is_large: bool,
    /// Whether all of them are written as such.
    is_declared: bool,
}

impl Survey {
    /// What whoever knows a file says that it holds: the field with the moment, and the others with
    /// what becomes of them.
    #[must_use]
    pub fn told(time: &str, fields: impl IntoIterator<Item = (String, Dtype)>) -> Self {
        let field =
            |(name, dtype), moments| Field { name, dtype, example: None, moments, unit: None };
        let time = field((time.to_owned(), Dtype::String), Moments::Most);
        let others = fields.into_iter().map(|told| field(told, Moments::Few));
        Self { fields: std::iter::once(time).chain(others).collect(), n_records: 0 }
    }

    /// The field with the moment, and the unit of its numbers if they are such: `named`, or the one
    /// that is called like it, or the first that holds hardly anything else.
    ///
    /// # Errors
    /// [`FileError::NoTime`], [`FileError::NoSuchTime`].
    pub fn time(&self, named: Option<&str>) -> Result<(&str, Option<TimeUnit>), FileError> {
        let by_name =
            |name: &str| self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        let found = match named {
            Some(named) => by_name(named),
            None => TIME_NAMES
                .iter()
                .find_map(|name| by_name(name).filter(|field| field.moments >= Moments::Half))
                .or_else(|| self.fields.iter().find(|field| field.is_likely_time())),
        };
        let none = || {
            let fields: Vec<_> = self.fields.iter().map(|field| field.name.as_str()).collect();
            let fields = fields.join(", ");
            match named {
                Some(named) => FileError::NoSuchTime { named: named.to_owned(), fields },
                None => FileError::NoTime { fields },
            }
        };
        let field = found.ok_or_else(none)?;
        Ok((&field.name, field.unit))
    }
}

impl Field {
    /// Whether it holds moments though it is not called so: numbers only where they are large, as
    /// prices are moments of 1970, too.
    fn is_likely_time(&self) -> bool {
        self.moments == Moments::Most
            && match self.unit {
                None => self.dtype == Dtype::String,
                Some(unit) => unit >= TimeUnit::Millis,
            }
    }
}

/// Looks at the first records of the file at `path`. Those that are none are passed over: reading
/// the file tells of them.
///
/// # Errors
/// [`FileError`]; [`FileError::Empty`] if there are none.
pub fn survey(path: &Path, options: ReadOptions) -> Result<Survey, FileError> {
    let mut records = Records::open(Input::open(path)?, options, Place::default())?;
    let mut seen: Vec<Seen> = Vec::new();
    let (mut n_records, mut first_bad) = (0, None);
    for _ in 0..SURVEYED_RECORDS {
        let read = records.next(&mut |field, name, cell| {
            while seen.len() <= field {
                seen.push(Seen::new(name));
            }
            if let Some(seen) = seen.get_mut(field) {
                seen.look(cell);
            }
        });
        match read {
            Ok(Some(_)) => n_records += 1,
            Ok(None) => break,
            Err(Stop::Bad(bad)) => drop(first_bad.get_or_insert(bad)),
            Err(Stop::File(error)) => return Err(error),
        }
    }
    match first_bad {
        _ if n_records > 0 => {}
        None => return Err(FileError::Empty),
        Some(BadRow { line, reason }) => {
            return Err(FileError::form(format_args!("line {line}: {reason}")));
        }
    }
    let is_typed = options.format == Format::Parquet;
    let fields = seen.into_iter().map(|seen| seen.conclude(is_typed)).collect();
    Ok(Survey { fields, n_records })
}

impl Seen {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            example: None,
            is_boolean: true,
            is_float: true,
            n_values: 0,
            n_moments: 0,
            whole: Whole { is_all: true, is_large: false, is_declared: true },
            units: UNITS.map(|unit| (unit, 0)),
        }
    }

    fn look(&mut self, cell: Cell<'_>) {
        if cell.is_absent() {
            return;
        }
        self.example.get_or_insert_with(|| cell.shown());
        self.is_boolean &= cell.boolean().is_some();
        let float = cell.float();
        self.is_float &= float.is_some();
        self.whole.is_all &= cell.integer().is_some();
        self.whole.is_large |= cell.integer().is_some_and(|number| number.abs() > EXACT_MAX);
        self.whole.is_declared &= matches!(cell, Cell::Integer(_));
        self.n_values += 1;
        self.n_moments += usize::from(moment(cell, None).is_ok());
        let unit = number(cell).map(TimeUnit::of);
        if let Some((_, n_of)) = self.units.iter_mut().find(|(of, _)| Some(*of) == unit) {
            *n_of += 1;
        }
    }

    /// How many of the values are moments.
    fn moments(&self) -> Moments {
        match () {
            () if self.n_moments == 0 || self.n_moments * 2 < self.n_values => Moments::Few,
            () if self.n_moments * 10 < self.n_values * 9 => Moments::Half,
            () => Moments::Most,
        }
    }

    /// The unit that most of the numbers are of the size of, the finer of two.
    fn unit(&self) -> Option<TimeUnit> {
        let most = self.units.iter().filter(|(_, n_of)| *n_of > 0).max_by_key(|(_, n_of)| *n_of);
        most.map(|(unit, _)| *unit)
    }

    /// What it holds; `is_typed` says that the file itself tells whole numbers from others.
    fn conclude(self, is_typed: bool) -> Field {
        let dtype = match () {
            () if self.example.is_none() => Dtype::Float,
            () if self.is_boolean => Dtype::Boolean,
            () if is_typed && self.whole.is_declared => Dtype::Integer,
            () if self.is_float && self.whole.is_all && self.whole.is_large => Dtype::Integer,
            () if self.is_float => Dtype::Float,
            () => Dtype::String,
        };
        Field {
            moments: self.moments(),
            unit: self.unit(),
            name: self.name,
            dtype,
            example: self.example,
        }
    }
}
