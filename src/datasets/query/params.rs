//! Parses the parameters of requests into queries.

use formats::read::time_text::has_zones;
use formats::write::Output;
use model::page::{LIVE_ROWS_DEFAULT, Limit, ROWS_DEFAULT};
use model::resolution::{Resolution, Zone};
use model::row::{BucketExtras, Fill};
use model::timestamp::Timestamp;
use tsdb::catalog::DatasetRef;
use tsdb::span::Order;
use wire::datasets::unescape_name;

use super::{Bounds, Position, RowsQuery, SelectedColumns};
use crate::error::Invalid;
use crate::read::coverage::CoverageQuery;

/// Error text for a request without a dataset, the same as in the upstream's API.
pub(crate) const NO_DATASET: &str = "one of dataset or dataset_name is required";

/// Error text if a request names the dataset twice.
pub(crate) const TWO_DATASETS: &str = "dataset and dataset_name exclude each other";

/// Default of the maximum number of days in a coverage: a year.
const COVERED_DAYS_DEFAULT: usize = 366;

/// Query for all rows or buckets of a range in one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DownloadQuery {
    pub(crate) dataset: DatasetRef,
    pub(crate) resolution: Resolution,
    /// First and last timestamp to download. The time between them is not limited.
    pub(crate) bounds: Bounds,
    pub(crate) output: Output,
    pub(crate) columns: SelectedColumns,
    pub(crate) extras: BucketExtras,
}

/// Names and values of the parameters of a query string, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Params(pub(crate) Vec<(String, String)>);

/// Returns the maximum timestamp for a `text` on the last day of the calendar, which clients use for
/// "forever". This day is after the maximum [`Timestamp`].
fn parse_end_of_time(text: &str) -> Option<Timestamp> {
    let rest = text.strip_prefix("9999-12-31")?;
    let earlier: Result<Timestamp, _> = format!("9999-12-29{rest}").parse();
    earlier.is_ok().then_some(Timestamp::MAX)
}

impl Params {
    /// Returns the first value of the parameter `name`, or `None` if it is missing or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Parses the number of the parameter `name`.
    ///
    /// # Errors
    /// [`Invalid`] if the parameter is given but is not a number.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, Invalid> {
        let wrong = |_| Invalid::from(format!("{name} must be an integer of at least 0"));
        self.get(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// Parses the limit of a page. A limit above the maximum is replaced by the maximum.
    ///
    /// # Errors
    /// [`Invalid`] if the limit is not a number, or is 0.
    pub(crate) fn limit(&self, default: usize) -> Result<Limit, Invalid> {
        let wrong = || Invalid::from("limit must be an integer of at least 1");
        let requested = self.get("limit").map(|text| text.parse::<u64>().ok().filter(|it| *it > 0));
        let requested = requested.map(|requested| requested.ok_or_else(wrong)).transpose()?;
        let requested =
            requested.map_or(default, |requested| usize::try_from(requested).unwrap_or(usize::MAX));
        Ok(Limit::clamp(requested))
    }

    /// Parses the dataset, given by its id or by its name.
    ///
    /// # Errors
    /// [`Invalid`] unless exactly one of the parameters is present, or if the id is not a number.
    pub(crate) fn dataset(&self) -> Result<DatasetRef, Invalid> {
        match (self.get("dataset"), self.get("dataset_name")) {
            (Some(text), None) => {
                let id = text.parse().map(DatasetRef::Id);
                id.map_err(|_| "dataset must be a positive integer".into())
            }
            (None, Some(name)) => Ok(DatasetRef::Name(name.to_owned())),
            (Some(_), Some(_)) => Err(TWO_DATASETS.into()),
            (None, None) => Err(NO_DATASET.into()),
        }
    }

    /// Parses a query for a page of rows.
    ///
    /// # Errors
    /// [`Invalid`] for the first invalid parameter.
    pub(crate) fn rows(&self) -> Result<RowsQuery, Invalid> {
        let order = match self.get("ordering") {
            None | Some("timestamp") => Order::Ascending,
            Some("-timestamp") => Order::Descending,
            Some(_) => return Err("ordering must be timestamp or -timestamp".into()),
        };
        let after = match order {
            Order::Ascending => self.timestamp("after")?,
            Order::Descending => self.timestamp_rounded_up("after")?,
        };
        let position = match (after, self.number("offset")?) {
            (Some(_), Some(_)) => return Err("after and offset exclude each other".into()),
            (Some(cursor), None) => Position::After(cursor),
            (None, offset) => Position::Offset(offset.unwrap_or(0)),
        };
        Ok(RowsQuery {
            dataset: self.dataset()?,
            resolution: self.resolution()?,
            bounds: self.bounds()?,
            order,
            limit: self.limit(ROWS_DEFAULT)?,
            position,
            columns: self.columns()?,
            extras: self.extras()?,
        })
    }

    /// Parses a query for a download.
    ///
    /// # Errors
    /// [`Invalid`] for the first invalid parameter.
    pub(crate) fn download(&self) -> Result<DownloadQuery, Invalid> {
        Ok(DownloadQuery {
            dataset: self.dataset()?,
            resolution: self.resolution()?,
            bounds: self.bounds()?,
            output: self.output(Output::Json)?,
            columns: self.columns()?,
            extras: self.extras()?,
        })
    }

    /// Parses a query for the coverage of `dataset`.
    ///
    /// # Errors
    /// [`Invalid`] for the first invalid parameter.
    pub(crate) fn coverage(&self, dataset: DatasetRef) -> Result<CoverageQuery, Invalid> {
        let (bounds, limit) = (self.bounds()?, self.limit(COVERED_DAYS_DEFAULT)?);
        Ok(CoverageQuery { dataset, bounds, limit, output: self.output(Output::Json)? })
    }

    /// Parses a query for the latest rows, and their output format. The time between the bounds is not
    /// limited.
    ///
    /// # Errors
    /// [`Invalid`] for the first invalid parameter.
    pub(crate) fn live(&self) -> Result<(RowsQuery, Output), Invalid> {
        let query = RowsQuery {
            dataset: self.dataset()?,
            resolution: Resolution::Raw,
            bounds: self.bounds()?,
            order: Order::Descending,
            limit: self.limit(LIVE_ROWS_DEFAULT)?,
            // Begins with the latest row, like an offset of 0. Unlike with an offset, the store does not
            // count the matches, which the response does not contain.
            position: Position::After(Timestamp::MAX),
            columns: self.columns()?,
            extras: BucketExtras::default(),
        };
        Ok((query, self.output(Output::Ndjson)?))
    }

    /// Parses the names of selected columns.
    ///
    /// # Errors
    /// [`Invalid`] if a name is empty.
    pub(crate) fn columns(&self) -> Result<SelectedColumns, Invalid> {
        let Some(text) = self.get("columns") else { return Ok(SelectedColumns::default()) };
        let names: Vec<String> = text.split(',').map(|name| unescape_name(name.trim())).collect();
        if names.iter().any(String::is_empty) {
            return Err("columns must be names separated by commas".into());
        }
        Ok(SelectedColumns(Some(names)))
    }

    /// # Errors
    /// [`Invalid`] if a parameter is invalid, or if it only applies to buckets but the query is for raw
    /// rows.
    fn extras(&self) -> Result<BucketExtras, Invalid> {
        let wrong = |_| Invalid::from("fill must be one of none, null, previous, linear");
        let fill = self.get("fill").map_or(Ok(Fill::None), str::parse).map_err(wrong)?;
        let wrong = |_| Invalid::from("complete must be true or false");
        let complete = self.get("complete").map_or(Ok(false), str::parse).map_err(wrong)?;
        let time_zone = self.time_zone()?;
        let extras = BucketExtras { fill, complete, time_zone };
        if fill != Fill::None && time_zone.is_some() {
            return Err("fill and time_zone exclude each other".into());
        }
        if extras != BucketExtras::default() && self.resolution()? == Resolution::Raw {
            return Err("fill and complete apply to buckets; add a resolution such as 1h".into());
        }
        Ok(extras)
    }

    fn output(&self, default: Output) -> Result<Output, Invalid> {
        let wrong = |_| "output must be one of json, csv, ndjson, parquet, arrow".into();
        self.get("output").map_or(Ok(default), |name| name.parse().map_err(wrong))
    }

    fn resolution(&self) -> Result<Resolution, Invalid> {
        let text = self.get("resolution").unwrap_or("raw");
        let wanted =
            "resolution must be raw, or a length of up to 30 days such as 45s, 5m, 1h or 1d";
        let resolution: Resolution = text.parse().map_err(|_| Invalid::from(wanted))?;
        let Some(zone) = self.time_zone()? else { return Ok(resolution) };
        let wrong = "time_zone applies to buckets of whole days; use a resolution such as 1d";
        resolution.in_zone(zone).ok_or_else(|| wrong.into())
    }

    fn time_zone(&self) -> Result<Option<Zone>, Invalid> {
        let Some(name) = self.get("time_zone") else { return Ok(None) };
        let wrong = |_| {
            if has_zones() {
                format!("unknown time_zone {name}; use a name such as Europe/Berlin")
            } else {
                "time_zone is unavailable: the service has no time zone database".to_owned()
            }
        };
        Ok(Some(name.parse().map_err(wrong)?))
    }

    /// Parses the bounds.
    ///
    /// # Errors
    /// [`Invalid`] if a bound is not a timestamp, or if both bounds are between two microseconds.
    pub(crate) fn bounds(&self) -> Result<Bounds, Invalid> {
        let (start, end) = (self.timestamp_rounded_up("start")?, self.timestamp("end")?);
        if start > end && end.is_some() && self.timestamp("start")? <= end {
            return Err("no microsecond is between start and end".into());
        }
        Ok(Bounds { start, end })
    }

    /// Parses a timestamp and rounds it up to a microsecond, so that no row before it is selected.
    fn timestamp_rounded_up(&self, name: &'static str) -> Result<Option<Timestamp>, Invalid> {
        let text = self.get(name).unwrap_or_default();
        Ok(self.timestamp(name)?.map(|timestamp| timestamp.rounded_up(text)))
    }

    /// Parses a timestamp and rounds it down to a microsecond.
    fn timestamp(&self, name: &'static str) -> Result<Option<Timestamp>, Invalid> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // An unescaped plus sign in a time zone offset has been decoded to a space.
        let text = text.trim_end().replace(' ', "+");
        let timestamp = text.parse().or_else(|error| parse_end_of_time(&text).ok_or(error));
        timestamp.map(Some).map_err(|_| {
            let example = "2026-07-30T21:57:00Z";
            Invalid::from(format!("{name} must be an RFC 3339 timestamp such as {example}"))
        })
    }
}
